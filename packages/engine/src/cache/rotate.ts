import type { Angles } from '../decoder/program.ts';

/** Rotates the head vector x[at ..) from one position to another, in place. */
export type RotateVector = (x: Float32Array, at: number, from: number, to: number) => void;

/**
 * Returns a function that rotates vectors from one position to another. A vector rotated by position p is rotated on by
 * R(q) R(p)⁻¹. The angles are the model's own, so any scaling of its frequencies holds here too. Only the direction of
 * an attention factor in them is used: the factor that a key already has stays as it is.
 *
 * @param positions every position that vectors will be rotated from or to
 */
export function rotator(angles: (positions: Uint32Array) => Angles, positions: Iterable<number>): RotateVector {
  const known = Uint32Array.from(new Set(positions)),
    row = new Map(Array.from(known, (position, i) => [position, i]));
  const { rotary, cos, sin } = angles(known),
    half = rotary / 2;
  return (x, at, from, to) => {
    if (from === to) return;
    const [p, q] = [row.get(from)! * half, row.get(to)! * half]; // `positions` are all there are
    for (let i = 0; i < half; i++) {
      const [c0, s0, c1, s1] = [cos[p + i], sin[p + i], cos[q + i], sin[q + i]];
      const size = Math.sqrt((c0 * c0 + s0 * s0) * (c1 * c1 + s1 * s1));
      const c = (c1 * c0 + s1 * s0) / size,
        s = (s1 * c0 - c1 * s0) / size;
      const [a, b] = [x[at + i], x[at + half + i]];
      x[at + i] = a * c - b * s;
      x[at + half + i] = b * c + a * s;
    }
  };
}
