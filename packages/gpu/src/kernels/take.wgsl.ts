import type { GpuKernel } from '../kernel.ts';

/**
 * `table[row, index[row, slot]]`, with bits unchanged; 0 beyond the valid slots. A kernel cannot throw: an index beyond
 * the table gives NaN (all ones in u32), which the next check finds.
 */
export const take: GpuKernel = {
  id: 'take',
  buffers: { table: { view: 'bits' }, index: { view: 'index', ragged: true }, output: ['u32', 'write'] },
  scalars: { size: 'u32', bad: 'u32' },
  source: /* wgsl */ `
fn run(at: u32) {
  let slot = at / params.channels % params.slots;
  let row = at / (params.channels * params.slots);
  var result = 0u;
  if (slot < index_valid(row)) {
    let place = index_at(row, slot, 0u);
    if (place < params.size) { result = table_at(row, place, at % params.channels); } else { result = params.bad; }
  }
  output[at] = result;
}`,
};
