const value = new Float32Array(1);
const word = new Uint32Array(value.buffer);

/**
 * Returns the smallest f32 not below `c`: for every f32 x, x < c exactly if x < up(c), and x >= c exactly if x >=
 * up(c).
 */
export function up(c: number): number {
  value[0] = c;
  if (Number.isNaN(c) || value[0] >= c) return value[0];
  // next above: away from 0 for positive numbers, towards it for negative ones
  if (value[0] > 0) word[0]++;
  else if (word[0] === 0x8000_0000 || word[0] === 0) word[0] = 1;
  else word[0]--;
  return value[0];
}

/** Returns the largest f32 not above `c`: c < x exactly if down(c) < x. */
export const down = (c: number): number => -up(-c);

/**
 * Moves a subnormal threshold to the border of the subnormals on its own side, since a device may read subnormals as 0.
 */
export const aboveSubnormals = (x: number): number =>
  x > 0 && x < 2 ** -126 ? 2 ** -126 : x < 0 && x > -(2 ** -126) ? 0 : x;
export const belowSubnormals = (x: number): number => -aboveSubnormals(-x);

/** Whether f32 holds `c` exactly. */
export const isF32 = (c: number): boolean => Object.is(Math.fround(c), c);
