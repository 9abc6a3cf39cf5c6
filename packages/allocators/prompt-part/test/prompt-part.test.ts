import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compose, demotion, keys, scorer, scoreTransform, selector } from '@kv/core';
import { compile } from '@kv/core/engine';
import type { Piece } from '@kv/core';
import { apply } from '@kv/cpu';
import { each, scoreAllocatorLaws } from '@kv/laws';
import { promptPart } from '../src/index.ts';
import { keptSlots } from './prompt-part.oracle.ts';

// until something is generated a part of the budget stays free
const { total: _total, ...laws } = scoreAllocatorLaws(promptPart(), { runs: 40 });
each(laws, test);

const topK = selector('topK', {}, ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks));
const scoring = scorer('scoring', { needs: [keys] }, ({ ops, keys: k }) => ops.norm(k));
const forcing = (mask: readonly boolean[]) =>
  scoreTransform('forcing', { minSlots: (_, n) => n }, ({ ops, scores }) => ({
    scores,
    forced: ops.from({ data: Float32Array.from(mask, Number), shape: [1, mask.length] }),
  }));
const cases = fc.integer({ min: 1, max: 10 }).chain((n) =>
  fc.record({
    scores: fc.array(fc.integer({ min: 0, max: 5 }), { minLength: n, maxLength: n }),
    forced: fc.array(fc.boolean(), { minLength: n, maxLength: n }),
    gaps: fc.array(fc.integer({ min: 1, max: 3 }), { minLength: n, maxLength: n }),
    spare: fc.nat(6),
    prompt: fc.nat(14),
    share: fc.constantFrom(0, 0.25, 0.5, 0.75, 1),
  }),
);
type Case = typeof cases extends fc.Arbitrary<infer T> ? T : never;
function run({ scores, forced, gaps, spare, prompt, share }: Case, piece: Piece<any, 'same'> = promptPart({ share })) {
  let at = -1;
  const positions = gaps.map((gap) => (at += gap)),
    length = at + 1,
    promptLength = Math.min(prompt, length),
    budget = Math.min(scores.length, forced.filter(Boolean).length + spare),
    slots = scores.map((score, i) => ({ score, position: positions[i], forced: forced[i] }));
  const { kept } = apply(compose(forcing(forced)(), piece as never, topK()), {
    ...{ scores: [scores], positions: [positions], budget },
    at: { length, promptLength },
  });
  return {
    kept: kept![0],
    want: keptSlots(slots, budget, share, promptLength, length),
    budget,
    positions,
    promptLength,
    length,
  };
}
test('what stays agrees with the oracle', () =>
  fc.assert(
    fc.property(cases, (c) => {
      const { kept, want } = run(c);
      expect(kept).toEqual(want);
    }),
    { numRuns: 400 },
  ));

/** Whether generated slots leave the prompt its share, and the prompt leaves them theirs. */
const parted = (piece?: Piece<any, 'same'>): boolean => {
  let holds = true;
  fc.assert(
    fc.property(cases, (given) => {
      const c = { ...given, forced: given.forced.map(() => false) },
        { kept, budget, positions, promptLength, length } = run(c, piece);
      if (length <= promptLength) return;
      const first = positions.filter((p) => p < promptLength).length,
        own = Math.floor(budget * c.share),
        keptFirst = kept.filter((i) => positions[i] < promptLength).length;
      if (keptFirst !== Math.min(first, own)) holds = false;
    }),
    { numRuns: 200 },
  );
  return holds;
};
test('neither part eats the other, whatever the scores are; a piece that leaves the budgets alone does not keep that', () => {
  expect(parted()).toBe(true);
  expect(parted(compose() as never)).toBe(false);
});
test('it stands before the selector, since it shares no levels out', () => {
  const levels = demotion('levels', {}, ({ ops, kept }) => ops.mul(kept, 0));
  expect(() => compile(compose(scoring(), topK(), promptPart(), levels()))).toThrow(
    "compose: 'promptPart' shares no sum of slots out, expected it before 'topK'",
  );
});
test('the share is checked', () => {
  expect(() => promptPart({ share: 2 })).toThrow('promptPart: share must be a share from 0 to 1, got 2');
});
