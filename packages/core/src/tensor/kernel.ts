import type { DType } from './tensor.ts';

type Types = Readonly<Record<string, DType>>;
type Data<T extends DType> = T extends 'u32' ? Uint32Array : Float32Array;
type Shapes<I extends Types> = { readonly [K in keyof I]: readonly number[] };
type Params<P extends Types> = { readonly [K in keyof P]: number };

/** Products of many vectors on the host. Results go to `out`. Sums are in f64 unless stated otherwise. */
export interface Products {
  /** Inner products of every row of q `[rows, d]` with every one of x `[n, d]`: `[rows, n]`. */
  dots(q: Float32Array, x: Float32Array, d: number, out: Float32Array): void;
  /** Euclidean distances of every row of q `[rows, d]` from every one of x `[n, d]`: `[rows, n]`. */
  distances(q: Float32Array, x: Float32Array, d: number, out: Float32Array): void;
  /** Euclidean lengths of x `[n, d]`: `[n]`. */
  norms(x: Float32Array, d: number, out: Float32Array): void;
  /** Σ p_i x_i for every row of p `[rows, n]`, over x `[n, d]`: `[rows, d]`. */
  mix(p: Float32Array, x: Float32Array, d: number, out: Float32Array): void;
  /**
   * `dots` for many rows, summed in f32 in the order of channels, as on devices: off by at most d 2^-24 Σ |q_c x_c|.
   */
  multiply(q: Float32Array, x: Float32Array, d: number, out: Float32Array): void;
  /** Σ over the queries of each head of softmax(q·x), in f32: q `[H m, d]`, x `[n, d]`, `[H, n]`. */
  mass(q: Float32Array, x: Float32Array, d: number, out: Float32Array): void;
  /** The softmax of q·x over the first `seen` `[rows]` of x for every row of q, 0 for others, in f32: `[rows, n]`. */
  attend(q: Float32Array, x: Float32Array, d: number, seen: Float32Array, out: Float32Array): void;
  /** |W q|_p of every row of q `[rows, d]`, W `[D, d]`, p 1 or 2: `[rows]`. W q in f32, its norm in f64. */
  reach(q: Float32Array, w: Float32Array, d: number, p: 1 | 2, out: Float32Array): void;
  /**
   * For every row of q `[rows, d]` the index of the row of x `[n, d]` whose product in `multiply` is largest, ties to
   * the first.
   */
  nearest(q: Float32Array, x: Float32Array, d: number, out: Uint32Array): void;
  /**
   * Σ over the rows q_r of each head of (p / (1 - p))² |x_i - q_r|², with the odds of `ops.odds`, in f32: q `[H m, d]`,
   * x `[n, d]`, p `[H m, n]`, `[H, n]`.
   */
  errors(q: Float32Array, x: Float32Array, d: number, p: Float32Array, out: Float32Array): void;
  /**
   * The minimum and maximum of each channel over every `size` vectors of x `[n, d]`: `[⌈n / size⌉, d]` each. Absent where
   * a kernel's own loop is as fast.
   */
  extents?(x: Float32Array, d: number, size: number, low: Float32Array, high: Float32Array): void;
  /** Σ |x_c| of each channel over x `[n, d]`, rounded to f32: `[d]`. Absent where a kernel's own loop is as fast. */
  sizes?(x: Float32Array, d: number, out: Float32Array): void;
}

/** The memory of a piece's WebAssembly, and views of it that are valid until `place` is called again. */
export interface WasmMemory {
  /**
   * Reserves buffers of these numbers of bytes, 16-byte aligned, with 16 bytes of slack after each; their contents are
   * undefined. Returns their addresses.
   */
  place(...bytes: readonly number[]): readonly number[];
  /** Copies vectors [first, first + n) of x `[.., d]` to the address `at`, each padded with zeros to `deep` numbers. */
  putVectors(x: Float32Array | Uint32Array, d: number, deep: number, first: number, n: number, at: number): void;
  f32(): Float32Array;
  f64(): Float64Array;
  u32(): Uint32Array;
}

/**
 * A device kernel with its reference over host arrays, for what elementwise operations cannot express: shape, cost,
 * reference and WGSL in one place. The law `kernel` in `@kv/laws` checks WGSL and reference against each other; a wrong
 * name of an input or parameter does not compile.
 */
