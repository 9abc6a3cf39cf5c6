import { compose, inputSignal, scorer } from '@kv/core';
import type { Policy } from '@kv/core';
import { referenceEngine } from '@kv/engine';
import { wasmRuntime } from '@kv/engine-wasm';
import { relative } from '@kv/engine-testing/run';
import { fixture } from '@kv/model-testing/fixture';
import { inTurn } from '@kv/model-testing/in-turn';
import { h2o } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import { moments } from '@kv/transforms-moments';
import { describe, expect, test } from 'vitest';
import { hostRuntime, loadModel, Sequence } from '../src/index.ts';
import type { HostModel } from '../src/index.ts';
import { modules } from './modules.ts';

const [, newest] = modules.at(-1)!;

/** What a layer reads of a token, as a number of its slot. */
const loudness = inputSignal('loudness', { rows: 'layer' }, ({ ops, input }) => ops.norm(input)),
  loud = scorer('loud', { needs: [loudness] }, ({ ops, at, loudness: x }) => ops.broadcast(x, at.kvHeads));
const policies: Readonly<Record<string, Policy>> = {
  'input signals': compose(loud(), topK()),
  terms: compose(h2o({ recent: 2 }), topK(), moments()),
  both: compose(loud(), topK(), moments({ cross: false })),
};
const families = ['llama', 'gemma2', 'gemma3', 'lfm2', 'qwen3_5', 'granitemoehybrid', 'gpt_oss'];

async function run(model: HostModel, policy: Policy) {
  const sequence = new Sequence(model),
    ids = Array.from({ length: 60 }, (_, i) => (i * 37 + (i >> 3)) % model.config.vocab),
    counts = (): readonly number[] => {
      const { fusedPasses = 0, layeredPasses = 0 } = sequence.memory.caches.context.counters;
      return [fusedPasses, layeredPasses];
    };
  await sequence.prefill(ids.slice(0, 40), { policy, budget: 12, block: 16 });
  const blocks = counts();
  for (const id of ids.slice(40, 49)) await sequence.step(id, 4);
  const tokens = counts(),
    first = await sequence.logits();
  await sequence.append(ids.slice(49, 56), { rows: 2 });
  const out = { kept: sequence.kept(), logits: [...first, ...(await sequence.logits())], blocks, tokens };
  sequence.destroy();
  return out;
}

describe.each(inTurn(families, 4))('%s', (family) => {
  const plain = loadModel(fixture(family), { runtime: hostRuntime({ engine: referenceEngine() }) }),
    module = loadModel(fixture(family), { runtime: wasmRuntime(newest, { threads: 2, exact: true }) });
  test.each(Object.entries(policies))(
    'what the host computes within tokens of the module is what it computes alone: %s',
    async (name, policy) => {
      const [want, got] = [await run(await plain, policy), await run(await module, policy)];
      expect(got.kept).toEqual(want.kept);
      got.logits.forEach((row, i) => expect(relative(row, want.logits[i])).toBeLessThan(1e-4));
      // no policy here hides slots, and these families have no experts but gpt_oss
      if (family === 'gpt_oss') return;
      const [[blocks, between], [tokens, layered]] = [got.blocks, got.tokens];
      expect([tokens! - blocks!, layered! - between!]).toEqual([9, 0]);
      if (name === 'input signals') expect(got.blocks).toEqual([3, 0]);
    },
  );
});
