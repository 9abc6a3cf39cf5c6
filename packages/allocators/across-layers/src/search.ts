import { kernel } from '@kv/core';
import type { Ops, Tensor } from '@kv/core';

/** Edges of a round that cut its range in 16, and rounds: to neighbouring numbers in f32, or 2^-40 of the range. */
const EDGES = 15,
  ROUNDS = 10;
/** Threads that count for each edge. */
const STRIPES = 256;

/**
 * How many scores reach each edge: of x `[r, n]` the first `held` `[r, 1]` of each row, added to `before`
 * `[stripes, edges]`, whose column sums are the counts.
 */
export const countFrom = kernel({
  id: 'count-from',
  inputs: { x: 'f32', held: 'f32', edges: 'f32', before: 'f32' },
  output: { shape: ({ before }) => before },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = x_shape.y; let edge = edges[index % edges_shape.y];
  var count = before[index];
  for (var i = index / edges_shape.y; i < x_shape.x * n; i += before_shape.x) {
    if (f32(i % n) < held[i / n] && x[i] >= edge) { count += 1.0; }
  }
  output[index] = count;
}`,
  operations: ({ x, edges }) => x.shape[0] * x.shape[1] * edges.shape[1],
  ref({ x, held, edges, before }, _, out) {
    const [rows = 0, n = 0] = x.shape,
      [stripes = 1, count = 0] = before.shape,
      { data } = edges,
      least = Math.min(...data);
    out.set(before.data);
    for (let r = 0; r < rows; r++)
      for (let i = 0; i < held.data[r]; i++) {
        const score = x.data[r * n + i];
        if (score < least) continue; // the common case
        const from = ((r * n + i) % stripes) * count;
        for (let e = 0; e < count; e++) if (score >= data[e]) out[from + e]++;
      }
  },
});

/**
 * Returns neighbouring numbers a < b between `low` and `high`, each `[1, 1]`: at least `want` scores of all layers
 * `[R, n]` reach a, fewer reach b. Assumes that `want` scores reach `low`.
 */
export function borderOfBest(
  ops: Ops,
  layers: readonly Tensor[],
  want: Tensor,
  low: Tensor,
  high: Tensor,
): readonly [low: Tensor, high: Tensor] {
  const part = ops.from({
      data: Float32Array.from({ length: EDGES }, (_, i) => (i + 1) / (EDGES + 1)),
      shape: [1, EDGES],
    }),
    none = ops.from({ data: new Float32Array(STRIPES * EDGES), shape: [STRIPES, EDGES] });
  const held = layers.map((x) => ops.sum(ops.fill(x, 1))),
    rest = ops.sub(1, part);
  for (let i = 0; i < ROUNDS; i++) {
    const edges = ops.add(ops.mul(rest, low), ops.mul(part, high));
    const enough = ops.atLeast(
      ops.reduce(
        'sum',
        layers.reduce((before, x, l) => ops.kernel(countFrom, { x, held: held[l], edges, before }), none),
        'rows',
      ),
      want,
    );
    [low, high] = [
      ops.reduce('max', ops.where(enough, edges, low), 'slots'),
      ops.reduce('min', ops.where(enough, high, edges), 'slots'),
    ];
  }
  return [low, high];
}
