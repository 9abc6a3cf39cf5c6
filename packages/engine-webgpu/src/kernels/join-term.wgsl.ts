import type { GpuKernel } from '@kv/gpu';

/**
 * One number of attention `[m, H * d]` over slots, with log-sum-exps `[H, m]` from `lse_at` on in the same buffer, joined with
 * a term of masses `[H, m]` and values `[H, m, d]`.
 */
export const joinTerm: GpuKernel<'attended' | 'masses' | 'values' | 'out', 'm' | 'heads' | 'width' | 'lse_at'> = {
  id: 'model:join-term',
  buffers: { attended: 'f32', masses: 'f32', values: 'f32', out: ['f32', 'write'] },
  scalars: { m: 'u32', heads: 'u32', width: 'u32', lse_at: 'u32' },
  source: /* wgsl */ `
fn run(index: u32) {
  let c = index % params.width; let h = index / params.width % params.heads; let r = index / (params.width * params.heads);
  let at = h * params.m + r;
  let own = attended[params.lse_at + at]; let extra = masses[at]; let top = max(own, extra);
  let share = exp(extra - top) / (exp(extra - top) + exp(own - top));
  out[index] = attended[index] + share * (values[at * params.width + c] - attended[index]);
}`,
};
