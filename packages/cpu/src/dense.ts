import { KvError } from '@kv/core';
import { copyRowMajor, dims, isDense, rowMajor, sizeOf, staysWithin, strides } from '@kv/core/engine';
import type { DType, Tensor } from '@kv/core';
import type { HostTensor } from '@kv/core/engine';

export function cpuTensor(
  data: Float32Array | Uint32Array,
  shape: readonly number[],
  lengths?: HostTensor,
  stride: readonly number[] = rowMajor(shape),
  offset = 0,
): HostTensor {
  const dtype = data instanceof Uint32Array ? 'u32' : 'f32';
  return lengths ? { shape, dtype, data, stride, offset, lengths } : { shape, dtype, data, stride, offset };
}
/**
 * Bytes of a chunk that small tensors are cut from, and of the largest such tensor. An event makes a thousand tensors,
 * and separate allocations would take a third of its time.
 */
const CHUNK = 2 ** 18,
  SMALL = 2 ** 16;
let chunk = new ArrayBuffer(0),
  used = 0;

export function zeros(shape: readonly number[], dtype: DType = 'f32', lengths?: HostTensor): HostTensor {
  const size = sizeOf(shape),
    bytes = 4 * size,
    Numbers = dtype === 'u32' ? Uint32Array : Float32Array;
  if (bytes > SMALL) return cpuTensor(new Numbers(size), shape, lengths);
  if (used + bytes > chunk.byteLength) [chunk, used] = [new ArrayBuffer(CHUNK), 0];
  const data = new Numbers(chunk, used, size);
  used += bytes;
  return cpuTensor(data, shape, lengths);
}

/** @throws KvError for a tensor whose shape reaches beyond its numbers. */
export function expectExtent(x: HostTensor): void {
  if (!staysWithin(x))
    throw new KvError('cpu', `expected a tensor of at least its shape [${x.shape}], got ${x.data.length} numbers`);
  if (x.lengths) expectExtent(x.lengths);
}

/** Returns the tensor row-major, without a copy if it already is. */
export function dense(x: HostTensor): HostTensor {
  if (isDense(x)) return x;
  const out = zeros(x.shape, x.dtype, x.lengths);
  copyRowMajor(x, out.data);
  return out;
}

/**
 * Returns the numbers of a tensor of rank 3 whose rows are dense, `apart` numbers from one to the next, without a copy
 * if they already are.
 */
export function rowsInPlace(x: HostTensor): { data: HostTensor['data']; shape: readonly number[]; apart: number } {
  const [, n, d] = dims(x),
    [apart, slot, channel] = strides(x),
    lies = (d === 1 || channel === 1) && (n === 1 || slot === d) && staysWithin(x);
  return lies && apart > 0
    ? { data: x.data.subarray(x.offset), shape: x.shape, apart }
    : { data: dense(x).data, shape: x.shape, apart: n * d };
}

/** Returns the tensor with the numbers along an axis contiguous, without a copy if they already are. */
export const contiguous = (x: HostTensor, axis: number): HostTensor =>
  (x.shape[axis] ?? 1) === 1 || x.stride[axis] === 1 ? x : dense(x);

/** Returns the number of rows after broadcasting. @throws KvError unless every number of rows divides the largest. */
export function commonRows(at: string, ...tensors: readonly (Tensor | undefined)[]): number {
  let rows = 1;
  for (const t of tensors) if (t && t.shape[0] > rows) rows = t.shape[0];
  for (const t of tensors)
    if (t && rows % Math.max(1, t.shape[0]) !== 0)
      throw new KvError(
        at,
        `${t.shape[0]} rows do not divide ${rows} rows: expected query heads to be a multiple of KV heads`,
      );
  return rows;
}
/** Returns the row of a tensor that row `r` of `rows` reads: the KV head of a query head. */
export const rowOf = (t: Tensor, r: number, rows: number): number => Math.floor((r * t.shape[0]) / rows);

/** Returns the offset of that row. */
export const rowAt = (t: HostTensor, r: number, rows: number): number => t.offset + rowOf(t, r, rows) * t.stride[0];

/** Returns the number of valid slots of row `r` of `rows`. */
export function validSlots(t: HostTensor, r: number, rows: number = t.shape[0]): number {
  const { lengths } = t;
  return lengths
    ? lengths.data[lengths.offset + rowOf(lengths, r, rows) * (lengths.stride[0] ?? 1)]
    : (t.shape[1] ?? 1);
}
/** Returns the lengths for a result of `rows` rows: those of the first ragged tensor with the most rows. */
export function raggedAs(rows: number, ...tensors: readonly (HostTensor | undefined)[]): HostTensor | undefined {
  let best: HostTensor | undefined;
  for (const t of tensors) if (t?.lengths && (!best || t.lengths.shape[0] > best.shape[0])) best = t.lengths;
  if (!best || best.shape[0] === rows) return best;
  const from = best;
  return cpuTensor(
    Uint32Array.from({ length: rows }, (_, r) => from.data[from.offset + rowOf(from, r, rows)]),
    [rows],
  );
}
