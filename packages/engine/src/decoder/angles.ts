import type { RopeConfig } from '@kv/checkpoints';
import { equal } from './equal.ts';
import type { Angles } from './program.ts';

/**
 * Returns the angles of one position `[rotary / 2]`, and those for sequences longer than `long.beyond`, rounded to f32.
 */
export function angleFrequencies({ theta, rotary, divisors, long }: RopeConfig): {
  readonly short: Float32Array;
  readonly far: Float32Array | undefined;
} {
  const frequencies = (by: readonly number[] | undefined): Float32Array =>
    Float32Array.from(
      { length: rotary / 2 },
      (_, i) => 1 / Math.fround(Math.fround(theta ** Math.fround((2 * i) / rotary)) * (by?.[i] ?? 1)),
    );
  return { short: frequencies(divisors), far: long && frequencies(long.divisors) };
}

/**
 * Sets of angles to keep: one for a pass, one for each group of layers for the positions of all blocks of a prompt, and
 * up to two more for a piece such as expected attention.
 */
const KEPT = 10;

/**
 * Returns a function from positions `[m]` in a sequence of `length` tokens to angles. The results of the last few calls
 * are kept: all layers of a pass with equal rotary settings ask for the same, and so do pieces. Without rotary
 * positions the angles are empty. Frequencies and angles are rounded to f32 as the reference implementations do, so
 * that long positions agree with them.
 */
export function createAngles(rope: RopeConfig): (positions: Uint32Array, length: number) => Angles {
  const { rotary, long, attentionFactor = 1 } = rope,
    half = rotary / 2,
    { short, far } = angleFrequencies(rope);
  let known: readonly { readonly positions: Uint32Array; readonly frequency: Float32Array; readonly angles: Angles }[] =
    [];
  return (positions, length) => {
    const frequency = far && long && length > long.beyond ? far : short;
    const before = known.find((one) => one.frequency === frequency && equal(one.positions, positions));
    if (before) return before.angles;
    const [cos, sin] = [new Float32Array(positions.length * half), new Float32Array(positions.length * half)];
    for (const [row, position] of positions.entries())
      for (let i = 0; i < half; i++) {
        const angle = Math.fround(position * frequency[i]);
        cos[row * half + i] = Math.cos(angle) * attentionFactor;
        sin[row * half + i] = Math.sin(angle) * attentionFactor;
      }
    const angles = { rotary, cos, sin };
    known = [{ positions: positions.slice(), frequency, angles }, ...known.slice(0, KEPT - 1)];
    return angles;
  };
}
