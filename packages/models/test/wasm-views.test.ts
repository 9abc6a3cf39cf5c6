import { compose, hide, id, queries } from '@kv/core';
import type { HookPiece, Policy } from '@kv/core';
import { hostRuntime, loadModel, generate, Sequence, slotScores } from '../src/index.ts';
import type { GenerateResult, HostModel, ObservedRow } from '../src/index.ts';
import { referenceEngine, stepTogether } from '@kv/engine';
import { wasmRuntime } from '@kv/engine-wasm';
import { relative } from '@kv/engine-testing/run';
import { fixture } from '@kv/model-testing/fixture';
import { inTurn } from '@kv/model-testing/in-turn';
import { reference } from '@kv/model-testing/reference';
import { parsePolicy } from '@kv/policies';
import { describe, expect, test } from 'vitest';
import { modules } from './modules.ts';

const newest = modules.at(-1)![1]; // form 0 is available wherever tests run
const ids = Array.from({ length: 60 }, (_, i) => (i * 37 + (i >> 3)) % 500);

/** A third party's view: numbers of a mask by slot, of this many rows. */
const numbers = (rows: 'one' | 'kv' | 'query', of: (row: number, slot: number) => number): HookPiece =>
  hide(`third ${rows}`, { during: 'decode', needs: [queries(1)] }, ({ at, ops }) => {
    const shape = [{ one: 1, kv: at.kvHeads, query: at.queryHeads }[rows], at.slots] as const,
      data = Float32Array.from({ length: shape[0] * shape[1] }, (_, i) => of(Math.floor(i / at.slots), i % at.slots));
    return { mask: ops.from({ data, shape: [...shape] }) };
  })();
const window = (sinks: number, width: number): HookPiece =>
  hide('window', { during: 'decode' }, () => ({ sinks, lower: (t) => t - width }))();
const policies: Readonly<Record<string, Policy>> = {
  ...Object.fromEntries(
    [
      'quest(slots=24,page=8,dense=1)',
      'doubleSparsity(slots=24,channels=4)',
      'hshare(slots=24,sinks=4,local=8,channels=4)',
      'topKOracle(slots=24)',
      'psaw(phi=0.3)',
      'cpe(budget=24,sinks=4,local=8,phi=0.5,psi=0.6)',
    ].map((text) => [text, parsePolicy(text)]),
  ),
  'nothing shown': compose(
    id,
    numbers('query', () => 0),
  ),
  'neither 0 nor 1': compose(
    id,
    numbers('one', (_, slot) => [0, -0.5, 3, -0][slot % 4]),
  ),
  'other rows of a KV head': compose(
    id,
    numbers('kv', (row, slot) => (slot + row) % 3),
  ),
  'two views and a window': compose(
    id,
    numbers('query', (row, slot) => (slot + row) % 2),
    numbers('one', (_, slot) => slot % 5),
    window(3, 30),
  ),
};

interface Run extends GenerateResult {
  readonly rows: readonly ObservedRow[];
}
async function run(model: HostModel, policy: Policy, certified: boolean): Promise<Run> {
  const rows: ObservedRow[] = [];
  const result = await generate(model, {
    ids: ids.map((token) => token % model.config.vocab).slice(0, model.config.maxPositions - 16),
    policy,
    maxNewTokens: 6,
    logits: 1,
    ...(certified && { certify: { row: (row: ObservedRow) => rows.push(row), conclude: () => ({}) } }),
  });
  return { ...result, rows };
}

describe.each([
  ['llama', reference('data/goldens/llama')],
  ['gemma2, with windows and a soft cap', fixture('gemma2')],
])('%s', (_, path) => {
  const plain = loadModel(path, { runtime: hostRuntime({ engine: referenceEngine() }) }),
    fused = loadModel(path, { runtime: wasmRuntime(newest, { threads: 2, exact: true }) });
  test.each(inTurn(Object.entries(policies), 2))(
    'under %s prompt and decoded tokens are fused: tokens, logits and shown slots of the plain loops',
    async (_name, policy) => {
      const want = await run(await plain, policy, true),
        model = await fused;
      for (const certified of [true, false]) {
        const got = await run(model, policy, certified),
          { fusedPasses = 0, layeredPasses = 0 } = got.report.counts;
        expect(got.tokens).toEqual(want.tokens);
        expect(relative(got.logits!.at(-1)!, want.logits!.at(-1)!)).toBeLessThan(1e-5);
        if (certified) expect(got.rows.map(({ kept }) => kept)).toEqual(want.rows.map(({ kept }) => kept));
        expect({ fusedPasses, layeredPasses }).toEqual({ fusedPasses: got.report.counts.steps + 1, layeredPasses: 0 });
      }
    },
  );
});

