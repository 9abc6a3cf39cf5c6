import { beforeAll, expect, test } from 'vitest';
import { generate } from '../../src/index.ts';
import type { Model, ObservedRow } from '../../src/index.ts';
import { parsePolicy } from '@kv/policies';
import { llamaGolden } from './goldens.ts';

let model: Model, ids: number[];
beforeAll(async () => {
  ({ model, ids } = await llamaGolden());
});
const SETS = 'heavyChannelProducts(channels=8,window=1) ∘ mandatory(sinks=2,recent=8) ∘ topK',
  shared = (options: string): string => `view(${SETS} ∘ sharedSets(sinks=2,local=8,${options}),budget=32)`;
/** Runs a policy; returns what every query head saw, and how often heads retrieved. */
async function run(text: string, maxNewTokens = 14) {
  const rows: ObservedRow[] = [],
    totals = new Map<string, number | undefined>();
  const { tokens } = await generate(model, {
    ids,
    policy: parsePolicy(text),
    maxNewTokens,
    certify: {
      row: (row) => rows.push(row),
      conclude: ({ total }) => {
        totals.set('retrievals', total('state.hshare.retrievals'));
        return {};
      },
    },
  });
  const sets = (layer: number, step: number): (readonly number[])[] =>
    rows
      .filter((r) => r.layer === layer && r.step === step)
      .map(({ kept, query }) => kept.filter((slot) => slot >= 2 && slot <= query - 8));
  return { rows, tokens, sets, retrievals: totals.get('retrievals') };
}

test('without sharing it is Double Sparsity with sinks and a local window: the same tokens, the same slots seen', async () => {
  const [plain, one] = [await run(`view(${SETS},budget=32)`), await run(shared('query=1,heads=0,layers=0'))];
  expect(one.tokens).toEqual(plain.tokens);
  expect(one.rows.map((r) => r.kept)).toEqual(plain.rows.map((r) => r.kept));
  expect(one.retrievals).toBe(13 * 4 * 4); // the last token is not fed
});
test('layers that share see the sets of a lower layer once overlap is known, and retrieve no more', async () => {
  const { sets, retrievals, rows } = await run(shared('query=1,heads=0,layers=0.5,measure=3')),
    steps = [...new Set(rows.map((r) => r.step))],
    late = steps.slice(3);
  const followers = [1, 2, 3].filter((l) =>
    late.every((step) =>
      [0, 1, 2].some((j) => j < l && JSON.stringify(sets(l, step)) === JSON.stringify(sets(j, step))),
    ),
  );
  expect(followers).toHaveLength(2); // of four layers, half
  expect(
    followers.every((l) =>
      [0, 1, 2].some((j) => j < l && JSON.stringify(sets(l, steps[0])) === JSON.stringify(sets(j, steps[0]))),
    ),
  ).toBe(false);
  expect(retrievals).toBe(3 * 16 + 10 * 8);
});
test("the policy of that name runs with the authors' numbers", async () => {
  const { retrievals, rows } = await run('hshare(slots=48,sinks=4,local=16,channels=8)', 24);
  expect(rows).toHaveLength(23 * 16);
  expect(retrievals!).toBeLessThan((23 * 16) / 2);
  expect(rows.every(({ kept }) => kept.length <= 48)).toBe(true);
});
