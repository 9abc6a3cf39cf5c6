import { generate } from '@kv/models';
import { inTurn } from '@kv/model-testing/in-turn';
import { parsePolicy } from '@kv/policies';
import { expect } from 'vitest';
import { gpuTests } from './device.ts';
import type { Report } from '@kv/models';
import { both, fixture } from './sequences.ts';

const gpuTest = await gpuTests();
/** Ids none of which comes twice: equal tokens have keys that score the same. */
const all = Array.from({ length: 40 }, (_, i) => (i * 37 + 11) % 64);

const decided = ({ budget, budgets, kept, notes, mostSlots, bound }: Report): object => ({
  ...{ budget, budgets, kept, notes, mostSlots, bound },
});

gpuTest(
  'under a share what a policy forces stays on the device as on the host: short prompts, blocks, events while decoding',
  (gpu) =>
    both(gpu, fixture('llama'), async (host, device) => {
      for (const text of inTurn(
        [
          'snapkv(window=16)',
          'tova ∘ mandatory(prompt=true) ∘ topK',
          'snapkv(window=12) ∘ adaKV ∘ topK',
          'h2o(recent=0.5) ∘ mandatory(sinks=4,recent=2) ∘ topK',
        ],
        2,
      ))
        for (const [n, how] of [
          [1, {}],
          [14, { block: 5 }],
          [24, {}],
          [40, { block: 16, every: 3 }],
        ] as const) {
          const options = {
              ids: all.slice(0, n),
              policy: parsePolicy(text),
              budget: '25%',
              maxNewTokens: 5,
              ...how,
            } as const,
            [want, got] = [await generate(host, options), await generate(device, options)];
          expect([text, n, got.tokens]).toEqual([text, n, want.tokens]);
          expect(decided(got.report)).toEqual(decided(want.report));
          expect(want.report.notes.join()).toMatch(/^(?:kept more than 25%, as .* more slots)?/);
          expect(got.report.mostSlots).toBeLessThanOrEqual(got.report.bound.slots);
        }
    }),
);
