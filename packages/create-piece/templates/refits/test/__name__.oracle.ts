import ndarray from 'ndarray';
import ops from 'ndarray-ops';

const dot = (a: readonly number[], b: readonly number[]): number => a.reduce((sum, x, c) => sum + x * b[c]!, 0);

/**
 * ln B in float64, where B >= 1 minimises Σ (B · mass of the kept slots - mass of all)² over the queries: those of one
 * head, all of which see all slots.
 */
export function oracle(
  queries: readonly (readonly number[])[],
  keys: readonly (readonly number[])[],
  kept: readonly number[],
  cap = Infinity,
): number {
  const of = (): ReturnType<typeof ndarray<Float64Array>> => ndarray(new Float64Array(queries.length));
  const [all, held] = [of(), of()];
  queries.forEach((q, i) => {
    const plain = keys.map((k) => dot(q, k) / Math.sqrt(q.length));
    const logits = plain.map((x) => (cap === Infinity ? x : cap * Math.tanh(x / cap)));
    const e = logits.map((x) => Math.exp(x - Math.max(...logits)));
    all.set(i, e.reduce((a, b) => a + b, 0));
    held.set(i, kept.reduce((sum, slot) => sum + e[slot]!, 0));
  });
  const squares = ops.norm2squared(held);
  ops.muleq(all, held);
  return Math.log(Math.max(1, ops.sum(all) / squares));
}
