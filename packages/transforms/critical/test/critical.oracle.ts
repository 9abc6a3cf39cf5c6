import ndarray from 'ndarray';
import ops from 'ndarray-ops';

/**
 * CriticalKV of one KV head: slots that the first stage forces, and the new scores. `norms` are the query heads' of the
 * group.
 */
export function criticalOracle(
  scores: readonly number[],
  norms: readonly (readonly number[])[],
  budget: number,
  first: number,
  epsilon: number,
  forced: readonly number[] = [],
): { readonly forced: number[]; readonly scores: Float64Array } {
  const order = scores
    .map((_, i) => i)
    .sort(
      (a, b) =>
        Number(forced.includes(b)) - Number(forced.includes(a)) ||
        (forced.includes(a) ? 0 : scores[b] - scores[a]) ||
        a - b,
    );
  const out = ndarray(new Float64Array(scores.length), [scores.length]);
  for (const row of norms) ops.addeq(out, ndarray(Float64Array.from(row), [row.length]));
  ops.mulseq(out, 1 / norms.length);
  ops.muleq(
    out,
    ndarray(
      Float64Array.from(scores, (s) => s + epsilon),
      [scores.length],
    ),
  );
  return { forced: order.slice(0, Math.floor(first * budget)).sort((a, b) => a - b), scores: out.data };
}
