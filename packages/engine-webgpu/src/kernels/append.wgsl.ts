import type { GpuKernel } from '@kv/gpu';

/**
 * One element: one channel of one of m new slots of one of G heads, `k` and `v` `[G, m, size]`, goes after that head's
 * `lengths [G]` slots in keys and values `[G, capacity, size]`; with it the slot's position, `added [m]`, to
 * `positions [G, capacity]`. `next [G]` receives the new lengths.
 */
export const append: GpuKernel<
  'k' | 'v' | 'added' | 'lengths' | 'keys' | 'values' | 'positions' | 'next',
  'm' | 'size' | 'capacity'
> = {
  id: 'model:append',
  buffers: {
    k: 'u32',
    v: 'u32',
    added: 'u32',
    lengths: 'u32',
    keys: ['u32', 'write'],
    values: ['u32', 'write'],
    positions: ['u32', 'write'],
    next: ['u32', 'write'],
  },
  scalars: { m: 'u32', size: 'u32', capacity: 'u32' },
  source: /* wgsl */ `
fn run(index: u32) {
  let c = index % params.size;
  let i = index / params.size % params.m;
  let g = index / (params.size * params.m);
  let slot = g * params.capacity + lengths[g] + i;
  keys[slot * params.size + c] = k[index];
  values[slot * params.size + c] = v[index];
  if (c == 0u) {
    positions[slot] = added[i];
    if (i == 0u) { next[g] = lengths[g] + params.m; }
  }
}`,
};
