import type { GpuKernel } from '../kernel.ts';

const KINDS = {
  dot: ['a_get(from_a + c * params.a_slot_step) * y', 'sum'],
  distance: [
    '(a_get(from_a + c * params.a_slot_step) - y) * (a_get(from_a + c * params.a_slot_step) - y)',
    'sqrt(sum)',
  ],
  norm1: ['abs(y)', 'sum'],
  norm2: ['y * y', 'sqrt(sum)'],
} as const;

/**
 * For every vector of `b [r', n, d]`: its inner product with, or distance from, the vector of its row in `a [r, d]`; or
 * its norm.
 */
export const alongChannels = (kind: keyof typeof KINDS): GpuKernel => ({
  id: `along-channels:${kind}`,
  buffers: {
    ...((kind === 'dot' || kind === 'distance') && { a: { view: 'number' } as const }),
    b: { view: 'number' },
    output: ['f32', 'write'],
  },
  scalars: { size: 'u32' },
  operations: ({ count, size }) => 2 * count * size,
  source: /* wgsl */ `
fn run(index: u32) {
  let row = index / params.slots;
  let from_b = b_base(row) + index % params.slots * params.b_slot_step;
  ${kind === 'dot' || kind === 'distance' ? 'let from_a = a_base(row);' : ''}
  var sum = 0.0;
  for (var c = 0u; c < params.size; c++) { let y = b_get(from_b + c * params.b_channel_step); sum += ${KINDS[kind][0]}; }
  output[index] = ${KINDS[kind][1]};
}`,
});