export interface Kernel<I extends Types = any, P extends Types = any> {
  readonly id: string;
  /** Names and element types of the inputs, in binding order. */
  readonly inputs: I;
  /** Names and types of scalar parameters. */
  readonly params: P;
  /** `dense`: the output has no slots, so it takes no lengths although `ragged` names an input that has them. */
  readonly output: {
    readonly dtype: DType;
    readonly dense?: true;
    shape(shapes: Shapes<I>, params: Params<P>): readonly number[];
  };
  /**
   * The input whose `lengths` the output takes over, row by row or, for query rows of the same number of slots, from
   * their KV head; absent: the output is dense.
   */
  readonly ragged?: (keyof I & string) | undefined;
  /**
   * Inputs of rank 3 whose rows `ref` reads where they lie, `apart` numbers from one to the next; others come row-major.
   */
  readonly inPlace?: readonly (keyof I & string)[];
  /** Operation applied to the rows that the WGSL writes. The reference computes the result after it. */
  readonly then?: 'softmax';
  /**
   * WGSL: helper functions and `fn run(index: u32)`, which computes output element or row `index`. In scope: every
   * input as `array<f32 | u32>` by its name, its dimensions as `NAME_shape: vec3<u32>` (trailing 1s),
   * `NAME_lengths: array<u32>` for the input named by `ragged` (always bound), parameters as `params.NAME`, and
   * `output: array<f32 | u32>` to write. With `per: 'group'` it is `fn run(row: u32, lane: u32)`, called by all
   * `THREADS` threads of a workgroup, which share `best(lane, key, place) -> u32`: the place of the largest key of all
   * threads, ties to the lowest place.
   */
  readonly wgsl: string;
  /** What `run` is called for: each element, each row of the output, or each row by every thread of a workgroup. */
  readonly per: 'element' | 'row' | 'group';
  /**
   * Returns the additions, multiplications, comparisons and functions of a call, to predict its cost. Inputs whose
   * numbers are known come with `data`; for others the maximum is assumed.
   *
   * @defaultValue one for each number that the call binds
   */
  operations?(
    inputs: { readonly [K in keyof I]: { readonly shape: readonly number[]; readonly data?: ArrayLike<number> } },
    params: Params<P>,
  ): number;
  /**
   * Computes the output over row-major host arrays (but see `inPlace`); `lengths` holds the valid slots of each row of the `ragged` input.
   * Products of many vectors go through the backend's `products`. The `ref` of a kernel with `wasm` takes its `loop` as
   * an additional argument, and has a default for it.
   */
  ref(
    inputs: {
      readonly [K in keyof I]: {
        readonly data: Data<I[K]>;
        readonly shape: readonly number[];
        readonly apart?: number;
      };
    },
    params: Params<P>,
    output: Float32Array | Uint32Array,
    lengths: Uint32Array,
    products: Products,
    loop?: any,
  ): void;
  /** A faster loop of `ref` for backends on the host: the kernel's own WebAssembly. */
  readonly wasm?: {
    /**
     * The module in base64, SIMD and bulk memory allowed. It imports nothing, and exports `memory` and the global
     * `base`, the byte where free memory begins.
     */
    readonly bytes: string;
    /** Returns the loop that `ref` is given, made of the module's functions over its own memory. */
    loop(module: any): unknown;
  };
}

/** A kernel as declared: its output is f32, computed by element, unless stated otherwise. */
type Declared<I extends Types, P extends Types> = Omit<Kernel<I, P>, 'params' | 'per' | 'output'> & {
  readonly per?: Kernel['per'];
  readonly output: Omit<Kernel<I, P>['output'], 'dtype'> & { readonly dtype?: DType };
} & ([keyof P] extends [never] ? { readonly params?: P } : { readonly params: P });

/** Declares a kernel, checked against the names and types of its inputs and parameters. */
export const kernel = <const I extends Types, const P extends Types = {}>({
  output,
  ...declared
}: Declared<I, P>): Kernel<I, P> =>
  ({ params: {}, per: 'element', ...declared, output: { dtype: 'f32', ...output } }) as unknown as Kernel<I, P>;
