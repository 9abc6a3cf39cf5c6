import type { GpuKernel } from '@kv/gpu';

/** One element: a copy of a logit, or -Infinity where the bit of its id is not among the first `words` of `allowed`. */
export const allowLogits: GpuKernel<'x' | 'allowed' | 'out', 'x_at' | 'words'> = {
  id: 'model:allow-logits',
  buffers: { x: 'u32', allowed: 'u32', out: ['u32', 'write'] },
  scalars: { x_at: 'u32', words: 'u32' },
  source: /* wgsl */ `
fn run(id: u32) {
  var bits = 0xff800000u;
  let word = id >> 5u;
  if (word < params.words && ((allowed[word] >> (id & 31u)) & 1u) == 1u) { bits = x[params.x_at + id]; }
  out[id] = bits;
}`,
};

/**
 * One element: the logit of `ids[index]` in place, a bias added, the sum times one factor where it is negative and
 * another where not, and a penalty subtracted. What is no finite number stays.
 */
export const editLogits: GpuKernel<'ids' | 'changes' | 'out', never> = {
  id: 'model:edit-logits',
  buffers: { ids: 'u32', changes: 'f32', out: ['f32', 'write'] },
  scalars: {},
  source: /* wgsl */ `
fn run(index: u32) {
  let id = ids[index];
  let before = out[id];
  if ((bitcast<u32>(before) & 0x7f800000u) == 0x7f800000u) { return; }
  let biased = before + changes[4u * index];
  out[id] = biased * select(changes[4u * index + 2u], changes[4u * index + 1u], biased < 0.0) - changes[4u * index + 3u];
}`,
};
