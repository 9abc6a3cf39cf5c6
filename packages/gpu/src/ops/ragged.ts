import type { Recording } from '../encode.ts';
import { lengths } from '../kernels/lengths.wgsl.ts';
import type { GpuTensor } from '../tensor.ts';

/** Lengths of `x` for `rows` rows, u32 `[rows]`: its own, those of the KV head of each query head, or its slots. */
export function lengthsFor(g: Recording, x: GpuTensor, rows: number): GpuTensor {
  const own = x.lengths && g.own(x.lengths);
  if (own?.shape[0] === rows) return own;
  const output = g.make([rows], 'u32');
  g.run(lengths, { space: [rows, 1, 1], inputs: { x }, outputs: { output } });
  return output;
}

/** Lengths for a result of `rows` rows, from the first ragged tensor that has the most rows. */
export function raggedAs(
  g: Recording,
  rows: number,
  ...tensors: readonly (GpuTensor | undefined)[]
): GpuTensor | undefined {
  let best: GpuTensor | undefined;
  for (const t of tensors) if (t?.lengths && (!best || t.lengths.shape[0] > best.lengths!.shape[0])) best = t;
  return best && lengthsFor(g, best, rows);
}
