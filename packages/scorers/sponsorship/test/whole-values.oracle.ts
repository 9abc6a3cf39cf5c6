import type { Tokens } from '@kv/core';

/** An anchor at a token, and the characters of its value. */
export interface Given {
  readonly position: number;
  readonly value: readonly [number, number];
  readonly worth: number;
}
/**
 * What a token is vouched for, in float64, token by token: the largest worth of the values that it has characters of, or
 * lies before and after their anchor, or comes right after; of a value only the first `most` tokens.
 */
export const wholeOracle = (
  { offsets }: Pick<Tokens, 'offsets'>,
  given: readonly Given[],
  most: number,
  strength: number,
): readonly number[] =>
  offsets.map((_, j) =>
    given.reduce((best, { position, value: [start, end], worth }) => {
      const meets = (i: number): boolean => offsets[i][0] < end && offsets[i][1] > start,
        own = offsets.map((_o, i) => i).filter((i) => meets(i) || (i > position && offsets[i][1] <= start)),
        after = own.length > most ? [] : offsets.map((_o, i) => i).filter((i) => i === (own.at(-1) ?? -2) + 1);
      return [...own.slice(0, most), ...after].includes(j) ? Math.max(best, strength * worth) : best;
    }, 0),
  );
