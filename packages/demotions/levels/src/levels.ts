import { demotion, LEVELS, maybe, share } from '@kv/core';
import type { LevelShares, Option, Tensor } from '@kv/core';

const options: { readonly [L in (typeof LEVELS)[number]]: Option<number | undefined> } = {
  f32: maybe(share(0, 'Share of the kept slots that stay in 32 bits, the best.'), 'none'),
  f16: maybe(share(0, 'Share that is stored in 16 bits, the next best.'), 'none'),
  q8: maybe(share(0, 'Share that is stored in 8 bits, the next best.'), 'none; a quarter where no share is given'),
  k8v4: maybe(share(0, 'Share that is stored with keys of 8 bits and values of 4, the next best.'), 'none'),
  q4: maybe(share(0, 'Share that is stored in 4 bits, the rest.'), 'none; three quarters where no share is given'),
};

/** What a number of 32 bits may lack of a whole one. */
const SLACK = 0.0005;

/** Returns the shares by level, a quarter in 8 bits and the rest in 4 where none is given. */
const sharesOf = (given: LevelShares): LevelShares =>
  LEVELS.some((level) => given[level] !== undefined) ? given : { q8: 0.25, q4: 0.75 };
const sumOf = (shares: LevelShares): number => LEVELS.reduce((sum, level) => sum + (shares[level] ?? 0), 0);

/**
 * Levels: of each head's kept slots, in the order of their scores, a share is stored at each level, the best at the
 * finest.
 *
 * @remarks Forced slots come first, ties go to the lower slot. A share of m slots is rounded down, so that the coarser
 * level takes the rest: the bytes are at most those of the shares. A slot is never stored finer than it was, and never
 * finer than the sequence: after MiKV, Yang et al. 2024, arXiv:2402.18096, which keeps what others evict in low
 * precision.
 */
export const levels = demotion(
  'levels',
  {
    source: 'after Yang et al. 2024, arXiv:2402.18096',
    says: 'Stores the best of the kept slots finely and the rest coarsely.',
    options,
    check: (given) => {
      const sum = sumOf(sharesOf(given));
      return Math.abs(sum - 1) > 1e-6 && `expected shares whose sum is 1, such as q8=0.25,q4=0.75, got ${sum}`;
    },
    shares: sharesOf,
  },
  ({ ops, scores, forced, kept }, given) => {
    const shares = sharesOf(given),
      used = LEVELS.flatMap((level, i) => ((shares[level] ?? 0) > 0 ? [i] : [])),
      others = ops.not(kept),
      count = ops.sum(kept),
      held = forced && ops.mul(forced, kept),
      most = held && ops.count(held);
    /** Returns 1 at the best k slots of each row that is kept. */
    const best = (k: Tensor): Tensor =>
      held && most
        ? ops.max(
            ops.top(scores, ops.min(k, most), { banned: ops.not(held) }),
            ops.top(scores, ops.max(ops.sub(k, most), 0), { banned: ops.union(held, others) }),
          )
        : ops.top(scores, k, { banned: others });
    let level = ops.fill(scores, used.at(-1) ?? 0),
      before = 0;
    for (const [i, at] of used.slice(0, -1).entries()) {
      before += shares[LEVELS[at]] ?? 0;
      const finer = best(ops.map('floor', ops.add(ops.mul(count, before), SLACK)));
      level = ops.sub(level, ops.mul(finer, used[i + 1] - at));
    }
    return level;
  },
);
