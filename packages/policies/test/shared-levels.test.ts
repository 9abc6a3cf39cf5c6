import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compose, LEVELS, scoreAllocator } from '@kv/core';
import { compile, emptyDraft, readDecisions, runSteps } from '@kv/core/engine';
import { modelWide } from '@kv/allocators-across-layers';
import { adaKV } from '@kv/allocators-ada-kv';
import { atLeast, threshold } from '@kv/allocators-threshold';
import { apply, cpu } from '@kv/cpu';
import { levels } from '@kv/demotions-levels';
import { topK } from '@kv/selectors-top-k';
import { parsePolicy } from '../src/index.ts';
import { sharedLevelsOracle } from './shared-levels.oracle.ts';
import type { Entry } from './shared-levels.oracle.ts';

const G = 2;
const entries = (score: fc.Arbitrary<number>) =>
  fc.record({ score, forced: fc.oneof({ weight: 6, arbitrary: fc.constant(false) }, fc.boolean()) });
const models = fc
  .constantFrom(
    fc.integer({ min: -2, max: 2 }),
    fc.integer({ min: 0, max: 1000 }).map((x) => Math.fround((x / 1000) ** 4)),
  )
  .chain((score) =>
    fc.integer({ min: 1, max: 12 }).chain((n) => {
      const exactly = { minLength: n, maxLength: n },
        heads = fc.array(fc.array(entries(score), exactly), { minLength: G, maxLength: G });
      return fc.array(heads, { minLength: 1, maxLength: 3 });
    }),
  );
const percents = fc.constantFrom(
  [['q8', 25] as const, ['q4', 75] as const],
  [['f32', 10] as const, ['q8', 40] as const, ['k8v4', 20] as const, ['q4', 30] as const],
);

/** Runs a policy over layers of these scores; heads may keep different numbers of slots. */
async function run(policy: Parameters<typeof compile>[0], model: readonly (readonly Entry[][])[], spare: number) {
  const { ops } = cpu,
    n = model[0][0].length,
    budgets = model.map((heads) =>
      heads.map((row, g) => Math.min(n, row.filter(({ forced }) => forced).length + spare + g)),
    );
  const layers = model.map((_, layer) => ({
      at: {
        ...{ layer, layers: model.length, queryHeads: G, kvHeads: G, headDim: 1, step: 0, promptLength: n, length: n },
        ...{ slots: n, aligned: true, budget: n, selectRows: G },
      },
      budgets: budgets[layer],
      read: () => undefined,
    })),
    put = (l: number, of: (e: Entry) => number) =>
      ops.from({ data: Float32Array.from(model[l].flat(), of), shape: [G, n] }),
    drafts = layers.map((layer, l) => ({
      ...emptyDraft(layer, ops),
      scores: put(l, (e) => e.score),
      forced: put(l, (e) => Number(e.forced)),
    }));
  const { kept, levels: given } = await readDecisions(
    cpu,
    layers,
    runSteps(compile(policy).steps, layers, ops, drafts),
  );
  return {
    kept: kept.map((heads) => heads.map((slots) => [...slots])),
    levels: given?.map((heads) => heads.map((of) => Array.from(of, (level) => LEVELS[level]))),
  };
}

test.each([
  ['layer', () => adaKV({ safeguard: 0 })],
  ['model', () => modelWide()],
] as const)('slots of a whole %s compete for fine levels as in the float64 oracle', async (over, allocator) => {
  await fc.assert(
    fc.asyncProperty(models, percents, fc.nat(12), async (model, percent, spare) => {
      const shares = Object.fromEntries(percent.map(([level, of]) => [level, of / 100])),
        { kept, levels: got } = await run(compose(topK(), allocator(), levels(shares)), model, spare);
      expect(got).toEqual(sharedLevelsOracle(model, kept, percent, over));
      // as many slots at each level as without the allocator
      const { levels: own } = await run(compose(topK(), levels(shares)), model, spare),
        counts = (of: typeof got) => LEVELS.map((level) => of?.flat(2).filter((one) => one === level).length);
      expect(counts(got)).toEqual(counts(own));
    }),
    { numRuns: 150 },
  );
});

test('an allocator after the selector is one that keeps a sum, and a demotion follows it', () => {
  const refused = (text: string, sentence: string) => expect(() => compile(parsePolicy(text))).toThrow(sentence);
  refused(
    'snapkv | topK | adaKV',
    "compose: 'adaKV' after 'topK' shares levels out: put a demotion such as levels after it, or it before 'topK'",
  );
  refused('snapkv | topK | levels | adaKV', "'adaKV' after 'topK' shares levels out");
  refused(
    'knorm | topK | linearBudgets | levels',
    "'linearBudgets' shares slots out before scores are read: put it before the selector, not after 'knorm ∘ topK'",
  );
  for (const allocator of [threshold(), atLeast()])
    expect(() => compile(compose(topK(), allocator, levels()))).toThrow(
      `'${allocator.name}' shares no sum of slots out, expected it before 'topK'`,
    );
  const twice = scoreAllocator('twice', {}, ({ ops, budgets }) => ({ budgets: ops.mul(budgets, 2) }));
  expect(() => apply(compose(topK(), twice(), levels({ q8: 0.5, q4: 0.5 })), { scores: [[4, 3, 2, 1]] })).toThrow(
    'twice, layer 0: the sum of slots at a level must be at most what was shared out',
  );
});

test('reach and signals are those of both', () => {
  const { reach, needs, levels: shares } = compile(parsePolicy('snapkv | topK | modelWide | levels'));
  expect([reach, needs.length, shares]).toEqual(['model', 1, [{ q8: 0.25, q4: 0.75 }]]);
  expect(compile(parsePolicy('snapkv | topK | adaKV | levels')).reach).toBe('layer');
});
