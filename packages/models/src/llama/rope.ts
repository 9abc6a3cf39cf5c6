/** Rotary position embedding in the rotate-half layout: pair (i, i + d/2) turns by position / theta^(2i/d). */
export interface Rope {
  /**
   * Writes the turned head vector x[at .. at + d) to out[to .. to + d).
   * Angles are rounded to f32 as the reference implementations do, so that long positions agree with them.
   */
  turn(x: Float32Array, at: number, position: number, out: Float32Array, to: number): void;
}

/** A rope for heads of `headDim` (even) with base `theta`; tables of sines grow with the largest position seen. */
export function createRope(headDim: number, theta: number): Rope {
  const half = headDim / 2;
  const frequency = Float32Array.from({ length: half }, (_, i) => 1 / Math.fround(theta ** Math.fround((2 * i) / headDim)));
  let known = 0;
  let cos = new Float32Array(0);
  let sin = new Float32Array(0);
  const grow = (position: number): void => {
    const next = Math.max(position + 1, Math.ceil(known * 1.25), 256);
    cos = extend(cos, next * half);
    sin = extend(sin, next * half);
    for (let p = known; p < next; p++)
      for (let i = 0; i < half; i++) {
        const angle = Math.fround(p * frequency[i]!);
        cos[p * half + i] = Math.cos(angle);
        sin[p * half + i] = Math.sin(angle);
      }
    known = next;
  };
  return {
    turn(x, at, position, out, to) {
      if (position >= known) grow(position);
      const row = position * half;
      for (let i = 0; i < half; i++) {
        const a = x[at + i]!;
        const b = x[at + half + i]!;
        const c = cos[row + i]!;
        const s = sin[row + i]!;
        out[to + i] = a * c - b * s;
        out[to + half + i] = b * c + a * s;
      }
    },
  };
}

function extend(old: Float32Array<ArrayBuffer>, length: number): Float32Array<ArrayBuffer> {
  const out = new Float32Array(length);
  out.set(old);
  return out;
}
