import type { Kernel } from './kernel.ts';
import type { DType, HostArray, Tensor } from './tensor.ts';

/** A number or a tensor; numbers broadcast. */
export type Operand = Tensor | number;
/** An axis of a tensor: 0, 1 or 2. */
export type Axis = 'rows' | 'slots' | 'channels';
/** How `reduce` turns an axis into one number. */
export type Reduction = 'sum' | 'mean' | 'max' | 'min' | 'std';
/** Functions of one number. */
export type Unary = 'exp' | 'log' | 'log1p' | 'sqrt' | 'abs' | 'floor';
/** Functions of two numbers; comparisons give 1 or 0. */
export type Binary = 'add' | 'sub' | 'mul' | 'div' | 'max' | 'min' | 'less' | 'atLeast' | 'equal';

/** Options of `pool`: all slots but the last `except` valid ones of each row take part; those keep their raw value. */
export interface PoolOptions {
  /** Width of the pooling window, an odd number of slots. */
  readonly kernel: number;
  /** What a window becomes. */
  readonly kind: 'mean' | 'max';
  /** Last valid slots of each row that keep their raw value. @defaultValue 0 */
  readonly except?: number;
}

/**
 * The operations of a backend. They are synchronous and record: none returns a number or a promise; the CPU executes at
 * once, a GPU encodes.
 *
 * Broadcasting: numbers with everything; a missing or size-1 axis with any size; and on the row axis G rows with
 * `H = R * G`, where row h reads row floor(h / R): the values of a query head are those of its KV head.
 */
export interface Primitives {
  /** A tensor from host numbers. `lengths` makes it ragged. */
  from(array: HostArray, dtype?: DType, lengths?: Tensor): Tensor;
  /** `value` in the shape and raggedness of `like`. */
  fill(like: Tensor, value: number): Tensor;

  map(kind: Unary, x: Tensor): Tensor;
  /** `less`, `atLeast` and `equal` give 1 or 0. Operands of type u32 are read as numbers; the result is f32. */
  zip(kind: Binary, a: Operand, b: Operand): Tensor;
  add(a: Operand, b: Operand): Tensor;
  sub(a: Operand, b: Operand): Tensor;
  mul(a: Operand, b: Operand): Tensor;
  div(a: Operand, b: Operand): Tensor;
  max(a: Operand, b: Operand): Tensor;
  min(a: Operand, b: Operand): Tensor;
  exp(x: Tensor): Tensor;
  log(x: Tensor): Tensor;
  /** 1 where a < b, else 0. */
  less(a: Operand, b: Operand): Tensor;
  /** 1 where a >= b, else 0. */
  atLeast(a: Operand, b: Operand): Tensor;
  /** `a` where `mask` is not 0, else `b`. */
  where(mask: Tensor, a: Operand, b: Operand): Tensor;

  /**
   * Reduces one axis and keeps it with size 1 (`channels` is dropped). `std` is the population's. The max of nothing is
   * the lowest finite number.
   */
  reduce(kind: Reduction, x: Tensor, axis: Axis): Tensor;
  /** `[H, n]` to `[rows, n]`, over the H / rows query heads of each KV head. */
  groupRows(kind: 'mean' | 'max' | 'sum', x: Tensor, rows: number): Tensor;

  /** Each row divided by its sum over valid slots; a row without mass becomes uniform. */
  simplex(x: Tensor): Tensor;
  /** Softmax of each row over valid slots. */
  softmax(x: Tensor): Tensor;
  /** h / (1 - h), finite also where h reaches 1. */
  odds(h: Tensor): Tensor;
  /** `[r, n] x [r', n, d] -> [r, d]`, over valid slots. */
  matmul(a: Tensor, b: Tensor): Tensor;
  /** `[r, d] x [r', n, d] -> [r, n]`, inner products. */
  dot(q: Tensor, k: Tensor): Tensor;
  /** `[r, d], [r', n, d] -> [r, n]`, Euclidean distance. */
  distance(o: Tensor, v: Tensor): Tensor;
  /** `[r, n, d] -> [r, n]`, the p-norm of each vector. */
  norm(x: Tensor, p?: 1 | 2): Tensor;
  /** `[r, n, d]` times `[r, n]`, each vector scaled. */
  scale(x: Tensor, by: Tensor): Tensor;

  /**
   * 1-D pooling along slots, stride 1, same length; the mean divides by the whole kernel (zero padding), as in torch.
   */
  pool(x: Tensor, options: PoolOptions): Tensor;
  /**
   * Rank of each valid slot, 0 = highest; ties to the lower slot, then the lower row; within its row or over all rows.
   */
  rank(x: Tensor, over: 'row' | 'all'): Tensor;
  /** 1 in the last w valid slots of each row, else 0. */
  lastSlots(like: Tensor, w: number): Tensor;
  /**
   * `table[r, index[r', i]]`: looks up positions, units or slots; `table` `[r, N]` or `[r, N, c]`, `index` u32
   * `[r', n]`; ragged if `index` is.
   */
  take(table: Tensor, index: Tensor): Tensor;
  /**
   * Mean of x over the slots of each group: `groups` u32 `[r', n]` in 0..count - 1, result `[r, count]`; an empty group
   * gives 0.
   */
  groupSlots(kind: 'mean' | 'sum' | 'max', x: Tensor, groups: Tensor, count: number): Tensor;
  /**
   * Returns kept slots, ascending: per row the forced ones, then the highest scores, ties to the lower slot, never a
   * banned one, until `budgets[r]` (f32 `[rows, 1]`) are taken; all forced ones even beyond it. Result u32 `[rows, n]`,
   * ragged: its lengths are the counts. Rows whose `active` (f32 `[rows, 1]`) is 0 select nothing and end early.
   */
  select(
    scores: Tensor,
    budgets: Tensor,
    masks?: {
      readonly forced?: Tensor | undefined;
      readonly banned?: Tensor | undefined;
      readonly active?: Tensor | undefined;
    },
  ): Tensor;
  /** Mask `[rows, n]` of the result of `select`: 1 at the kept slots, else 0, in the shape and raggedness of `like`. */
  mark(kept: Tensor, like: Tensor): Tensor;
  /** u32 `[1]`: 0, or 1 + the flat index of the first valid entry that is NaN, infinite or below `atLeast`. */
  firstBad(x: Tensor, atLeast?: number): Tensor;
  /** Another shape with the same rows: `[1, rows * n]` has no ragged rows left; only for dense tensors. */
  reshape(x: Tensor, shape: readonly number[]): Tensor;

  /** Returns the tensor. @throws KvError for one of another backend, or one that was released. */
  own(x: Tensor): Tensor;

  kernel(kernel: Kernel, inputs: Readonly<Record<string, Tensor>>, params?: Readonly<Record<string, number>>): Tensor;
}
