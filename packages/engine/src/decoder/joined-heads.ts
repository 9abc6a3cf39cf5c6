import type { KeptLayers, SlotReader } from './keeps.ts';

/** Returns the layers that read the slots of a layer, counted among those that keep slots; undefined if it alone does. */
export function readersOf({ all, readers }: KeptLayers, layer: number): readonly SlotReader[] | undefined {
  const found = readers[layer].flatMap((at) => all[at].reader ?? []);
  return found.length > 0 ? found : undefined;
}

/** Joins what the readers of the same slots have of their query heads, each `[outer, heads, width]`, to that of all heads. */
export function joinHeads(
  parts: readonly Float32Array[],
  readers: readonly SlotReader[],
  outer: number,
  width: number,
): Float32Array {
  const [{ all }] = readers,
    out = new Float32Array(outer * all * width);
  for (const [i, { rows }] of readers.entries())
    for (let o = 0; o < outer; o++)
      for (const [h, row] of rows.entries()) {
        const from = (o * rows.length + h) * width;
        out.set(parts[i].subarray(from, from + width), (o * all + row) * width);
      }
  return out;
}

/** Returns these rows of `[rows, stride]`, the first `width` numbers of each. */
export function pickHeads(data: Float32Array, rows: Uint32Array, stride: number, width: number): Float32Array {
  const out = new Float32Array(rows.length * width);
  for (const [h, row] of rows.entries()) out.set(data.subarray(row * stride, row * stride + width), h * width);
  return out;
}
