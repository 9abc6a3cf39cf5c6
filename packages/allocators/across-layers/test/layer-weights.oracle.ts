import ndarray from 'ndarray';
import ops from 'ndarray-ops';

/** Mean and variance over w - 1 of each column, `[query][slot]`; the variance of a single query is 0. */
function moments(
  rows: readonly (readonly number[])[],
): readonly { readonly mean: number; readonly variance: number }[] {
  return rows[0].map((_, i) => {
    const column = ndarray(
        Float64Array.from(rows, (row) => row[i]),
        [rows.length],
      ),
      mean = ops.sum(column) / rows.length;
    ops.subseq(column, mean);
    return { mean, variance: ops.norm2squared(column) / Math.max(1, rows.length - 1) };
  });
}

/** CAKE's indicator of one head from its window rows before the window, not pooled. */
export const cakeOracle = (rows: readonly (readonly number[])[], gamma: number): number[] =>
  moments(rows).map(({ mean, variance }) => mean + gamma * variance);

/** CAKE's preference of one layer from its window rows before the window, `[head][query][slot]`. */
export function preferenceOracle(
  rows: readonly (readonly (readonly number[])[])[],
  tau1: number,
  tau2: number,
): number {
  let entropy = 0,
    variance = 0;
  for (const head of rows) {
    for (const row of head) for (const a of row) entropy -= a * Math.log(a + 1e-10);
    for (const column of moments(head)) variance += column.variance;
  }
  return Math.max(entropy, 1e-30) ** (1 / tau1) * Math.max(variance, 1e-30) ** (1 / tau2);
}

/** How many scores of each layer are among the `want` best of all layers; equal ones at the border all count. */
export function bestOracle(layers: readonly (readonly number[])[], want: number): number[] {
  const border = layers.flat().sort((a, b) => b - a)[want - 1] ?? 0;
  return layers.map((row) => row.filter((s) => s >= border).length);
}

/**
 * Shares of a total in proportion to weights, whole, between floors and caps, as one unit at a time would settle them.
 */
export function shareOracle(
  weights: readonly number[],
  total: number,
  floors: readonly number[],
  caps: readonly number[],
): number[] {
  const out = floors.map((f, l) => Math.min(f, caps[l])),
    room = Math.max(0, total - out.reduce((a, b) => a + b, 0)),
    mass = weights.reduce((a, b) => a + b, 0);
  let left = room;
  weights.forEach((w, l) => {
    const more = Math.min(Math.floor((mass > 0 ? w / mass : 1 / weights.length) * room), caps[l] - out[l]);
    out[l] += more;
    left -= more;
  });
  while (left > 0 && out.some((b, l) => b < caps[l])) {
    const open = out.flatMap((b, l) => (b < caps[l] ? [l] : [])),
      part = Math.max(1, Math.floor(left / open.length));
    for (const l of open)
      for (let i = 0; i < part; i++)
        if (left > 0 && out[l] < caps[l]) {
          out[l]++;
          left--;
        }
  }
  return out;
}
