import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { dispatch } from '@kv/gpu';
import { rotate } from './kernels/rotate.wgsl.ts';
import type { DeviceAngles } from './operations.ts';

/**
 * Records the rotation of the first slots of every row of `x [rows, size, d]`, in place: `turns [rows, slots, 2]` are
 * the rows of the angles to rotate from, and to.
 */
export function encodeRotate(commands: Commands, x: Tensor, turns: Tensor, { rotary, cos, sin }: DeviceAngles): void {
  const [rows = 1, size = 1, channels = 1] = x.shape,
    slots = turns.shape[1],
    half = rotary / 2;
  dispatch(
    commands,
    rotate,
    { turns, cosines: cos, sines: sin, x },
    { slots, size, channels, half },
    rows * slots * half,
  );
}
