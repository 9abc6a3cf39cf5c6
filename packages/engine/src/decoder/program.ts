import type { Matrix } from '@kv/checkpoints';

/** A value of a program: m rows of `width` f32 numbers, a row a token. */
export interface RowsValue {
  readonly id: number;
  readonly width: number;
}

/**
 * What happens to rows between one attention and the next. Every engine runs the same few: plain loops, a library's
 * graph, a GPU.
 */
export type Instruction =
  /**
   * `x / sqrt(mean(x²) + eps) * gain`, for each run of `gain.length` numbers of a row by itself (a row, or each head of
   * it).
   */
  | {
      readonly op: 'rmsNorm';
      readonly x: RowsValue;
      readonly gain: Float32Array;
      readonly eps: number;
      readonly out: RowsValue;
    }
  /** `x Wᵀ + bias` */
  | {
      readonly op: 'linear';
      readonly name: string;
      readonly x: RowsValue;
      readonly weight: Matrix;
      readonly bias?: Float32Array;
      readonly out: RowsValue;
    }
  /** `x[:, from : from + out.width]` */
  | { readonly op: 'columns'; readonly x: RowsValue; readonly from: number; readonly out: RowsValue }
  /**
   * Every head of a row turned by the row's position: the first `rotary` numbers (all of them by default) as pairs (i,
   * i + rotary / 2), the rest as they are. Layers may turn by different angles, and one without positions has none of
   * these.
   */
  | {
      readonly op: 'rope';
      readonly x: RowsValue;
      readonly headDim: number;
      readonly rotary?: number;
      readonly out: RowsValue;
    }
  /** Rows `[gate | up]` to `activation(gate) * up`; gelu is the tanh form. */
  | { readonly op: 'gated'; readonly x: RowsValue; readonly activation: 'silu' | 'gelu'; readonly out: RowsValue }
  | { readonly op: 'add'; readonly x: RowsValue; readonly y: RowsValue; readonly out: RowsValue }
  /** `x * by` */
  | { readonly op: 'scale'; readonly x: RowsValue; readonly by: number; readonly out: RowsValue }
  /** `cap * tanh(x / cap)` */
  | { readonly op: 'softcap'; readonly x: RowsValue; readonly cap: number; readonly out: RowsValue }
  /** `[m, H * d]` to `[H, m, d]`: the layout of queries, keys and values; only ever an output. */
  | { readonly op: 'heads'; readonly x: RowsValue; readonly headDim: number; readonly out: RowsValue };

/** A straight line of instructions. */
export interface Program {
  readonly name: string;
  readonly inputs: readonly RowsValue[];
  readonly instructions: readonly Instruction[];
  readonly outputs: readonly RowsValue[];
}

/**
 * Angles of rows' positions for `rope`: cos and sin `[m, rotary / 2]` f32, any attention factor of the scaling
 * multiplied in.
 */
export interface Angles {
  readonly rotary: number;
  readonly cos: Float32Array;
  readonly sin: Float32Array;
}

/** A program whose weights an engine holds, in whatever form it wants. */
export interface PreparedProgram {
  /**
   * Reads back the weight of the product of this name, to the bit, where it is held in a form that allows it: then
   * nobody keeps the file's bytes.
   */
  stored?(name: string): WeightRows;
  destroy(): void;
}

/** A program that runs over arrays on the host. */
export interface Runnable extends PreparedProgram {
  /**
   * Inputs `[m, width]` to outputs, new arrays; `angles` where the program turns heads, or, of a layer's `finish`, the
   * `next` program that it may compute as well.
   */
  run(inputs: readonly Float32Array[], m: number, angles?: Angles): Promise<readonly Float32Array[]>;
}

/** Rows `from` to `from + count` of a weight as f32, `[count, inputs]`. */
export type WeightRows = (from: number, count: number) => Float32Array;

/** What attention is like in every layer. */
export interface HeadLayout {
  readonly queryHeads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly softcap?: number;
}

/**
 * Prepares programs; it knows no model, cache or sequence. `prepare` may not keep the program's matrices: their bytes
 * are the caller's to drop.
 */
export interface Engine<R extends PreparedProgram = Runnable> {
  /** What reports call it, such as `wasm` or `onnxruntime-node, 4-bit weights`. */
  readonly name: string;
  prepare(program: Program): Promise<R>;
  /**
   * What follows a layer's attention and, but for the last layer, what precedes the next one's, where they are faster
   * as one: `next` is usually run on
   * what `finish` gave, so that `finish`, told the angles, may compute both; rows that it gave must then not be written
   * to before `next` has run.
   */
  prepareLayer?(
    heads: HeadLayout,
    finish: Program,
    next: Program | undefined,
  ): Promise<readonly [finish: R, next: R | undefined]>;
}
