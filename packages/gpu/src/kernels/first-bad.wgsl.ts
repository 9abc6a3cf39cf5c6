import { THREADS } from '../kernel.ts';
import type { GpuKernel } from '../kernel.ts';

/**
 * Maps the bits of an f32 number to a u32 of the same order, -0 and +0 equal. NaN, infinities and subnormals are safe
 * as bits.
 */
export const ORDERED: string = /* wgsl */ `
fn ordered(bits: u32) -> u32 {
  if ((bits << 1u) == 0u) { return 0x80000000u; }
  return select(bits | 0x80000000u, ~bits, (bits >> 31u) == 1u);
}`;

/**
 * Per row: 1 + the flat index of the first valid entry that is NaN, infinite or ordered below `lowest`, or the largest
 * u32.
 */
export const firstBad: GpuKernel = {
  id: 'first-bad',
  buffers: { x: { view: 'bits', ragged: true }, output: ['u32', 'write'] },
  scalars: { lowest: 'u32' },
  per: 'group',
  source: /* wgsl */ `
${ORDERED}
var<workgroup> found: atomic<u32>;
fn run(group: u32, lane: u32) {
  if (lane == 0u) { atomicStore(&found, 0xffffffffu); }
  workgroupBarrier();
  let size = x_valid(group);
  for (var i = lane; i < size; i += ${THREADS}u) {
    let bits = x_at(group, i, 0u);
    if ((bits & 0x7f800000u) == 0x7f800000u || ordered(bits) < params.lowest) { atomicMin(&found, 1u + group * params.slots + i); break; }
  }
  workgroupBarrier();
  if (lane == 0u) { output[group] = atomicLoad(&found); }
}`,
};

/** The first nonempty result of a row, else 0. */
export const firstOf: GpuKernel = {
  id: 'first-of',
  buffers: { found: 'u32', output: ['u32', 'write'] },
  scalars: { size: 'u32' },
  operations: ({ size }) => size,
  source: /* wgsl */ `
fn run(index: u32) {
  var first = 0u;
  for (var i = 0u; i < params.size && first == 0u; i++) { let x = found[i]; if (x != 0xffffffffu) { first = x; } }
  output[index] = first;
}`,
};
