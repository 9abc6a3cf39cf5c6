import type { DType, HostArray, Tensor } from './tensor.ts';

/** A number or a tensor; numbers broadcast. */
export type Operand = Tensor | number;
export type Axis = 'rows' | 'slots' | 'channels';
export type Reduction = 'sum' | 'mean' | 'max' | 'min' | 'std';
export type Unary = 'exp' | 'log' | 'log1p' | 'sqrt' | 'abs' | 'floor';
export type Binary = 'add' | 'sub' | 'mul' | 'div' | 'max' | 'min' | 'less' | 'atLeast' | 'equal';

/** Which slots of `pool` take part: all but the last `except` valid ones of each row, which keep their raw value. */
export interface PoolOptions {
  readonly kernel: number;
  readonly kind: 'mean' | 'max';
  readonly except?: number;
}

/** What a host computes many vectors by, in f64 sums. Results go to `out`. */
export interface Products {
  /** Inner products of every row of q `[rows, d]` with every one of x `[n, d]`: `[rows, n]`. */
  dots(q: Float32Array, x: Float32Array, d: number, out: Float32Array): void;
  /** Euclidean distances of every row of q `[rows, d]` from every one of x `[n, d]`: `[rows, n]`. */
  distances(q: Float32Array, x: Float32Array, d: number, out: Float32Array): void;
  /** Euclidean lengths of x `[n, d]`: `[n]`. */
  norms(x: Float32Array, d: number, out: Float32Array): void;
  /** Σ p_i x_i for every row of p `[rows, n]`, over x `[n, d]`: `[rows, d]`. */
  mix(p: Float32Array, x: Float32Array, d: number, out: Float32Array): void;
  /** e^(x - less_r) in the place of x `[rows, n]`, for `less` `[rows]`. */
  exps(x: Float32Array, less: Float32Array): void;
}

/**
 * One device kernel with its reference over host arrays, brought by any piece that elementwise operations cannot say.
 * The law `kernel` in `@kv/laws` checks the two against each other.
 */
export interface Kernel {
  readonly id: string;
  /** Names and element types of the inputs, in binding order. */
  readonly inputs: Readonly<Record<string, DType>>;
  /** Names of scalar parameters; u32 unless the name is listed as f32. */
  readonly params: Readonly<Record<string, DType>>;
  /** `dense`: it has no slots, so that it takes no lengths over although `ragged` names who has them. */
  readonly output: {
    readonly dtype: DType;
    readonly dense?: true;
    shape(
      shapes: Readonly<Record<string, readonly number[]>>,
      params: Readonly<Record<string, number>>,
    ): readonly number[];
  };
  /**
   * The input whose `lengths` the output takes over, row by row or, in query rows of as many slots, those of their KV
   * head; absent: the output is dense.
   */
  readonly ragged?: string;
  /**
   * WGSL: the functions and `fn run(index: u32)` that computes output element or row `index`. In scope: every input as
   * `array<f32 | u32>` by its name, its dimensions as `NAME_shape: vec3<u32>` (trailing 1s), `NAME_lengths: array<u32>`
   * for the input named by `ragged` (always bound), parameters as `params.NAME`, and `output: array<f32 | u32>` to
   * write.
   * Per `group` it is `fn run(row: u32, lane: u32)`, called by the `THREADS` threads of a workgroup together, which
   * share
   * `best(lane, key, place) -> u32`: the place of the largest key of them all, of equal keys the lowest place.
   */
  readonly wgsl: string;
  /**
   * How many times `run` is called: once an element, once a row of the output, or by each thread of a workgroup for
   * each row.
   */
  readonly per: 'element' | 'row' | 'group';
  /**
   * Additions, multiplications, comparisons and functions of a call, for predictions of its cost. Inputs whose numbers
   * are known come with `data`; of others the most is assumed.
   *
   * @defaultValue one for each number that the call binds
   */
  operations?(
    inputs: Readonly<Record<string, { readonly shape: readonly number[]; readonly data?: ArrayLike<number> }>>,
    params: Readonly<Record<string, number>>,
  ): number;
  /**
   * The same over row-major host arrays; `lengths` holds the valid slots of each row of the `ragged` input. What
   * many vectors come to goes through `products`, where they are given.
   */
  ref(
    inputs: Readonly<Record<string, { readonly data: Float32Array | Uint32Array; readonly shape: readonly number[] }>>,
    params: Readonly<Record<string, number>>,
    output: Float32Array | Uint32Array,
    lengths: Uint32Array,
    products?: Products,
  ): void;
}

