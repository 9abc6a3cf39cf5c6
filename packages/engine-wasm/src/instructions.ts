import type { BufferSlice } from './layout.ts';

/** Operations of kernel/run.ts. */
export const ops = {
  barrier: 1,
  norm: 2,
  quantise: 3,
  product: 4,
  gated: 5,
  gate: 6,
  add: 7,
  rope: 8,
  bend: 9,
  append: 10,
  token: 11,
  join: 12,
  pack: 13,
  attend: 14,
  queries: 15,
  tokens: 16,
  joins: 17,
  fold: 18,
  mix: 19,
  gram: 20,
  quadratic: 21,
  show: 22,
  loop: 23,
  convolve: 24,
  delta: 25,
  channels: 26,
  space: 27,
  gateRuns: 28,
  packRows: 29,
} as const;

/** How threads divide an operation on rows: each does all, or a share of rows or (for one row) of columns. */
export const modes = { all: 0, rows: 1, columns: 2 } as const;

const bits = new Float32Array(1),
  bitsOf = new Uint32Array(bits.buffer);
/** Returns the word of a real number. */
export const real = (value: number): number => {
  bits[0] = value;
  return bitsOf[0];
};

/** Returns the word of an address: the offset is a multiple of 4, and the lowest bits hold its base. */
export const addressOf = ({ base, at }: BufferSlice): number => at + base;

/** Some rows of a weight in panels of one kind. */
export interface WeightPanels {
  readonly kind: number;
  readonly rows: number;
  readonly inputs: number;
  /** Address of its panels, and bytes of one. */
  readonly at: number;
  readonly size: number;
  /** Whether activations stay f32. */
  readonly exact: boolean;
}
