import { KvError } from './errors.ts';
import { rowMajor, sizeOf } from './tensor.ts';
import type { DType, HostArray, Tensor } from './tensor.ts';

/** A tensor on the host: strided numbers and, if ragged, the valid slots of each row. */
export interface HostTensor extends Tensor {
  readonly data: Float32Array | Uint32Array;
  readonly stride: readonly number[];
  readonly offset: number;
  readonly lengths?: HostTensor | undefined;
}

/** Index of the last number of a shape; -1 if it is empty. */
const lastOf = (shape: readonly number[], stride: readonly number[], offset: number): number =>
  sizeOf(shape) === 0 ? -1 : offset + shape.reduce((at, size, i) => at + (size - 1) * stride[i], 0);

/** Whether a tensor's shape stays within its numbers. */
export const staysWithin = ({ data, shape, stride, offset }: HostTensor): boolean =>
  lastOf(shape, stride, offset) < data.length;

/**
 * Returns a host array as a tensor; typed arrays of the right kind are used in place.
 *
 * @throws KvError when data and shape disagree.
 */
export function hostTensor(array: HostArray, dtype: DType | undefined): HostTensor {
  const { data, shape, stride = rowMajor(shape), offset = 0 } = array,
    last = lastOf(shape, stride, offset);
  if (shape.length < 1 || shape.length > 3 || !shape.every((s) => Number.isInteger(s) && s >= 0))
    throw new KvError('ops.from', `shape must be 1 to 3 whole numbers, got [${shape}]`);
  if (last >= data.length)
    throw new KvError('ops.from', `shape [${shape}] needs ${last + 1} numbers, got ${data.length}`);
  const want = dtype ?? (data instanceof Uint32Array ? 'u32' : 'f32'),
    Numbers = want === 'u32' ? Uint32Array : Float32Array,
    typed = data instanceof Numbers ? data : Numbers.from(data);
  return { shape, dtype: want, data: typed, stride, offset };
}

/** Whether a tensor's numbers are row-major and fill its array. */
export function isDense({ data, shape, stride, offset }: HostTensor): boolean {
  let size = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    if (stride[i] !== size && shape[i] !== 1) return false;
    size *= shape[i];
  }
  return offset === 0 && data.length === size;
}

/** Sizes with trailing 1s: rows, slots, channels. */
export const dims = ({ shape }: Tensor): [number, number, number] => [shape[0] ?? 1, shape[1] ?? 1, shape[2] ?? 1];
/** Strides for broadcasting: 0 along axes of size 1 or missing. */
export const strides = ({ shape, stride }: HostTensor): [number, number, number] => {
  const step = (i: number): number => ((shape[i] ?? 1) === 1 ? 0 : stride[i]);
  return [step(0), step(1), step(2)];
};

/** Writes a tensor's numbers to `out`, row-major. */
export function copyRowMajor<T extends Float32Array | Uint32Array>(x: HostTensor, out: T): T {
  const [a, b, c] = dims(x),
    [sa, sb, sc] = strides(x);
  if ((sc === 1 && sb === c) || (c === 1 && sb === 1)) {
    for (let i = 0, n = b * c; i < a; i++) out.set(x.data.subarray(x.offset + i * sa, x.offset + i * sa + n), i * n);
    return out;
  }
  for (let i = 0, at = 0; i < a; i++)
    for (let j = 0; j < b; j++) for (let k = 0; k < c; k++) out[at++] = x.data[x.offset + i * sa + j * sb + k * sc];
  return out;
}

/** Returns a tensor's numbers row-major, without a copy if they already are. */
export const rowMajorNumbers = (x: HostTensor): Float32Array | Uint32Array =>
  isDense(x) ? x.data : copyRowMajor(x, new (x.dtype === 'u32' ? Uint32Array : Float32Array)(sizeOf(x.shape)));

/** The bad number that each `firstBad` tensor of a host backend found. */
const badNumbers = new WeakMap<Tensor, number>();
/** Records, for an error, which number `firstBad` found; a device does not know it. */
export const noteBad = (bad: Tensor, number: number): void => void badNumbers.set(bad, number);
export const badNumber = (bad: Tensor): number | undefined => badNumbers.get(bad);
