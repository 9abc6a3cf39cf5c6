import ndarray from 'ndarray';
import ops from 'ndarray-ops';

/** KVzip of one KV head: the largest weight over its query heads, 1 for sinks. */
export const kvzipOracle = (weights: readonly (readonly number[])[], positions: readonly number[], sinks: number): number[] =>
  positions.map((p, i) => (p < sinks ? 1 : ops.sup(ndarray(Float64Array.from(weights, (row) => row[i]!), [weights.length]))));
