import type { AttentionConfig, RopeConfig } from '@kv/checkpoints';
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
 * that long positions agree with them. Queries are scaled by where they stand in the text, `shift` above the positions that
 * they are rotated by.
 */
export function createAngles(
  rope: RopeConfig,
  queryScale?: AttentionConfig['queryScale'],
): (positions: Uint32Array, length: number, shift?: number) => Angles {
  const { rotary, long, attentionFactor = 1 } = rope,
    half = rotary / 2,
    { short, far } = angleFrequencies(rope);
  let known: readonly {
    readonly positions: Uint32Array;
    readonly frequency: Float32Array;
    readonly shift: number;
    readonly angles: Angles;
  }[] = [];
  return (positions, length, moved = 0) => {
    const frequency = far && long && length > long.beyond ? far : short,
      shift = queryScale ? moved : 0;
    const before = known.find(
      (one) => one.frequency === frequency && one.shift === shift && equal(one.positions, positions),
    );
    if (before) return before.angles;
    const [cos, sin] = [new Float32Array(positions.length * half), new Float32Array(positions.length * half)];
    for (const [row, position] of positions.entries())
      for (let i = 0; i < half; i++) {
        const angle = Math.fround(position * frequency[i]);
        cos[row * half + i] = Math.cos(angle) * attentionFactor;
        sin[row * half + i] = Math.sin(angle) * attentionFactor;
      }
    const scales = queryScale && scalesOf(queryScale, positions, shift),
      angles = { rotary, cos, sin, ...(scales && { scales }) };
    known = [{ positions: positions.slice(), frequency, shift, angles }, ...known.slice(0, KEPT - 1)];
    return angles;
  };
}

/** Returns what queries are multiplied by, unless all of them by 1. */
function scalesOf(
  { by, every }: NonNullable<AttentionConfig['queryScale']>,
  positions: Uint32Array,
  shift: number,
): Float32Array | undefined {
  const scales = Float32Array.from(positions, (p) => 1 + by * Math.log(1 + Math.floor((p + shift) / every)));
  return scales.every((scale) => scale === 1) ? undefined : scales;
}
