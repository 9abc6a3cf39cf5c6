import { loadModel, Sequence, slotScores } from '@kv/models';
import type { Model } from '@kv/models';
import { policy } from '@kv/policies';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';

let model: Model, ids: readonly number[];
beforeAll(async () => {
  model = await loadModel('embedded');
  ({ ids } = model.tokenizer.encode(
    'All of the clocks in April were striking thirteen, and few heard them. '.repeat(12),
  ));
});
afterAll(() => model.destroy());

/** Scorers of keys before rotation: what they say does not depend on where slots stand. */
const scorers = ['leverage | topK', 'eachChunk(leverage,size=64) | topK'];

it('keys before rotation are those of slots that were never moved, wherever slots stand since', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 90, max: 150 }),
      fc.array(fc.integer({ min: 10, max: 50 }), { minLength: 1, maxLength: 5 }),
      fc.constantFrom(...scorers),
      fc.constantFrom('streaming(sinks=4) | topK', 'knorm | topK', 'random | topK'),
      async (window, parts, scorer, by) => {
        // of the first layer, whose keys before rotation are those of its tokens, whatever was evicted
        const [moved, still] = [window, model.config.maxPositions].map(
          (most) => new Sequence(model, undefined, { window: most }),
        ) as [Sequence, Sequence];
        for (const sequence of [moved, still]) {
          await sequence.prefill(ids.slice(0, 80), { policy: policy(by), budget: 30, policies: [policy(scorer)] });
          for (const [i, size] of parts.entries()) {
            await sequence.append(ids.slice(80 + 50 * i, 80 + 50 * i + size));
            await sequence.evict(by, 30);
          }
        }
        // what moved did not choose other slots of the first layer
        fc.pre(JSON.stringify(moved.kept()[0]) === JSON.stringify(still.kept()[0]));
        const [of, as] = await Promise.all([moved, still].map(async (each) => await slotScores(each, scorer, 0)));
        const rows = (scores: unknown): readonly number[] =>
          (scores as readonly (readonly number[])[]).flatMap((row) => [...row]);
        for (const [i, x] of rows(of).entries()) expect(x).toBeCloseTo(rows(as)[i]!, 3);
        for (const each of [moved, still]) each.destroy();
      },
    ),
    { numRuns: 25 },
  );
});
