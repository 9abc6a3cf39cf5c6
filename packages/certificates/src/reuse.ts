import { printedSharingBound, sharingBound } from './design.ts';
import { certificate } from './mass.ts';
import { spreads } from './tally.ts';
import type { AttentionRow } from './attention-row.ts';
import type { Spread } from './tally.ts';

/** Statistics of queries that reused an earlier query's set under CIS. */
export interface Reuse {
  /** Number of rows: queries that reused a set. */
  readonly rows: number;
  /** |q' - q|, between the query and the one whose set it reused. */
  readonly distance: Spread;
  /** β from that distance and the norm of the KV head's largest key, for queries of any length: `sharingBound`. */
  readonly bound: Spread;
  /** β as the paper prints it, for queries of unit length: `printedSharingBound`. */
  readonly printed: Spread;
  /** Mass dropped beyond δ*. Includes sinks, local window and newer slots, which the theorem leaves out. */
  readonly beyond: Spread;
}

/** Most steps back in a block. */
const REACH = 64;

/** Collects the queries of each head, and bounds what reuse costs those that the state of `cis` marks as reusing. */
export function reuse(): { add(row: AttentionRow): void; take(): Reuse | undefined } {
  const past = new Map<string, Map<number, Float32Array>>(),
    all = spreads(['distance', 'bound', 'printed', 'beyond']);
  return {
    add({ at, layer, head, step, vector, keyNorm, state, weights, sink, kept }) {
      const ago = at === 'view' ? state?.('state.cis.ago') : undefined;
      if (ago === undefined || !vector || keyNorm === undefined) return;
      const key = `${layer}/${head}`,
        mine = past.get(key) ?? new Map<number, Float32Array>(),
        before = mine.get(step - ago);
      past.set(key, mine.set(step, vector.slice()));
      mine.delete(step - REACH);
      if (!(ago > 0 && before)) return;
      let aa = 0,
        bb = 0,
        ab = 0,
        far = 0;
      vector.forEach((x, c) => {
        const y = before[c];
        aa += x * x;
        bb += y * y;
        ab += x * y;
        far += (x - y) ** 2;
      });
      const dim = vector.length,
        distance = Math.sqrt(far),
        { dropped, best } = certificate(weights, kept, sink);
      all.add({
        distance,
        bound: sharingBound({ keyNorm, dim, distance }),
        printed: printedSharingBound({ keyNorm, dim, cosine: ab / Math.sqrt(aa * bb) }),
        beyond: dropped - best,
      });
    },
    take: all.take,
  };
}
