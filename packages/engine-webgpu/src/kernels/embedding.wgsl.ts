import { variants } from '../variants.ts';
import type { GpuKernel } from '@kv/gpu';
import { weightsOf, type WeightFormat } from '../wgsl/weights.ts';

/**
 * One element: eight numbers of one token's row `ids[r]`, times `scale`, to `[m, width]`; rows outside
 * `[first, first + rows)` of the vocabulary belong to another part.
 */
export const embedding: (
  form: WeightFormat,
) => GpuKernel<'ids' | 'weights' | 'scales' | 'out', 'octets' | 'width' | 'first' | 'rows' | 'scale'> = variants(
  (form) => {
    const { buffers, source } = weightsOf(form);
    return {
      id: `model:embedding:${form}`,
      buffers: { ids: 'u32', ...buffers, out: ['f32', 'write'] },
      scalars: { octets: 'u32', width: 'u32', first: 'u32', rows: 'u32', scale: 'f32' },
      threads: 64,
      source: /* wgsl */ `
${source}
fn run(index: u32) {
  let r = index / params.octets;
  let o = index % params.octets;
  let row = ids[r] - params.first; // below \`first\` it wraps, and is beyond \`rows\`
  if (row >= params.rows) { return; }
  let w = weight(row * params.octets + o);
  for (var i = 0u; i < 4u; i++) {
    if (8u * o + i < params.width) { out[r * params.width + 8u * o + i] = w.a[i] * params.scale; }
    if (8u * o + 4u + i < params.width) { out[r * params.width + 8u * o + 4u + i] = w.b[i] * params.scale; }
  }
}`,
    };
  },
);
