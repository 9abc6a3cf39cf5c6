import { KvError } from '@kv/core';

/** Types in which weights are stored; block types by the names of ggml. */
export type TensorType = 'F32' | 'F16' | 'BF16' | 'Q8_0' | 'Q4_0' | 'Q4_1' | 'Q5_0' | 'Q5_1' | 'Q4_K' | 'Q5_K' | 'Q6_K';

/** Numbers and bytes of a block; rows hold whole blocks. */
export const tensorTypes: Readonly<Record<TensorType, { readonly numbers: number; readonly bytes: number }>> = {
  F32: { numbers: 1, bytes: 4 },
  F16: { numbers: 1, bytes: 2 },
  BF16: { numbers: 1, bytes: 2 },
  Q8_0: { numbers: 32, bytes: 34 },
  Q4_0: { numbers: 32, bytes: 18 },
  Q4_1: { numbers: 32, bytes: 20 },
  Q5_0: { numbers: 32, bytes: 22 },
  Q5_1: { numbers: 32, bytes: 24 },
  Q4_K: { numbers: 256, bytes: 144 },
  Q5_K: { numbers: 256, bytes: 176 },
  Q6_K: { numbers: 256, bytes: 210 },
};

/** The numbers of whole blocks as f32. Bytes that are little-endian f32 already may be returned as a view. */
export function toFloat32(type: TensorType, bytes: Uint8Array): Float32Array {
  throw new KvError('toFloat32', `${type} of ${bytes.length} bytes: to be written`);
}
