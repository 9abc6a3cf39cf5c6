import type { Ops, Tensor } from '@kv/core';
import { gpuOps } from './gpu-ops.ts';
import { bytesOf } from './tensor.ts';

/** What dispatches take. */
export interface Cost {
  readonly dispatches: number;
  /** Of the tensors that dispatches bind, each once a dispatch. */
  readonly bytes: number;
  /**
   * Additions, multiplications, comparisons and functions; of a piece's kernel what it says of itself, else one for
   * each number that it binds.
   */
  readonly operations: number;
}

/**
 * The operations of a device without one: they are recorded as on a device, on shapes alone, and their cost adds up.
 * Nothing is computed.
 */
export function planOps(): { readonly ops: Ops; readonly cost: Cost } {
  const cost = { dispatches: 0, bytes: 0, operations: 0 };
  const ops = gpuOps({
    make: (shape, dtype = 'f32', lengths): Tensor => ({ shape, dtype, ...(lengths && { lengths }) }),
    upload: (data, shape, lengths): Tensor & { readonly data: ArrayLike<number> } => ({
      shape,
      dtype: data instanceof Uint32Array ? 'u32' : 'f32',
      data,
      ...(lengths && { lengths }),
    }),
    own: (x) => x,
    record({ bound, groups, bytes = bytesOf(bound), operations }) {
      if (groups === 0) return;
      cost.dispatches++;
      cost.bytes += bytes;
      cost.operations += operations?.() ?? 0;
    },
  });
  return { ops, cost };
}
