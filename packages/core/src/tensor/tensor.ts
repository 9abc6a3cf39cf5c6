/** Type of a tensor's numbers. */
export type DType = 'f32' | 'u32';

/**
 * An opaque handle: its numbers live in the backend that made it and are never read inside a piece.
 *
 * Axis 0 is rows (query heads H, KV heads G, or 1), axis 1 slots, axis 2 channels. A tensor with `lengths` is ragged:
 * row r is valid in its first `lengths[r]` slots, and every reduction over slots counts only valid ones.
 */
export interface Tensor {
  /** Sizes of the axes: rows, slots, channels. */
  readonly shape: readonly number[];
  /** Type of its numbers. */
  readonly dtype: DType;
  /** u32 `[rows]`; absent where every slot of every row is valid. */
  readonly lengths?: Tensor | undefined;
}

/** Numbers on the host in the shape of an ndarray; `stride` defaults to row-major, `offset` to 0. */
export interface HostArray {
  /** The numbers; not copied. */
  readonly data: ArrayLike<number>;
  /** Sizes of the axes. */
  readonly shape: readonly number[];
  /** Elements between neighbours of each axis. @defaultValue row-major */
  readonly stride?: readonly number[];
  /** Index of the first element. @defaultValue 0 */
  readonly offset?: number;
}

/** Row-major numbers on the host, as a backend returns them. */
export interface DenseArray extends HostArray {
  /** The numbers, row-major without gaps. */
  readonly data: Float32Array | Uint32Array;
}

/** `max` of nothing: the lowest finite f32. */
export const LOWEST: number = -Math.fround(3.4028234663852886e38);

/** Returns the number of elements of a shape. */
export const sizeOf = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

/**
 * Whether a kernel's output of this shape, not declared dense, takes over lengths of `rows` rows of `slots`: one row
 * each, or query rows of these KV rows.
 */
export const takesLengths = (
  { dense }: { readonly dense?: true },
  [r = 1, n = 1]: readonly number[],
  rows: number,
  slots: number,
): boolean => !dense && (r === rows || (r % rows === 0 && n === slots));

/** Returns the row-major strides of a shape, in elements. */
export function rowMajor(shape: readonly number[]): number[] {
  const stride = new Array<number>(shape.length).fill(1);
  for (let i = shape.length - 2; i >= 0; i--) stride[i] = stride[i + 1] * shape[i + 1];
  return stride;
}
