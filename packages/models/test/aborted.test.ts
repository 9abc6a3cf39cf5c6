import { generate, loadModel, Sequence } from '@kv/models';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Model } from '@kv/models';

let model: Model, ids: readonly number[];
beforeAll(async () => {
  model = await loadModel('embedded');
  ({ ids } = model.tokenizer.encode(
    'All of the clocks in April were striking thirteen, and few heard them. '.repeat(4),
  ));
});
afterAll(() => model.destroy());

/** Returns a signal that aborts as soon as something holds. */
function abortOnce(holds: () => boolean): AbortSignal {
  const controller = new AbortController();
  const look = (): void => {
    if (holds()) controller.abort(new Error('enough'));
    else setImmediate(look);
  };
  look();
  return controller.signal;
}

it.each(['kvzip', 'crystalcache', 'kvzipModelWide'])(
  'an abort is heard within the second pass of %s, and nothing is evicted',
  async (policy) => {
    const sequence = new Sequence(model),
      { counts } = sequence.stats;
    const signal = abortOnce(() => counts.providerPasses > 0);
    await expect(sequence.prefill(ids, { policy, budget: 40, signal })).rejects.toThrow('enough');
    expect(sequence.kept().flat()).toEqual(
      sequence
        .kept()
        .flat()
        .map(() => ids.map((_, p) => p)),
    );
    expect(counts.events).toBe(0);
    // what the pass left half done is not taken for the whole
    const again = new Sequence(model);
    await again.prefill(ids, { policy, budget: 40 });
    await sequence.evict(policy, 40);
    expect(sequence.kept()).toEqual(again.kept());
    for (const each of [sequence, again]) each.destroy();
  },
);

it('a report of a run that was aborted within a block drops no token that was not fed', () =>
  fc.assert(
    fc.asyncProperty(
      fc.constantFrom(undefined, 'snapkv', 'h2o'),
      fc.integer({ min: 1, max: 60 }),
      fc.integer({ min: 0, max: 12 }),
      async (policy, block, turns) => {
        let left = turns;
        const { report } = await generate(model, {
          ids,
          block,
          maxNewTokens: 2,
          ...(policy && { policy, budget: ids.length }),
          signal: abortOnce(() => left-- === 0),
        });
        expect(report.held.tokens.dropped).toBe(0);
        expect(report.held.slots.dropped).toBe(0);
        expect(report.held.tokens.fed % block === 0 || report.held.tokens.fed >= ids.length).toBe(true);
      },
    ),
    { numRuns: 40 },
  ));
