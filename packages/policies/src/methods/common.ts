import { cadence, compose, zScore } from '@kv/core';
import type { Piece } from '@kv/core';

/** Adds an eviction after every `every` generated tokens; without `every`, returns the policy as it is. */
export const recompressed = (policy: Piece<'start', 'kept'>, every: number | undefined): Piece<'start', 'kept'> =>
  every === undefined ? policy : compose(policy, cadence({ every }));

/** Scores in standard deviations of their row. */
export const standardised = zScore();

/** The option of `recompressed`. */
export const recompressing = {
  every: { ...cadence.options.every, says: 'An event every N generated tokens too; left out, none.' },
};
