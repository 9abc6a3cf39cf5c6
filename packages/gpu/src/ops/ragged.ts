import type { Tensor } from '@kv/core';
import { run } from './run.ts';
import type { Commands } from '../commands.ts';
import { lengths } from '../kernels/lengths.wgsl.ts';

/**
 * Returns the lengths of `x` for `rows` rows, u32 `[rows]`: its own, those of the KV head of each query head, or its
 * number of slots.
 */
export function lengthsFor(g: Commands, x: Tensor, rows: number): Tensor {
  if (x.lengths?.shape[0] === rows) return x.lengths;
  const output = g.make([rows], 'u32');
  run(g, lengths, { space: [rows, 1, 1], buffers: { x, output } });
  return output;
}

/** Returns the lengths for a result of `rows` rows: those of the first ragged tensor with the most rows. */
export function raggedAs(g: Commands, rows: number, ...tensors: readonly (Tensor | undefined)[]): Tensor | undefined {
  let best: Tensor | undefined;
  for (const t of tensors) if (t?.lengths && (!best?.lengths || t.lengths.shape[0] > best.lengths.shape[0])) best = t;
  return best && lengthsFor(g, best, rows);
}
