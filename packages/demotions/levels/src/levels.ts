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
/** Returns the levels that have a share, as indexes. */
const usedOf = (shares: LevelShares): readonly number[] =>
  LEVELS.flatMap((level, i) => ((shares[level] ?? 0) > 0 ? [i] : []));
const sumOf = (shares: LevelShares): number => LEVELS.reduce((sum, level) => sum + (shares[level] ?? 0), 0);

/**
 * Levels: of each head's kept slots, in the order of their scores, a share is stored at each level, the best at the
 * finest.
 *
 * @remarks Forced slots come first, ties go to the lower slot. A share of m slots is rounded down, so that the coarser
 * level takes the rest: the bytes are at most those of the shares. Allocators between the selector and it share these
 * numbers of slots out over the heads of a layer or of all layers; their sum stays. A slot is never stored finer than it was, and never
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
    reach: 'layer',
    // how many slots of each row are stored at every level but the last, or finer
    acrossLayers: (layers, given) => {
      const shares = sharesOf(given);
      let sum = 0,
        most: readonly Tensor[] | undefined;
      const counts = usedOf(shares)
        .slice(0, -1)
        .map((at) => {
          sum += shares[LEVELS[at]] ?? 0;
          return layers[0].allot(
            layers.map(({ ops, kept }) => ops.map('floor', ops.add(ops.mul(ops.sum(kept), sum), SLACK))),
          );
        });
      // an allocator that gives a row fewer of more must not leave a level finer than its share
      return counts
        .reverse()
        .map((rows) => (most = most ? rows.map((x, l) => layers[l].ops.min(x, most![l])) : rows))
        .reverse();
    },
  },
  ({ ops, scores, forced, kept, acrossLayers, index }, given) => {
    const used = usedOf(sharesOf(given)),
      others = ops.not(kept),
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
    return acrossLayers.reduce(
      (level, counts, i) => ops.sub(level, ops.mul(best(counts[index]), used[i + 1] - used[i])),
      ops.fill(scores, used.at(-1) ?? 0),
    );
  },
);
