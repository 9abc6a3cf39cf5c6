import ndarray from 'ndarray';
import ops from 'ndarray-ops';

/** CAKE's preference of one layer from its window rows before the window, `[head][query][slot]`. */
export function preferenceOracle(rows: readonly (readonly (readonly number[])[])[], tau1: number, tau2: number): number {
  let entropy = 0, variance = 0;
  for (const head of rows) {
    for (const row of head) for (const a of row) entropy -= a * Math.log(a + 1e-10);
    for (let i = 0; i < head[0]!.length; i++) {
      const column = ndarray(Float64Array.from(head, (row) => row[i]!), [head.length]), off = ndarray(column.data.slice(), [head.length]);
      ops.subseq(off, ops.sum(column) / head.length);
      variance += ops.norm2squared(off) / Math.max(1, head.length - 1);
    }
  }
  return Math.max(entropy, 1e-30) ** (1 / tau1) * Math.max(variance, 1e-30) ** (1 / tau2);
}

/** How many scores of each layer are among the `want` best of all layers; equal ones at the border all count. */
export function bestOracle(layers: readonly (readonly number[])[], want: number): number[] {
  const border = layers.flat().sort((a, b) => b - a)[want - 1] ?? 0;
  return layers.map((row) => row.filter((s) => s >= border).length);
}

/** Shares of a total in proportion to weights, whole, between floors and caps, as one unit at a time would settle them. */
export function shareOracle(weights: readonly number[], total: number, floors: readonly number[], caps: readonly number[]): number[] {
  const out = floors.map((f, l) => Math.min(f, caps[l]!)), room = Math.max(0, total - out.reduce((a, b) => a + b, 0)), mass = weights.reduce((a, b) => a + b, 0);
  let left = room;
  weights.forEach((w, l) => { const more = Math.min(Math.floor((mass > 0 ? w / mass : 1 / weights.length) * room), caps[l]! - out[l]!); out[l]! += more; left -= more; });
  while (left > 0 && out.some((b, l) => b < caps[l]!)) {
    const open = out.flatMap((b, l) => (b < caps[l]! ? [l] : [])), part = Math.max(1, Math.floor(left / open.length));
    for (const l of open) for (let i = 0; i < part; i++) if (left > 0 && out[l]! < caps[l]!) { out[l]!++; left--; }
  }
  return out;
}
