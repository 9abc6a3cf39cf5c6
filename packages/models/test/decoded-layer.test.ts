import { wasmRuntime } from '@kv/engine-wasm';
import { hostRuntime, referenceEngine, commonHeads } from '@kv/engine';
import { reference } from '@kv/model-testing/reference';
import { describe, expect, test } from 'vitest';
import { loadModel, Sequence } from '../src/index.ts';
import { modules } from './modules.ts';

const newest = modules.at(-1)![1]; // form 0 is available wherever tests run

describe.each([
  ['the module', wasmRuntime(newest, { exact: true })],
  ['plain loops', hostRuntime({ engine: referenceEngine() })],
])('%s', (_, runtime) => {
  test.each(['keydiff', 'lagkv', 'compactor', 'cur'])(
    '%s reads a cache of 8 bits as f32, one layer at a time',
    async (policy) => {
      const model = await loadModel(reference('data/goldens/llama'), { runtime, cache: 'q8' }),
        { vocab } = model.config,
        { kvHeads: G, headDim: d } = commonHeads(model.config),
        ids = Array.from({ length: 150 }, (_, i) => (37 * i) % vocab);
      for (const block of [undefined, 50]) {
        const sequence = new Sequence(model),
          { ledger } = sequence.memory;
        await sequence.prefill(ids, { policy, budget: 40, ...(block !== undefined && { block }) });
        const { live, allocated, peak } = ledger.entry('decoded'),
          layer = 2 * 4 * G * d * 150; // keys and values
        expect([live, allocated]).toEqual([0, 0]);
        expect(peak).toBeGreaterThan(0);
        expect(peak).toBeLessThanOrEqual(layer);
        expect(ledger.entry('cache').live).toBe(sequence.memory.slots.kept().flat(2).length * (2 * (d + 4) + 4));
        sequence.destroy();
      }
      model.destroy();
    },
  );
});
