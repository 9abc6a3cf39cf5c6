import type { ExpertActivation, Heads, Matrix, ModelConfig, Routing } from '@kv/checkpoints';
import type { ExpertNumbers } from './experts.ts';

/** A value of a program: m rows of `width` f32 numbers, one row per token. */
export interface RowsValue {
  /** Number of the value in its program. */
  readonly id: number;
  /** Numbers in a row. */
  readonly width: number;
}

/**
 * An instruction on rows between two attentions. Every engine runs the same few: plain loops, a library's graph, a GPU.
 */
export type Instruction =
  /**
   * `x / sqrt(mean(x²) + eps) * gain`, separately for each run of a row: of `gain.length` numbers (a whole row, or each
   * head), or of `run`, where the gain is of a whole row.
   */
  | {
      readonly op: 'rmsNorm';
      readonly x: RowsValue;
      readonly gain: Float32Array;
      readonly run?: number;
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
   * Rotates every head of a row by the row's position: the first `rotary` numbers (all of them by default) as pairs (i,
   * i + rotary / 2); the rest stay as they are. Layers may rotate by different angles; a layer without positions has no
   * such instruction. A `scaled` one then multiplies every number by the row's scale, where angles have scales.
   */
  | {
      readonly op: 'rope';
      readonly x: RowsValue;
      readonly headDim: number;
      readonly rotary?: number;
      readonly scaled?: boolean;
      readonly out: RowsValue;
    }
  /** Rows `[gate | up]` to `activation(gate) * up`; gelu is the tanh form. */
  | { readonly op: 'gated'; readonly x: RowsValue; readonly activation: 'silu' | 'gelu'; readonly out: RowsValue }
  /** Gates x and rows y to `activation(x) * y`. */
  | {
      readonly op: 'gatedBy';
      readonly x: RowsValue;
      readonly y: RowsValue;
      readonly activation: 'silu' | 'gelu';
      readonly out: RowsValue;
    }
  /**
   * Routed experts: `scores` `[m, E]`, the router's products, choose `routing.active` experts of every row of x `[m, D]`, see
   * `routeRows`. The result is the sum, in the order of the experts' numbers, of weight times `down_e(activation(gateUp_e x))`
   * of the chosen ones; the others are not computed. The result of a row does not depend on the rows around it.
   */
  | ({
      readonly op: 'experts';
      readonly x: RowsValue;
      readonly scores: RowsValue;
      readonly routing: Routing;
      /** `[E * 2 * width, D]`: gate and up of every expert. */
      readonly gateUp: Matrix;
      /** `[E * 2 * width]` */
      readonly gateUpBias?: Float32Array;
      /** `[E * D, width]` */
      readonly down: Matrix;
      /** `[E * D]` */
      readonly downBias?: Float32Array;
      readonly activation: ExpertActivation;
      readonly out: RowsValue;
    } & ExpertNumbers)
  /** `x * sigmoid(gate)`, one gate a row. */
  | { readonly op: 'gateRows'; readonly x: RowsValue; readonly gate: RowsValue; readonly out: RowsValue }
  | { readonly op: 'add'; readonly x: RowsValue; readonly y: RowsValue; readonly out: RowsValue }
  /** `x * by` */
  | { readonly op: 'scale'; readonly x: RowsValue; readonly by: number; readonly out: RowsValue }
  /** `cap * tanh(x / cap)` */
  | { readonly op: 'softcap'; readonly x: RowsValue; readonly cap: number; readonly out: RowsValue }
  /** `[m, H * d]` to `[H, m, d]`: the layout of queries, keys and values; only ever an output. */
  | { readonly op: 'heads'; readonly x: RowsValue; readonly headDim: number; readonly out: RowsValue };

/** Returns the values that an instruction reads. */
export function valuesRead(instruction: Instruction): readonly RowsValue[] {
  const { op, x } = instruction;
  if (op === 'add' || op === 'gatedBy') return [x, instruction.y];
  if (op === 'experts') return [x, instruction.scores];
  return op === 'gateRows' ? [x, instruction.gate] : [x];
}

/** Straight-line code: a list of instructions, each run once. */
export interface Program {
  /** Name in errors and reports. */
  readonly name: string;
  /** Values that the caller gives, in order. */
  readonly inputs: readonly RowsValue[];
  readonly instructions: readonly Instruction[];
  /** Values that the caller gets, in order. */
  readonly outputs: readonly RowsValue[];
}

/**
 * Angles of rows' positions for `rope`: cos and sin `[m, rotary / 2]` f32, multiplied by any attention factor of the
 * scaling.
 */
export interface Angles {
  /** Leading channels of a head that are rotated. */
  readonly rotary: number;
  readonly cos: Float32Array;
  readonly sin: Float32Array;
  /** What the queries of rows are multiplied by, `[m]`; absent where all are 1. */
  readonly scales?: Float32Array;
}

/** A program whose weights an engine holds, in a form of its choice. */
export interface PreparedProgram {
  /**
   * Reads back the weight of the product of this name, to the bit, if the engine's form allows it: then the file's
   * bytes need not be kept.
   */
  stored?(name: string): WeightRows;
  /** Releases the weights. */
  destroy(): void;
}

/** A program that runs over arrays on the host. */
export interface Runnable extends PreparedProgram {
  /**
   * Computes outputs, new arrays, from inputs `[m, width]`. `angles` are needed where the program rotates heads, or,
   * for a layer's `finish`, where the `next` program does, which it may compute as well.
   */
  run(inputs: readonly Float32Array[], m: number, angles?: Angles): Promise<readonly Float32Array[]>;
}

/** Rows `from` to `from + count` of a weight as f32, `[count, inputs]`. */
export type WeightRows = (from: number, count: number) => Float32Array;

/** Head counts and width of a layer's attention. */
export interface HeadLayout extends Heads {
  /** Caps scores to `cap * tanh(score / cap)`. @defaultValue no cap */
  readonly softcap?: number;
}

/**
 * Prepares programs; knows no model, cache or sequence. `prepare` may not keep the program's matrices: the caller may
 * drop their bytes.
 */
export interface Engine<R extends PreparedProgram = Runnable> {
  /** Its name in reports, such as `wasm` or `onnxruntime-node, 4-bit weights`. */
  readonly name: string;
  /** Whether `prepare` takes weights whose rows are read a few at a time (`Weights.byRows`). @defaultValue false */
  readonly takesRows?: boolean;
  /**
   * Checks a model before its weights are read.
   * @throws KvError for one that has what this engine cannot run
   */
  expect?(config: ModelConfig): void;
  /** Takes the weights of a program, in a form of the engine's choice. */
  prepare(program: Program): Promise<R>;
  /**
   * Prepares what follows a layer's attention and, except in the last layer, what precedes the next one's, where they
   * are faster as one. `next` is usually run on the result of `finish`, so `finish`, given the angles, may compute
   * both; its resulting rows must then not be written to before `next` has run.
   */
  prepareLayer?(
    heads: HeadLayout,
    finish: Program,
    next: Program | undefined,
  ): Promise<readonly [finish: R, next: R | undefined]>;
}
