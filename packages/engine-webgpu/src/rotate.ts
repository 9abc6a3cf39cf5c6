import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { dispatch } from '@kv/gpu';
import { rotate } from './kernels/rows.wgsl.ts';
import type { DeviceAngles } from './operations.ts';
import type { DeviceRowForm } from './wgsl/stored-rows.ts';

/** Vectors that are rotated: rows of `d` numbers, stored in a form. */
export interface RotatedRows {
  /** `[rows, size]` slots. */
  readonly x: Tensor;
  readonly form: DeviceRowForm;
  readonly d: number;
}

/**
 * Records the rotation of the first slots of every row, in place: `turns [rows, slots, 2]` are the rows of the angles to
 * rotate from, and to.
 */
export function encodeRotate(
  commands: Commands,
  { x, form, d }: RotatedRows,
  turns: Tensor,
  { rotary, cos, sin }: DeviceAngles,
): void {
  const [rows = 1, slots = 1] = turns.shape;
  dispatch(
    commands,
    rotate(form, d),
    { turns, cosines: cos, sines: sin, x },
    { slots, size: x.shape[1], half: rotary / 2 },
    rows * slots,
  );
}
