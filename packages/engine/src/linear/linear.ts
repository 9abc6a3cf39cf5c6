import type { Matrix } from '@kv/checkpoints';

/** `y = x Wᵀ` for one weight matrix, f32. */
export interface Linear {
  readonly inputs: number;
  readonly outputs: number;
  /** A row's result does not depend on the rows beside it, to the bit. @defaultValue false */
  readonly rowwise?: boolean;
  /** x `[rows, inputs]` to `[rows, outputs]`, a new array. */
  apply(x: Float32Array, rows: number): Float32Array | Promise<Float32Array>;
  /** Gives its memory back; it must not be applied again. */
  destroy(): void;
}

/**
 * Makes a product from a weight. It never writes the weight's bytes, and holds on to them only where they are f32
 * already and in memory once.
 */
export type LinearFactory = (weight: Matrix) => Linear;