/**
 * What a piece computes with. Synchronous and recording: no operation returns a number or a promise; the CPU executes
 * at
 * once, a GPU encodes.
 *
 * Broadcasting: numbers with everything; a missing or size-1 axis with any size; and on the row axis G rows with H = R
 * * G,
 * row h reading row floor(h / R): the values of a query head are those of its KV head.
 */
export interface Ops {
  /** A tensor from host numbers. `lengths` makes it ragged. */
  from(array: HostArray, dtype?: DType, lengths?: Tensor): Tensor;
  /** `value` in the shape of `like`, ragged as it is. */
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
   * Reduces one axis and keeps it with size 1 (`channels` is dropped). `std` is the population's. An empty max is the
   * lowest finite number.
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
   * 1-D pooling along slots, stride 1, same length; the mean divides by the whole kernel (zero padding), as torch's
   * does.
   */
  pool(x: Tensor, options: PoolOptions): Tensor;
  /**
   * Rank of each valid slot, 0 = highest; ties to the lower slot, then the lower row; within its row or over all rows.
   */
  rank(x: Tensor, over: 'row' | 'all'): Tensor;
  /** 1 in the last w valid slots of each row, else 0. */
  lastSlots(like: Tensor, w: number): Tensor;
  /**
   * `table[r, index[r', i]]`: looks positions, units or slots up; `table` `[r, N]` or `[r, N, c]`, `index` u32 `[r',
   * n]`, ragged as `index` is.
   */
  take(table: Tensor, index: Tensor): Tensor;
  /**
   * Mean of x over the slots of each group: `groups` u32 `[r', n]` in 0..count - 1, result `[r, count]`; an empty group
   * gives 0.
   */
  groupSlots(kind: 'mean' | 'sum' | 'max', x: Tensor, groups: Tensor, count: number): Tensor;
  /**
   * Kept slots, ascending: per row the forced ones, then the highest scores, ties to the lower slot, never a banned
   * one, until
   * `budgets[r]` (f32 `[rows, 1]`) are taken; all forced ones, even beyond it. Result u32 `[rows, n]`, ragged: its
   * lengths
   * are the counts. Rows whose `active` (f32 `[rows, 1]`) is 0 select nothing and leave early.
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
  /** 1 at the kept slots, else 0: the mask `[rows, n]` of what `select` gave, in the shape and raggedness of `like`. */
  mark(kept: Tensor, like: Tensor): Tensor;
  /** u32 `[1]`: 0, or 1 + the flat index of the first valid entry that is NaN, infinite or below `atLeast`. */
  firstBad(x: Tensor, atLeast?: number): Tensor;
  /** Another view on the same rows: `[1, rows * n]` has no ragged rows left; only for dense tensors. */
  reshape(x: Tensor, shape: readonly number[]): Tensor;

  kernel(kernel: Kernel, inputs: Readonly<Record<string, Tensor>>, params?: Readonly<Record<string, number>>): Tensor;
}

/** Where tensors live: operations that record, and the one asynchronous read an event makes. */
export interface Backend {
  readonly name: string;
  readonly ops: Ops;
  /** Numbers of the tensors, row-major, in one read. */
  read(tensors: readonly Tensor[]): Promise<
    readonly {
      readonly data: Float32Array | Uint32Array;
      readonly shape: readonly number[];
      readonly lengths?: Uint32Array | undefined;
    }[]
  >;
}
