import { KvError } from '@kv/core';
import { sizeOf } from '@kv/core/engine';
import type { Tensor } from '@kv/core';
import type { PooledBuffer } from './buffer-pool.ts';

/** A tensor on one device: dense, row-major, with its lengths on the device too. */
export interface GpuTensor extends Tensor {
  readonly memory: PooledBuffer;
}

/** Returns the bytes of the tensors that a dispatch binds. */
export const bytesOf = (bound: readonly (Tensor | undefined)[]): number =>
  bound.reduce((sum, x) => sum + (x ? 4 * sizeOf(x.shape) : 0), 0);

/** Returns sizes with trailing 1s: rows, slots, channels. */
export function sizes({
  shape: [rows = 1, slots = 1, channels = 1],
}: Tensor): [rows: number, slots: number, channels: number] {
  return [rows, slots, channels];
}

/** Returns the number of rows after broadcasting. @throws KvError unless every number of rows divides the largest. */
export function sharedRows(at: string, ...tensors: readonly (Tensor | undefined)[]): number {
  const counts = tensors.filter((t) => t !== undefined).map((t) => t.shape[0] ?? 1);
  const rows = Math.max(1, ...counts);
  const odd = counts.find((n) => n > 0 && rows % n !== 0);
  if (odd !== undefined)
    throw new KvError(at, `${odd} rows do not divide ${rows} rows: expected query heads to be a multiple of KV heads`);
  return counts.includes(0) ? 0 : rows;
}
