import { fixture } from '@kv/model-testing/fixture';
import { cadence, compose, rerotate } from '@kv/core';
import type { Budget, Policy } from '@kv/core';
import { roundedLinearBudgets } from '@kv/allocators-pyramidal';
import { h2o, snapkv, streaming } from '@kv/scorers-attention';
import { knorm } from '@kv/scorers-knorm';
import { sponsorship } from '@kv/scorers-sponsorship';
import { topK } from '@kv/selectors-top-k';
import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { loadCache, loadModel, saveCache, Sequence } from '../src/index.ts';
import type { Model } from '../src/index.ts';

let model: Model;
beforeAll(async () => {
  model = await loadModel(fixture('llama'));
});

const POLICIES: readonly Policy[] = [
  compose(streaming(), topK()),
  compose(knorm(), topK()),
  compose(snapkv({ window: 8 }), topK()),
  compose(snapkv({ window: 8 }), roundedLinearBudgets({ window: 8 }), topK()),
  compose(h2o({ recent: 0.5 }), topK()),
  compose(sponsorship(), topK()),
  compose(streaming({ sinks: 2 }), topK(), cadence({ every: 3 })),
  compose(knorm(), topK(), rerotate()),
];

/** One action on a session. */
type Act =
  | { readonly kind: 'prefill'; readonly tokens: number; readonly block: number | undefined; readonly budget?: Budget }
  | { readonly kind: 'append'; readonly tokens: number }
  | { readonly kind: 'decodeUnder'; readonly policy: number; readonly budget: Budget | undefined }
  | { readonly kind: 'evict'; readonly policy: number; readonly budget: Budget }
  | { readonly kind: 'step'; readonly count: number; readonly every: number | undefined }
  | { readonly kind: 'fork' };

const tokens = fc.integer({ min: 1, max: 14 }),
  policies = fc.nat(POLICIES.length - 1),
  budgets: fc.Arbitrary<Budget> = fc.oneof(
    fc.integer({ min: 1, max: 100 }).map((x): Budget => `${x}%`),
    fc.integer({ min: 8, max: 24 }),
  ),
  sizes = fc.option(fc.integer({ min: 2, max: 9 }), { nil: undefined }),
  acts: fc.Arbitrary<Act> = fc.oneof(
    fc.record({ kind: fc.constant('prefill' as const), tokens, block: sizes, budget: budgets }),
    fc.record({ kind: fc.constant('prefill' as const), tokens, block: sizes }),
    fc.record({ kind: fc.constant('append' as const), tokens }),
    fc.record({
      kind: fc.constant('decodeUnder' as const),
      policy: policies,
      budget: fc.option(budgets, { nil: undefined }),
    }),
    fc.record({ kind: fc.constant('evict' as const), policy: policies, budget: budgets }),
    fc.record({ kind: fc.constant('step' as const), count: fc.integer({ min: 1, max: 7 }), every: sizes }),
    fc.record({ kind: fc.constant('fork' as const) }),
  );

/** A session, and its active policy. */
interface Session {
  readonly sequence: Sequence;
  readonly policy: Policy;
}

async function act({ sequence, policy }: Session, next: Act, ids: () => number): Promise<Session> {
  const some = (n: number): number[] => Array.from({ length: n }, ids);
  switch (next.kind) {
    case 'prefill':
      await sequence.prefill(some(next.tokens), { policy, budget: next.budget, block: next.block, policies: POLICIES });
      return { sequence, policy };
    case 'append':
      await sequence.append(some(next.tokens));
      return { sequence, policy };
    case 'decodeUnder':
      sequence.decodeUnder(POLICIES[next.policy], next.budget);
      return { sequence, policy: POLICIES[next.policy] };
    case 'evict':
      await sequence.evict(POLICIES[next.policy], next.budget);
      return { sequence, policy: POLICIES[next.policy] };
    case 'step':
      for (const id of some(next.count)) await sequence.step(id, next.every);
      return { sequence, policy };
    case 'fork': {
      const fork = sequence.fork();
      sequence.destroy();
      return { sequence: fork, policy };
    }
  }
}

/** Returns a sequence's observable state: what it keeps, allows and would generate next. */
const shown = async ({ sequence }: Session): Promise<object> => {
  const { memory, active, progress } = sequence,
    { share, slots, follows } = active.budget ?? {},
    { length, promptLength } = progress,
    { window } = memory.caches.context;
  return {
    ...{ kept: sequence.kept(), share, slots, follows, logits: await sequence.logits(), length, promptLength, window },
    last: active.last && { kept: active.last.kept, budgets: active.last.budgets },
  };
};

test('a session that is saved and loaded after each step keeps from then on what it would have kept', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(acts, { minLength: 2, maxLength: 7 }),
      policies,
      budgets,
      fc.constantFrom(undefined, 60, 80),
      fc.integer({ min: 4, max: 40 }),
      async (steps, first, budget, window, n) => {
        const stream = (seed: number) => (): number =>
            (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % model.config.vocab,
          ids = stream(n),
          refusal = (one: Session, next: Act, seed: number): Promise<Session | string> =>
            act(one, next, stream(seed)).catch((error: Error) => error.message);
        let one: Session = { sequence: new Sequence(model, undefined, { window }), policy: POLICIES[first] },
          two: Session | undefined;
        const begun = await refusal(one, { kind: 'prefill', tokens: n, block: undefined, budget }, ids());
        if (typeof begun !== 'string')
          for (const next of steps) {
            two?.sequence.destroy();
            // no window is given: the session's own applies
            two = {
              sequence: await loadCache(model, await saveCache(one.sequence), { policy: one.policy }),
              policy: one.policy,
            };
            expect(await shown(two)).toEqual(await shown(one));
            const seed = ids(),
              [a, b] = [await refusal(one, next, seed), await refusal(two, next, seed)];
            if (typeof a === 'string' || typeof b === 'string') {
              expect(b).toBe(a);
              break;
            }
            [one, two] = [a, b];
            expect(await shown(two)).toEqual(await shown(one));
          }
        for (const each of [one, two]) each?.sequence.destroy();
      },
    ),
    { numRuns: Math.min(60, Number(process.env.FC_RUNS ?? 60)) },
  );
}, 120_000);

test('a share goes on as one: 15 slots are no number', async () => {
  const policy = POLICIES[1],
    ids = Array.from({ length: 60 }, (_, i) => (i * 37 + 11) % 64),
    sequence = new Sequence(model);
  await sequence.prefill(ids, { policies: [policy] });
  sequence.decodeUnder(policy, '25%');
  const loaded = await loadCache(model, await saveCache(sequence), { policy });
  for (const each of [sequence, loaded]) for (let i = 0; i < 40; i++) await each.step(ids[i], 40);
  expect(
    sequence
      .kept()
      .flat()
      .map(({ length }) => length),
  ).toEqual(new Array(sequence.kept().flat().length).fill(25));
  expect(loaded.kept()).toEqual(sequence.kept());
  for (const each of [sequence, loaded]) each.destroy();
});
