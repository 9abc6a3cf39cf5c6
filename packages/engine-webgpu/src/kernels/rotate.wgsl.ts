import type { GpuKernel } from '@kv/gpu';

/**
 * One element: one pair of channels (i, i + half) of one of `slots` slots of `x [rows, size, channels]`, in place:
 * rotated from one position to another, whose rows of angles are the two entries of `turns [rows, slots, 2]`. cosines
 * and sines `[positions, half]`; only the direction of a factor in them is used. Slots that keep their position keep
 * their bits.
 */
export const rotate: GpuKernel<'turns' | 'cosines' | 'sines' | 'x', 'slots' | 'size' | 'channels' | 'half'> = {
  id: 'model:rotate',
  buffers: { turns: 'u32', cosines: 'f32', sines: 'f32', x: ['f32', 'write'] },
  scalars: { slots: 'u32', size: 'u32', channels: 'u32', half: 'u32' },
  source: /* wgsl */ `
fn run(index: u32) {
  let i = index % params.half;
  let slot = index / params.half;
  let before = turns[2u * slot];
  let after = turns[2u * slot + 1u];
  if (before == after) { return; }
  let at = (slot / params.slots * params.size + slot % params.slots) * params.channels + i;
  let c0 = cosines[before * params.half + i];
  let s0 = sines[before * params.half + i];
  let c1 = cosines[after * params.half + i];
  let s1 = sines[after * params.half + i];
  let scale = sqrt((c0 * c0 + s0 * s0) * (c1 * c1 + s1 * s1));
  let c = (c1 * c0 + s1 * s0) / scale;
  let s = (s1 * c0 - c1 * s0) / scale;
  let a = x[at];
  let b = x[at + params.half];
  x[at] = a * c - b * s;
  x[at + params.half] = b * c + a * s;
}`,
};
