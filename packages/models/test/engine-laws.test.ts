import { each, engineLaws, type EngineSequence } from '@kv/laws';
import type { Policy } from '@kv/core';
import { describe, test } from 'vitest';
import { floats, commonHeads } from '@kv/engine';
import { loadModel, Sequence } from '../src/index.ts';
import { fixture } from '@kv/model-testing/fixture';

/** All layers with slots, and most with a state instead. */
const models = await Promise.all(
  ['llama', 'lfm2'].map(async (name) => [name, await loadModel(fixture(name))] as const),
);

/** Adapts a sequence of this package to the laws of engines. */
function hosted(policy: Policy, sequence: Sequence): EngineSequence {
  const { kvHeads: G, headDim: d, queryHeads } = commonHeads(sequence.model.config);
  return {
    async feed(ids) {
      await (sequence.progress.length === 0 ? sequence.prefill(ids, { policies: [policy] }) : sequence.append(ids));
    },
    evict: (budget) => sequence.evict(policy, budget),
    async cache() {
      const { layers, ids } = await sequence.memory.snapshot();
      return {
        queryHeads,
        length: ids.length,
        layers: layers.map(({ slots: { keys, values, positions } }) => ({
          keys: { data: floats(keys.codes), shape: [G, positions.length / G, d] },
          values: { data: floats(values.codes), shape: [G, positions.length / G, d] },
          positions: { data: positions, shape: [G, positions.length / G] },
        })),
      };
    },
    fork: async () => hosted(policy, sequence.fork()),
  };
}

describe.each(models)('@kv/models as an engine of %s', (_, model) =>
  each(
    engineLaws(
      { vocab: model.config.vocab, open: async (policy) => hosted(policy, new Sequence(model)) },
      { runs: 12 },
    ),
    test,
  ),
);
