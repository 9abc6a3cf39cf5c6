import { KvError } from '../errors.ts';
import { rowMajor, sizeOf } from '../tensor.ts';
import type { DType, HostArray, Tensor } from '../tensor.ts';

/** A tensor on the host: strided numbers and, if ragged, the valid slots of each row. */
export interface CpuTensor extends Tensor {
  readonly data: Float32Array | Uint32Array;
  readonly stride: readonly number[];
  readonly offset: number;
  readonly lengths?: CpuTensor | undefined;
}

export function cpuTensor(
  data: Float32Array | Uint32Array,
  shape: readonly number[],
  lengths?: CpuTensor,
  stride: readonly number[] = rowMajor(shape),
  offset = 0,
): CpuTensor {
  const dtype = data instanceof Uint32Array ? 'u32' : 'f32';
  return lengths ? { shape, dtype, data, stride, offset, lengths } : { shape, dtype, data, stride, offset };
}
/**
 * Bytes that small tensors are cut from, and the most of one: an event makes a thousand, and memory of its own for each
 * would be a third of its time.
 */
const CHUNK = 2 ** 18,
  SMALL = 2 ** 16;
let chunk = new ArrayBuffer(0),
  used = 0;

export function zeros(shape: readonly number[], dtype: DType = 'f32', lengths?: CpuTensor): CpuTensor {
  const size = sizeOf(shape),
    bytes = 4 * size,
    Numbers = dtype === 'u32' ? Uint32Array : Float32Array;
  if (bytes > SMALL) return cpuTensor(new Numbers(size), shape, lengths);
  if (used + bytes > chunk.byteLength) [chunk, used] = [new ArrayBuffer(CHUNK), 0];
  const data = new Numbers(chunk, used, size);
  used += bytes;
  return cpuTensor(data, shape, lengths);
}

/** Where the last number of a shape lies; -1 where it has none. */
const lastOf = (shape: readonly number[], stride: readonly number[], offset: number): number =>
  sizeOf(shape) === 0 ? -1 : offset + shape.reduce((at, size, i) => at + (size - 1) * stride[i], 0);

/** @throws KvError for a tensor whose shape reaches beyond its numbers. */
export function expectExtent({ data, shape, stride, offset, lengths }: CpuTensor): void {
  if (!(lastOf(shape, stride, offset) < data.length))
    throw new KvError('cpu', `expected a tensor of at least its shape [${shape}], got ${data.length} numbers`);
  if (lengths) expectExtent(lengths);
}

/**
 * Any host array as a tensor; typed arrays of the right kind are used in place. @throws KvError when data and shape
 * disagree.
 */
export function fromHost(array: HostArray, dtype: DType | undefined, lengths?: CpuTensor): CpuTensor {
  const { data, shape } = array;
  const stride = array.stride ?? rowMajor(shape),
    offset = array.offset ?? 0;
  const last = lastOf(shape, stride, offset);
  if (shape.length < 1 || shape.length > 3 || !shape.every((s) => Number.isInteger(s) && s >= 0))
    throw new KvError('ops.from', `shape must be 1 to 3 whole numbers, got [${shape}]`);
  if (last >= data.length)
    throw new KvError('ops.from', `shape [${shape}] needs ${last + 1} numbers, got ${data.length}`);
  const want = dtype ?? (data instanceof Uint32Array ? 'u32' : 'f32');
  const inPlace = want === 'u32' ? data instanceof Uint32Array : data instanceof Float32Array;
  const typed = inPlace
    ? (data as Float32Array | Uint32Array)
    : want === 'u32'
      ? Uint32Array.from(data)
      : Float32Array.from(data);
  return cpuTensor(typed, shape, lengths, stride, offset);
}

export const isDense = ({ data, shape, stride, offset }: CpuTensor): boolean => {
  let size = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    if (stride[i] !== size && shape[i] !== 1) return false;
    size *= shape[i];
  }
  return offset === 0 && data.length === size;
};

/** The same numbers row-major, without a copy where they already are. */
export function dense(x: CpuTensor): CpuTensor {
  if (isDense(x)) return x;
  const out = zeros(x.shape, x.dtype, x.lengths);
  const [a, b, c] = dims(x),
    [sa, sb, sc] = strides(x);
  if ((sc === 1 && sb === c) || (c === 1 && sb === 1)) {
    for (let i = 0, n = b * c; i < a; i++)
      out.data.set(x.data.subarray(x.offset + i * sa, x.offset + i * sa + n), i * n);
    return out;
  }
  for (let i = 0, at = 0; i < a; i++)
    for (let j = 0; j < b; j++)
      for (let k = 0; k < c; k++) out.data[at++] = x.data[x.offset + i * sa + j * sb + k * sc];
  return out;
}

/** The same numbers with those along an axis side by side, without a copy where they already are. */
export const contiguous = (x: CpuTensor, axis: number): CpuTensor =>
  (x.shape[axis] ?? 1) === 1 || x.stride[axis] === 1 ? x : dense(x);

/** Sizes with trailing 1s: rows, slots, channels. */
export const dims = ({ shape }: Tensor): [number, number, number] => [shape[0] ?? 1, shape[1] ?? 1, shape[2] ?? 1];
/** Strides for broadcasting: 0 along axes of size 1 or missing. */
export const strides = ({ shape, stride }: CpuTensor): [number, number, number] => {
  const step = (i: number): number => ((shape[i] ?? 1) === 1 ? 0 : stride[i]);
  return [step(0), step(1), step(2)];
};

/** Rows after broadcasting. @throws KvError where one does not divide the other. */
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
/** Row of a tensor that stands for row `r` of `rows`: the KV head of a query head. */
export const rowOf = (t: Tensor, r: number, rows: number): number => Math.floor((r * t.shape[0]) / rows);

/** Where row `r` of `rows` begins. */
export const rowAt = (t: CpuTensor, r: number, rows: number): number => t.offset + rowOf(t, r, rows) * t.stride[0];

/** Valid slots of row `r` of `rows`. */
export function validSlots(t: CpuTensor, r: number, rows: number = t.shape[0]): number {
  const { lengths } = t;
  return lengths
    ? lengths.data[lengths.offset + rowOf(lengths, r, rows) * (lengths.stride[0] ?? 1)]
    : (t.shape[1] ?? 1);
}
/** Lengths for a result of `rows` rows, from the first ragged tensor that has the most rows. */
export function raggedAs(rows: number, ...tensors: readonly (CpuTensor | undefined)[]): CpuTensor | undefined {
  let best: CpuTensor | undefined;
  for (const t of tensors) if (t?.lengths && (!best || t.lengths.shape[0] > best.shape[0])) best = t.lengths;
  if (!best || best.shape[0] === rows) return best;
  const from = best;
  return cpuTensor(
    Uint32Array.from({ length: rows }, (_, r) => from.data[from.offset + rowOf(from, r, rows)]),
    [rows],
  );
}
