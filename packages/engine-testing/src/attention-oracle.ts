import type { WindowStatistic } from '@kv/core';
import ndarray, { type NdArray } from 'ndarray';
import ops from 'ndarray-ops';

/** A cache as plain lists: keys, values and positions of each KV head. */
export interface OracleHead {
  readonly keys: readonly (readonly number[])[];
  readonly values: readonly (readonly number[])[];
  readonly positions: readonly number[];
  /** What each slot adds to its capped score. @defaultValue nothing */
  readonly biases?: readonly number[];
}

/** Whether a query may see a slot: slot, its position, the query's position, query head, KV head. */
export type Sees = (slot: number, position: number, query: number, h: number, g: number) => boolean;

/**
 * Returns causal probabilities in float64, `[H][m]` of `[n_g]`, of a softmax in which each head's sink, if it has one, is one
 * more score; a query that sees nothing has zeros.
 */
export function probabilities(
  q: NdArray<Float64Array>,
  queryPositions: readonly number[],
  heads: readonly OracleHead[],
  sees: Sees = () => true,
  {
    scale,
    softcap,
    sinks,
  }: { readonly scale?: number; readonly softcap?: number; readonly sinks?: ArrayLike<number> } = {},
): NdArray<Float64Array>[][] {
  const [H = 0, m = 0, d = 0] = q.shape;
  return Array.from({ length: H }, (_, h) => {
    const g = Math.floor(h / (H / heads.length));
    const { keys, positions, biases } = heads[g];
    const n = positions.length;
    return Array.from({ length: m }, (_, i) => {
      const query = queryPositions[i];
      const row = ndarray(new Float64Array(n), [n]);
      const visible = positions.map(
        (position, j) => position <= query && (position === query || sees(j, position, query, h, g)),
      );
      for (let j = 0; j < n; j++) {
        const products = ndarray(new Float64Array(d), [d]);
        ops.mul(products, q.pick(h, i, null), ndarray(Float64Array.from(keys[j]), [d]));
        const score = ops.sum(products) * (scale ?? 1 / Math.sqrt(d));
        const capped = softcap === undefined ? score : Math.tanh(score / softcap) * softcap;
        row.set(j, visible[j] ? capped + (biases?.[j] ?? 0) : -Infinity);
      }
      if (!visible.includes(true)) return ndarray(new Float64Array(n), [n]);
      const sink = sinks?.[h] ?? -Infinity,
        top = Math.max(ops.sup(row), sink);
      ops.subseq(row, top);
      ops.expeq(row);
      ops.divseq(row, ops.sum(row) + Math.exp(sink - top));
      return row;
    });
  });
}

type Statistic = (rows: readonly (readonly number[])[], slot: number, seen: readonly number[]) => number;
const mean = (rows: readonly (readonly number[])[], of: (row: readonly number[], query: number) => number): number =>
  rows.reduce((sum, row, i) => sum + of(row, i), 0) / rows.length;
/** Statistics of a window for a slot: from its queries' rows of probabilities, and how many slots each of them sees. */
export const windowOracle: Readonly<Record<WindowStatistic, Statistic>> = {
  squares: (rows, j) => mean(rows, (row) => row[j] ** 2),
  votes: (rows, j, seen) => mean(rows, (row, i) => Number(row[j] > 1 / seen[i])),
  normalized: (rows, j, seen) => mean(rows, (row, i) => row[j] * (seen[i] - 1)),
  entropy: (rows, j) => mean(rows, (row) => (row[j] === 0 ? 0 : row[j] * Math.log(1 / row[j]))),
};
/**
 * Returns whether a query that sees other slots gives a slot the mean weight but for rounding: a vote that may count or
 * not.
 */
export const isUndecided: (...asked: Parameters<Statistic>) => boolean = (rows, j, seen) =>
  rows.some((row, i) => seen[i] > 1 && Math.abs(row[j] * seen[i] - 1) < 1e-4);

/** Returns outputs `[m, H, d]` in float64. */
export function outputs(
  rows: readonly (readonly NdArray<Float64Array>[])[],
  heads: readonly OracleHead[],
  d: number,
): NdArray<Float64Array> {
  const H = rows.length;
  const m = rows[0]?.length ?? 0;
  const out = ndarray(new Float64Array(m * H * d), [m, H, d]);
  rows.forEach((ofHead, h) => {
    const { values } = heads[Math.floor(h / (H / heads.length))];
    ofHead.forEach((row, i) => {
      values.forEach((value, j) => {
        const part = ndarray(Float64Array.from(value), [d]);
        ops.mulseq(part, row.get(j));
        ops.addeq(out.pick(i, h, null), part);
      });
    });
  });
  return out;
}
