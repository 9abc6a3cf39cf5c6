import type { GpuKernel } from '@kv/gpu';

/** Channels of one workgroup. */
export const COMPACT_CHANNELS = 32;
/** Words that a thread holds between reading and writing. */
const HELD = 8;

/**
 * One workgroup: up to 32 channels of one row of `data [rows, capacity, channels]`, whose slots `kept[row,
 * ..counts[row])` (ascending) move to the front, in place: a tile is read whole, then written, and since no slot moves
 * up no later one is lost. `group` rows share a row of `kept [rows / group, stride]`. Elements are words of 32 bits of
 * any type.
 */
export const compact: GpuKernel<'kept' | 'counts' | 'data', 'capacity' | 'channels' | 'stride' | 'group'> = {
  id: 'model:compact',
  buffers: { kept: 'u32', counts: 'u32', data: ['u32', 'write'] },
  scalars: { capacity: 'u32', channels: 'u32', stride: 'u32', group: 'u32' },
  per: 'group',
  source: /* wgsl */ `
fn run(group: u32, lane: u32) {
  let slices = (params.channels + ${COMPACT_CHANNELS - 1}u) / ${COMPACT_CHANNELS}u;
  let row = group / slices;
  let first = group % slices * ${COMPACT_CHANNELS}u;
  let width = min(${COMPACT_CHANNELS}u, params.channels - first);
  let base = row * params.capacity * params.channels + first;
  let from_ = row / params.group * params.stride;
  let size = counts[row / params.group] * width;
  for (var start = 0u; start < size; start += ${256 * HELD}u) {
    var held: array<u32, ${HELD}>;
    for (var i = 0u; i < ${HELD}u; i++) {
      let at = start + i * 256u + lane;
      if (at < size) { held[i] = data[base + kept[from_ + at / width] * params.channels + at % width]; }
    }
    storageBarrier();
    for (var i = 0u; i < ${HELD}u; i++) {
      let at = start + i * 256u + lane;
      if (at < size) { data[base + at / width * params.channels + at % width] = held[i]; }
    }
    storageBarrier();
  }
}`,
};

/**
 * One element: one channel of slot i of one row of `out [rows, slots, channels]`, slot `kept[row, i]` of `data`, for i
 * below `counts[row]`; all else as in `compact`.
 */
export const gather: GpuKernel<
  'kept' | 'counts' | 'data' | 'out',
  'capacity' | 'channels' | 'stride' | 'group' | 'slots'
> = {
  id: 'model:gather',
  buffers: { kept: 'u32', counts: 'u32', data: 'u32', out: ['u32', 'write'] },
  scalars: { capacity: 'u32', channels: 'u32', stride: 'u32', group: 'u32', slots: 'u32' },
  source: /* wgsl */ `
fn run(index: u32) {
  let c = index % params.channels;
  let i = index / params.channels % params.slots;
  let row = index / (params.channels * params.slots);
  if (i < counts[row / params.group]) { out[index] = data[(row * params.capacity + kept[row / params.group * params.stride + i]) * params.channels + c]; }
}`,
};
