import type { GpuKernel } from '../kernel.ts';

/**
 * `a [r, n] x b [r', n, d] -> [r, d]` over valid slots. A workgroup owns 64 channels of a row; 4 lanes share the slots,
 * 32 at a time, which bounds rounding errors.
 */
export const matmul: GpuKernel = {
  id: 'matmul',
  buffers: { a: { view: 'number', ragged: true }, b: { view: 'number', ragged: true }, output: ['f32', 'write'] },
  scalars: {},
  per: 'group',
  operations: ({ rows, slots, channels }) => 2 * rows * slots * channels,
  source: /* wgsl */ `
var<workgroup> parts: array<f32, 256>;
fn run(group: u32, lane: u32) {
  let tiles = (params.channels + 63u) / 64u;
  let row = group / tiles;
  let channel = group % tiles * 64u + lane % 64u;
  let size = min(min(a_valid(row), b_valid(row)), params.slots);
  var sum = 0.0;
  if (channel < params.channels) {
    let from_a = a_base(row);
    let from_b = b_base(row) + channel * params.b_channel_step;
    for (var start = lane / 64u * 32u; start < size; start += 128u) {
      var part = 0.0;
      for (var i = start; i < min(start + 32u, size); i++) { part += a_get(from_a + i * params.a_slot_step) * b_get(from_b + i * params.b_slot_step); }
      sum += part;
    }
  }
  parts[lane] = sum;
  workgroupBarrier();
  if (lane < 64u && channel < params.channels) {
    output[row * params.channels + channel] = (parts[lane] + parts[lane + 64u]) + (parts[lane + 128u] + parts[lane + 192u]);
  }
}`,
};
