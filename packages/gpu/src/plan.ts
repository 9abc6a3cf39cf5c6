import { KvError } from '@kv/core';
import type { Tensor } from '@kv/core';
import type { Commands } from './commands.ts';
import { gpuOps } from './gpu-ops.ts';
import type { OpenScope, Recordable } from './gpu.ts';
import { bytesOf } from './tensor.ts';

/** Cost of dispatches. */
export interface DispatchCost {
  readonly dispatches: number;
  /** Bytes of the tensors that dispatches bind, each once per dispatch, unless a kernel counts more precisely. */
  readonly bytes: number;
  /** Additions, multiplications, comparisons and functions, as kernels declare them. */
  readonly operations: number;
}

/**
 * Returns a device without hardware: kernels are recorded as on a device, on shapes alone, and their cost adds up in
 * `counters`. Nothing is computed, so `read` throws a KvError.
 */
export function planGpu(): Recordable & { readonly counters: DispatchCost } {
  const counters = { dispatches: 0, bytes: 0, operations: 0 };
  const record: Commands['record'] = ({ bound, groups, bytes = bytesOf(bound), operations }) => {
    if (groups === 0) return;
    counters.dispatches++;
    counters.bytes += bytes;
    counters.operations += operations?.() ?? 0;
  };
  const commands: Commands = {
    mostBytes: Infinity,
    make: (shape, dtype = 'f32', lengths): Tensor => ({ shape, dtype, ...(lengths && { lengths }) }),
    upload: (data, shape, lengths): Tensor & { readonly data: ArrayLike<number> } => ({
      ...commands.make(shape, data instanceof Uint32Array ? 'u32' : 'f32', lengths),
      data,
    }),
    own: (x) => x,
    write() {},
    free() {},
    record,
  };
  const scope: OpenScope = {
    name: 'plan',
    ops: gpuOps(commands),
    commands,
    read: () => Promise.reject(new KvError('planGpu', 'expected a device to read from, got a plan of one')),
    keep() {},
    end() {},
  };
  return { counters, open: () => scope, scope: async (run) => run(scope), label: () => '' };
}