test('a view that hides nothing gives the numbers of no view, to rounding', async () => {
  const model = await loadModel('embedded', { runtime: wasmRuntime(newest, { threads: 2, exact: true }) }),
    [bare, viewed] = [new Sequence(model), new Sequence(model)],
    prompt = Array.from({ length: 700 }, (_, i) => (i * 37) % model.config.vocab);
  await bare.prefill(prompt);
  await viewed.prefill(prompt, {
    policy: compose(
      id,
      numbers('one', () => 1),
    ),
  });
  for (const token of [5, 6, 7]) {
    for (const sequence of [bare, viewed]) await sequence.step(token);
    expect(relative((await viewed.logits())[0], (await bare.logits())[0])).toBeLessThan(1e-5);
  }
  model.destroy();
});

test('under views, in a batch or where weights are summed, a sequence gives what it gives alone', async () => {
  const model = await loadModel(reference('data/goldens/llama'), { runtime: wasmRuntime(newest, { exact: true }) }),
    texts = [
      'quest(slots=24,page=8)',
      'h2o ∘ topK',
      'h2o ∘ topK ∘ psaw(phi=0.3)',
      'h2o ∘ adaKV ∘ topK ∘ quest(slots=24,page=8)',
    ],
    start = async (text: string): Promise<Sequence> => {
      const sequence = new Sequence(model);
      await sequence.prefill(ids, { policy: parsePolicy(text), budget: 40 });
      return sequence;
    },
    [alone, together] = [await Promise.all(texts.map(start)), await Promise.all(texts.map(start))];
  const passes = ({ memory }: Sequence): readonly (number | undefined)[] => {
    const { fusedPasses, layeredPasses } = memory.caches.context.counters;
    return [fusedPasses, layeredPasses];
  };
  const before = alone.map(passes);
  for (const token of [7, 8, 9]) {
    expect(await stepTogether(together.map((sequence) => ({ sequence, token })))).toEqual(texts.map(() => undefined));
    for (const [i, sequence] of alone.entries()) {
      await sequence.step(token);
      expect((await together[i].logits())[0], texts[i]).toEqual((await sequence.logits())[0]);
    }
  }
  for (const [i, sequence] of alone.entries()) {
    if (i === 0) continue; // a view has no scores
    const [want, got] = await Promise.all(
      [sequence, together[i]].map((each) => slotScores(each, parsePolicy(texts[i]), 1)),
    );
    for (const [g, { length }] of sequence.kept()[1].entries())
      expect(got[g].subarray(0, length), texts[i]).toEqual(want[g].subarray(0, length));
  }
  expect(
    alone.map(passes).map(([fused = 0, layered = 0], i) => [fused - before[i][0]!, layered - before[i][1]!]),
  ).toEqual(texts.map(() => [3, 0]));
  model.destroy();
});

// of 60 tokens 40 are kept before the first token, or 60 until the first event
test.each([
  ['newestQueryAttention ∘ topK ∘ psaw(phi=0.3) ∘ cadence(every=2)', 60],
  ['newestQueryAttention ∘ topK ∘ quest(slots=24,page=8) ∘ cadence(every=2)', 60],
  ['newestQueryAttention ∘ adaKV ∘ topK ∘ psaw(phi=0.3) ∘ cadence(every=2)', 40],
])(
  'in %s events read attention that the view hides nothing from, and heads see their own slots: as in plain loops',
  async (text, budget) => {
    const runtimes = [hostRuntime({ engine: referenceEngine() }), wasmRuntime(newest, { exact: true })],
      policy = parsePolicy(text);
    const [want, got] = await Promise.all(
      runtimes.map(async (runtime) => {
        const model = await loadModel(reference('data/goldens/llama'), { runtime }),
          result = await generate(model, { ids, policy, budget, maxNewTokens: 6, logits: 1 });
        model.destroy();
        return result;
      }),
    );
    expect(got.report.counts['layeredPasses']).toBe(0);
    expect(got.report.counts['events']).toBeGreaterThan(1);
    expect([got.tokens, got.report.kept]).toEqual([want.tokens, want.report.kept]);
    expect(relative(got.logits!.at(-1)!, want.logits!.at(-1)!)).toBeLessThan(1e-5);
  },
);
