import type { KernelDef } from '../kernel.ts';

/** Lengths of x for `rows` rows: those of the KV heads for each query head, or the slots where x is not ragged. */
export const lengths: KernelDef = {
  id: 'lengths',
  inputs: { x: 'bits' },
  ragged: ['x'],
  shapes: ['x'],
  outputs: { output: 'u32' },
  source: /* wgsl */ `
fn run(index: u32) { output[index] = x_valid(index); }`,
};
