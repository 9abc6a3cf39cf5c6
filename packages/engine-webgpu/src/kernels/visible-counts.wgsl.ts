import { variants } from '../variants.ts';
import type { GpuKernel } from '@kv/gpu';
import { SLOTS_BELOW } from '../wgsl/ranges.ts';
import { scoreBuffers, scoreScalars, visibilitySource, type ScoreBuffer, type ScoreKind } from '../wgsl/visible.ts';

/**
 * One thread for each query head and each of the last `last` of m queries: how many slots of its KV head it sees. To
 * `out [2, H, last]`, after a copy of lse `[H, last]`, which begins at `lse_at`. A binary search of the ascending
 * positions for the newest and the oldest that are near enough; what lies between is counted one by one only where
 * pairs of `rows` or a mask may hide it.
 */
export const visibleCounts: (
  kind: ScoreKind,
) => GpuKernel<ScoreBuffer | 'lse' | 'out', keyof typeof scoreScalars | 'last' | 'lse_at'> = variants((kind) => ({
  id: `model:visible-counts:${kind.masked}`,
  buffers: { ...scoreBuffers(kind), lse: 'f32', out: ['f32', 'write'] },
  scalars: { ...scoreScalars, last: 'u32', lse_at: 'u32' },
  threads: 64,
  source: /* wgsl */ `
${visibilitySource(kind)}
${SLOTS_BELOW}
fn run(index: u32) {
  let h = index / params.last;
  let g = h / (params.heads / params.kv_heads);
  let r = params.m - params.last + index % params.last;
  let next = position_of(r) + 1u;
  let first = slots_below(g, next - min(next, params.window));
  let end = slots_below(g, next);
  var count = end - first;
  if (${kind.masked ? 'true' : 'params.views > 0u'}) {
    count = 0u;
    for (var j = first; j < end; j++) { count += select(0u, 1u, is_seen(r, h, g, j)); }
  }
  out[index] = lse[params.lse_at + index];
  out[params.heads * params.last + index] = f32(count);
}`,
}));
