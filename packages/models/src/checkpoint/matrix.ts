import type { TensorType } from './tensor-types.ts';
import { toFloat32 } from './tensor-types.ts';

/** Some rows of a weight, as the checkpoint stores them. */
export interface MatrixPart {
  readonly type: TensorType;
  readonly rows: number;
  readonly bytes: Uint8Array;
}

/** A weight `[outputs, inputs]`: parts one above the other, each in the type that the checkpoint has, so that an engine may take quantised blocks as they are. */
export interface Matrix {
  readonly outputs: number;
  readonly inputs: number;
  readonly parts: readonly MatrixPart[];
}

/** A matrix of f32 numbers, `[outputs, inputs]` row-major; the numbers are not copied. */
export function matrixOf(values: Float32Array, outputs: number, inputs: number): Matrix {
  return { outputs, inputs, parts: [{ type: 'F32', rows: outputs, bytes: new Uint8Array(values.buffer, values.byteOffset, values.byteLength) }] };
}

/** The matrix as f32, `[outputs, inputs]` row-major; a matrix that is one f32 part may be returned as it lies. */
export function dense({ outputs, inputs, parts }: Matrix): Float32Array {
  if (parts.length === 1) return toFloat32(parts[0]!.type, parts[0]!.bytes);
  const out = new Float32Array(outputs * inputs);
  let at = 0;
  for (const { type, bytes, rows } of parts) {
    out.set(toFloat32(type, bytes), at);
    at += rows * inputs;
  }
  return out;
}
