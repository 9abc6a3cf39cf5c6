import type { RopeConfig } from '../checkpoint/rope-config.ts';
import type { Angles } from './program.ts';

/**
 * Angles of positions `[m]` in a sequence of `length` tokens; those of the last call are kept, since all layers of a
 * pass that turn alike ask for the same. Where nothing turns the angles are empty.
 * Frequencies and angles are rounded to f32 as the reference implementations do, so that long positions agree with
 * them.
 */
export function createAngles({
  theta,
  rotary,
  divisors,
  long,
  attentionFactor = 1,
}: RopeConfig): (positions: Uint32Array, length: number) => Angles {
  const half = rotary / 2;
  const frequencies = (by: readonly number[] | undefined): Float32Array =>
    Float32Array.from(
      { length: half },
      (_, i) => 1 / Math.fround(Math.fround(theta ** Math.fround((2 * i) / rotary)) * (by?.[i] ?? 1)),
    );
  const [short, far] = [frequencies(divisors), long && frequencies(long.divisors)];
  let last: { readonly positions: Uint32Array; readonly frequency: Float32Array; readonly angles: Angles } | undefined;
  return (positions, length) => {
    const frequency = far !== undefined && length > long!.beyond ? far : short;
    if (last?.frequency === frequency && same(last.positions, positions)) return last.angles;
    const [cos, sin] = [new Float32Array(positions.length * half), new Float32Array(positions.length * half)];
    for (const [row, position] of positions.entries())
      for (let i = 0; i < half; i++) {
        const angle = Math.fround(position * frequency[i]);
        cos[row * half + i] = Math.cos(angle) * attentionFactor;
        sin[row * half + i] = Math.sin(angle) * attentionFactor;
      }
    last = { positions: positions.slice(), frequency, angles: { rotary, cos, sin } };
    return last.angles;
  };
}

function same(a: Uint32Array, b: Uint32Array): boolean {
  return a.length === b.length && a.every((x, i) => x === b[i]);
}
