import { allowanceOf, compile, expectBudget, mostKept, planBudgets } from '@kv/core/engine';
import type { CompiledPolicy } from '@kv/core/engine';
import type { Budget } from '@kv/core';
import { slotsOf } from '@kv/core';
import { policy as policyOf, policyNames } from '@kv/policies';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { generate, loadCache, saveCache, Sequence } from '../../src/index.ts';
import type { Model } from '../../src/index.ts';
import { calibrated } from './calibrated.ts';
import { goldenFolder, goldenOf } from './goldens.ts';

let model: Model;
const { ids } = goldenOf('llama');
beforeAll(async () => {
  const calibratedFolder = await calibrated(goldenFolder('llama'), ids);
  model = calibratedFolder.model;
  return calibratedFolder.remove;
});

/** The catalogue's evicting policies for which this model has all files. */
const names = policyNames.filter((name) => name !== 'learnRank' && compile(policyOf(name)).evicts);
const shares = fc.integer({ min: 1, max: 100 }).map((percent): `${number}%` => `${percent}%`),
  lengths = fc.oneof(fc.integer({ min: 1, max: 24 }), fc.integer({ min: 1, max: 200 }));
const sum = (all: readonly number[]): number => all.reduce((a, b) => a + b, 0);

/** Returns the numbers of first and last positions that every head must hold. */
function ends({ steps }: CompiledPolicy, slots: number): { first: number; last: number } {
  const all = steps.flatMap((step) => step.ends?.(slots) ?? []);
  return {
    first: Math.max(0, ...all.map(({ first = 0 }) => first)),
    last: Math.max(0, ...all.map(({ last = 0 }) => last)),
  };
}
async function keptOf(name: string, n: number, budget: Budget, block?: number): Promise<number[][][]> {
  const sequence = new Sequence(model);
  try {
    await sequence.prefill(ids.slice(0, n), { policy: policyOf(name), budget, block });
    return sequence.kept();
  } finally {
    sequence.destroy();
  }
}

describe.each(names)('%s', (name) => {
  const compiled = compile(policyOf(name)),
    { raises } = compiled;
  test('under a share of a text of any length keeps what it forces, and no more than that or the share', async () => {
    await fc.assert(
      fc.asyncProperty(shares, lengths, async (share, n) => {
        const kept = (await keptOf(name, n, share)).flat(),
          slots = slotsOf(share, n),
          { first, last } = ends(compiled, slots),
          forced = Array.from({ length: n }, (_, p) => p).filter((p) => p < first || p >= n - last);
        for (const positions of kept) expect(forced.filter((p) => !positions.includes(p))).toEqual([]);
        const most = Math.max(Math.ceil((Number.parseInt(share, 10) / 100) * n), mostKept(compiled, share, n));
        if (!raises) expect(sum(kept.map(({ length }) => length)) / kept.length).toBeLessThanOrEqual(most);
      }),
      { numRuns: 8 },
    );
  });
  test('under a share plans room for what it forces whatever the text is', () => {
    fc.assert(
      fc.property(shares, lengths, fc.integer({ min: 1, max: 6 }), (share, n, layers) => {
        const allowance = allowanceOf(compiled, share, n),
          { first, last } = ends(compiled, allowance.slots),
          { budgets } = planBudgets(
            compiled,
            allowance,
            Array.from({ length: layers }, () => [n, n]),
          );
        for (const slots of budgets.flat()) expect(slots).toBeGreaterThanOrEqual(Math.min(n, first + last));
      }),
    );
  });
  test('a number of slots is refused for every text, or kept for every text', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 160 }), lengths, async (budget, n) => {
        let refusal: string | undefined;
        try {
          expectBudget(compiled, budget);
        } catch (error) {
          refusal = (error as Error).message;
        }
        const run = keptOf(name, n, budget);
        if (refusal !== undefined) await expect(run).rejects.toThrow(refusal);
        else if (!raises) {
          const kept = (await run).flat();
          expect(sum(kept.map(({ length }) => length)) / kept.length).toBeLessThanOrEqual(budget + 0.5);
        } else await run;
      }),
      { numRuns: 8 },
    );
  });
});

