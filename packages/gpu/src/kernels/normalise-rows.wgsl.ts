import { THREADS } from '../kernel.ts';
import type { GpuKernel } from '../kernel.ts';
import { IS_NAN, LOWEST, tree, TREE } from './fold.wgsl.ts';

/**
 * Normalises each row over its valid slots: x / Σx, or exp(x - max) / Σ; uniform if the sum is 0; 0 beyond them. One
 * workgroup per row.
 */
export const normaliseRows = (softmax: boolean): GpuKernel => ({
  id: softmax ? 'softmax' : 'simplex',
  buffers: { x: { view: 'number', ragged: true }, output: ['f32', 'write'] },
  scalars: {},
  per: 'group',
  operations: ({ rows, slots, channels }) => (softmax ? 4 : 2) * rows * slots * channels,
  source: /* wgsl */ `
${IS_NAN}
${tree('total', TREE.sum)}
${softmax ? tree('largest', TREE.max) : ''}
fn run(group: u32, lane: u32) {
  let size = x_valid(group);
  let from_ = x_base(group);
  ${
    softmax
      ? /* wgsl */ `var top = ${LOWEST};
  for (var i = lane; i < size; i += ${THREADS}u) { let b = x_get(from_ + i * params.x_slot_step); let a = top; top = ${TREE.max}; }
  top = largest(lane, top);`
      : ''
  }
  var mine = 0.0;
  for (var i = lane; i < size; i += ${THREADS}u) { let x = x_get(from_ + i * params.x_slot_step); mine += ${softmax ? 'exp(x - top)' : 'x'}; }
  let mass = total(lane, mine);
  for (var i = lane; i < params.slots; i += ${THREADS}u) {
    var share = 0.0;
    if (i < size) {
      let x = x_get(from_ + i * params.x_slot_step);
      if (mass == 0.0) { share = 1.0 / f32(size); } else { share = ${softmax ? 'exp(x - top)' : 'x'} / mass; }
    }
    output[group * params.slots + i] = share;
  }
}`,
});
