import { variants } from '../variants.ts';
import type { GpuKernel } from '@kv/gpu';
import { LOWEST } from '../wgsl/visible.ts';

/**
 * One workgroup: joins the `splits` parts that split attention left for one query head of one query, in order, to
 * attended `[m, H * d]` and, from `lse_at` on, log-sum-exp `[H, m]`. `sinks` `[H]`: one more score of a query head, of no
 * slot, which the log-sum-exp counts. `leaves`, of one query: `past` becomes what a
 * later attention adds to running sums by, the query `[H, d]` and after it log-sum-exp `[H]`.
 */
export const join: (kind: {
  readonly leaves: boolean;
  readonly sinks: boolean;
}) => GpuKernel<'parts' | 'out' | 'q' | 'past' | 'sinks', 'm' | 'heads' | 'size' | 'splits' | 'meta_at' | 'lse_at'> =
  variants(({ leaves, sinks }) => ({
    id: `model:join:${leaves}:${sinks}`,
    buffers: {
      parts: 'f32',
      out: ['f32', 'write'],
      ...(leaves && { q: 'f32', past: ['f32', 'write'] as const }),
      ...(sinks && { sinks: 'f32' }),
    },
    scalars: { m: 'u32', heads: 'u32', size: 'u32', splits: 'u32', meta_at: 'u32', lse_at: 'u32' },
    threads: 64,
    per: 'group',
    source: /* wgsl */ `
fn run(group: u32, lane: u32) {
  let at = group * params.splits;
  var top = ${sinks ? 'sinks[group % params.heads]' : LOWEST};
  for (var s = at; s < at + params.splits; s++) { top = max(top, parts[params.meta_at + 2u * s]); }
  var sum = ${sinks ? 'exp(sinks[group % params.heads] - top)' : '0.0'};
  for (var s = at; s < at + params.splits; s++) { sum += parts[params.meta_at + 2u * s + 1u] * exp(parts[params.meta_at + 2u * s] - top); }
  let over = select(0.0, 1.0 / sum, sum > 0.0);
  for (var c = lane; c < params.size; c += 64u) {
    var mixed = 0.0;
    for (var s = at; s < at + params.splits; s++) { mixed += parts[s * params.size + c] * exp(parts[params.meta_at + 2u * s] - top); }
    out[group * params.size + c] = mixed * over;
    ${leaves ? 'past[group * params.size + c] = q[group * params.size + c];' : ''}
  }
  if (lane == 0u) {
    let lse = select(${LOWEST}, top + log(sum), sum > 0.0);
    out[params.lse_at + group % params.heads * params.m + group / params.heads] = lse;
    ${leaves ? 'past[params.heads * params.size + group] = lse;' : ''}
  }
}`,
  }));
