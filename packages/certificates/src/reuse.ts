import { printedSharingBound, sharingBound } from './design.ts';
import { centroid, driftBound } from './drift.ts';
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
  /** How far attention moved along the sequence, for rows whose earlier slots are all still there. */
  readonly drift?: Drift;
}
/** How far the centroid of attention moved from the query whose set was reused, over the slots that both had. */
export interface Drift {
  /** Number of rows. */
  readonly rows: number;
  /** |c(q') - c(q)|, in positions. */
  readonly distance: Spread;
  /** Its bound, in positions: `driftBound`. */
  readonly bound: Spread;
}

/** A query that later ones may reuse. */
interface Past {
  readonly vector: Float32Array;
  readonly query: number;
  readonly slots: number;
  readonly centroid: number;
}

/** Most steps back in a block. */
const REACH = 64;

/** Collects the queries of each head, and bounds what reuse costs those that the state of `cis` marks as reusing. */
export function reuse(): { add(row: AttentionRow): void; take(): Reuse | undefined } {
  const past = new Map<string, Map<number, Past>>(),
    all = spreads(['distance', 'bound', 'printed', 'beyond']),
    moved = spreads(['distance', 'bound']);
  return {
    add({ at, layer, head, step, query, vector, keyNorm, state, weights, positions, sink, kept }) {
      const ago = at === 'view' ? state?.('state.cis.ago') : undefined;
      if (ago === undefined || !vector || keyNorm === undefined) return;
      const key = `${layer}/${head}`,
        mine = past.get(key) ?? new Map<number, Past>(),
        before = mine.get(step - ago),
        here = { vector: vector.slice(), query, slots: weights.length, centroid: centroid(weights, positions) };
      past.set(key, mine.set(step, here));
      mine.delete(step - REACH);
      if (!(ago > 0 && before)) return;
      let aa = 0,
        bb = 0,
        ab = 0,
        far = 0;
      vector.forEach((x, c) => {
        const y = before.vector[c];
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
      const seen = (of: ArrayLike<number>): number[] => Array.from(of).filter((_, i) => positions[i] <= before.query),
        places = seen(positions);
      if (places.length !== before.slots) return; // some have left since
      moved.add({
        distance: Math.abs(centroid(seen(weights), places) - before.centroid),
        bound: driftBound({ span: (places.at(-1) ?? 0) - (places[0] ?? 0), keyNorm, dim, distance }),
      });
    },
    take() {
      const [rows, drift] = [all.take(), moved.take()];
      return rows && { ...rows, ...(drift && { drift }) };
    },
  };
}