test('the report says in half a sentence that a share was too small for what is forced', async () => {
  const notes = async (n: number): Promise<readonly string[]> =>
    (
      await generate(model, {
        ids: ids.slice(0, n),
        policy: policyOf('snapkv(window=16)'),
        budget: '25%',
        maxNewTokens: 0,
      })
    ).report.notes;
  expect(await notes(14)).toEqual(['kept more than 25%, as snapkv(window=16,kernel=5) forces more slots']);
  expect(await notes(40)).toEqual(['kept more than 25%, as snapkv(window=16,kernel=5) forces more slots']);
  expect(await notes(80)).toEqual([]);
});

test('events while tokens are generated and blocks follow the same rule', async () => {
  await fc.assert(
    fc.asyncProperty(shares, shares, lengths, fc.integer({ min: 1, max: 32 }), async (share, later, n, block) => {
      const sequence = new Sequence(model);
      try {
        await sequence.prefill(ids.slice(0, n), { policy: policyOf('snapkv(window=12)'), budget: share, block });
        sequence.decodeUnder(policyOf('snapkv(window=12)'), later);
        for (const id of ids.slice(200, 206)) await sequence.step(id, 2);
        const last = sequence.progress.length - 1;
        for (const positions of sequence.kept().flat()) expect(positions).toContain(last);
      } finally {
        sequence.destroy();
      }
    }),
    { numRuns: 20 },
  );
});

test('what is saved goes on as the session does, a share as a share, after every step of random sessions', async () => {
  type Run = (sequence: Sequence) => Promise<void> | void;
  const budgets = fc.oneof(shares, fc.integer({ min: 16, max: 60 })),
    policies = fc.constantFrom('snapkv(window=8)', 'knorm', 'streaming(sinks=4)', 'h2o(recent=4)', 'tova'),
    at = fc.integer({ min: 0, max: 200 }),
    some = fc.integer({ min: 1, max: 12 });
  const steps: fc.Arbitrary<Run> = fc.oneof(
    fc.tuple(at, some).map(
      ([from, n]): Run =>
        (s) =>
          s.append(ids.slice(from, from + n)),
    ),
    fc.tuple(at, some, fc.integer({ min: 1, max: 4 })).map(
      ([from, n, every]): Run =>
        async (s) => {
          for (const id of ids.slice(from, from + n)) await s.step(id, every);
        },
    ),
    budgets.map(
      (budget): Run =>
        (s) =>
          s.decodeUnder(s.active.policy.evicts ? policyOf(s.active.policy.label) : policyOf('knorm'), budget),
    ),
    budgets.map(
      (budget): Run =>
        (s) =>
          s.evict(policyOf('knorm'), budget),
    ),
  );
  await fc.assert(
    fc.asyncProperty(
      policies,
      budgets,
      fc.integer({ min: 20, max: 90 }),
      fc.constantFrom(undefined, 16),
      fc.constantFrom(undefined, 140),
      fc.array(steps, { minLength: 1, maxLength: 4 }),
      async (text, budget, n, block, window, run) => {
        let live = new Sequence(model, undefined, { window });
        await live.prefill(ids.slice(0, n), { policy: text, budget, block, policies: [policyOf('knorm')] });
        for (const step of run) {
          const loaded = await loadCache(model, await saveCache(live), { policy: live.active.policy.label });
          expect(loaded.memory.caches.context.window).toBe(live.memory.caches.context.window);
          const each = await Promise.allSettled([live, loaded].map(async (s) => step(s)));
          expect(String((each[1] as { reason?: unknown }).reason)).toBe(
            String((each[0] as { reason?: unknown }).reason),
          );
          expect(loaded.kept()).toEqual(live.kept());
          expect(loaded.active.budget).toEqual(live.active.budget);
          if (each.some(({ status }) => status === 'rejected')) break;
          live.destroy();
          live = loaded;
        }
        live.destroy();
      },
    ),
    { numRuns: 30 },
  );
});
