/** `y = x Wᵀ` for one weight matrix, f32. */
export interface Linear {
  readonly inputs: number;
  readonly outputs: number;
  /** x `[rows, inputs]` to `[rows, outputs]`, a new array. */
  apply(x: Float32Array, rows: number): Float32Array | Promise<Float32Array>;
  /** Gives its memory back; it must not be applied again. */
  destroy(): void;
}

/** Makes a product from weight `[outputs, inputs]`, which it may keep or copy but never writes. */
export type LinearFactory = (weight: Float32Array, outputs: number, inputs: number) => Linear;
