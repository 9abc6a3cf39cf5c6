import type { GpuKernel } from '@kv/gpu';

/**
 * One element: one channel of one of `slots` slots of one row, from `x [rows, size, channels]` to
 * `out [rows, out_size, channels]`, the first from `first` to `to`; both wrap at the end of a row, as in a ring; x
 * begins at `x_at`. Elements are words of 32 bits of any type.
 */
export const slots: GpuKernel<'x' | 'out', 'x_at' | 'slots' | 'channels' | 'first' | 'size' | 'to' | 'out_size'> = {
  id: 'model:slots',
  buffers: { x: 'u32', out: ['u32', 'write'] },
  scalars: { x_at: 'u32', slots: 'u32', channels: 'u32', first: 'u32', size: 'u32', to: 'u32', out_size: 'u32' },
  source: /* wgsl */ `
fn run(index: u32) {
  let c = index % params.channels;
  let i = index / params.channels % params.slots;
  let row = index / (params.channels * params.slots);
  let at = row * params.size + (params.first + i) % params.size;
  out[(row * params.out_size + (params.to + i) % params.out_size) * params.channels + c] = x[params.x_at + at * params.channels + c];
}`,
};

/**
 * One element: one slot of `data [rows, capacity]` becomes `value` (its bits) unless it is one of the row's first
 * `counts [rows / group]`.
 */
export const rest: GpuKernel<'counts' | 'data', 'capacity' | 'group' | 'value'> = {
  id: 'model:rest',
  buffers: { counts: 'u32', data: ['u32', 'write'] },
  scalars: { capacity: 'u32', group: 'u32', value: 'u32' },
  source: /* wgsl */ `
fn run(index: u32) {
  if (index % params.capacity >= counts[index / params.capacity / params.group]) { data[index] = params.value; }
}`,
};
