import type { OutputNorm } from '@kv/engine';
import { variants } from '../variants.ts';
import type { GpuKernel } from '@kv/gpu';
import { HALF } from '../wgsl/halves.ts';
import { readsRows, rowFunctions, rowType, stageRows, type DeviceRowForm } from '../wgsl/stored-rows.ts';
import { TOTAL } from '../wgsl/total.ts';
import { weightsOf, type WeightFormat } from '../wgsl/weights.ts';

/** Slots of one workgroup, whose values fit into 16 KiB with the sums. */
export const outputSlots = (headDim: number): 4 | 8 => (headDim <= 256 ? 8 : 4);

/**
 * One workgroup: what the values of some slots add to the layer's output through one query head, |v W_O|_1 over that
 * head's columns of the output product, or for p = 2 the sum of squares: to `out [heads, slots]`, added to what is
 * there where `join` is 1 (a product of several parts); 0 for slots that do not exist. Values are rows `[G, capacity]`
 * in the form `stored`;
 * weights `[rows, heads * d]` in a form.
 */
export const outputNorms: (
  form: WeightFormat,
  stored: DeviceRowForm,
  headDim: number,
  p: OutputNorm,
) => GpuKernel<
  'values' | 'lengths' | 'weights' | 'scales' | 'out',
  'heads' | 'kv_heads' | 'capacity' | 'slots' | 'rows' | 'octets' | 'join'
> = variants((form, stored, d, p) => {
  const { buffers, source } = weightsOf(form),
    count = outputSlots(d),
    each = Array.from({ length: count }, (_, i) => i),
    whole = d % 8 === 0,
    values = { name: 'values', form: stored, d };
  const vectors = Array.from({ length: count / 4 }, (_, i) => i);
  const add = (weight: string, c: string): string =>
    vectors
      .map(
        (i) =>
          `products${i} += ${weight} * vec4<f32>(${[0, 1, 2, 3].map((j) => `staged[${(4 * i + j) * d}u + ${c}]`).join(', ')});`,
      )
      .join(' ');
  return {
    id: `model:output-norms:${form}:${stored}:${d}:${p}`,
    buffers: { values: rowType(stored), lengths: 'u32', ...buffers, out: ['f32', 'write'] },
    scalars: { heads: 'u32', kv_heads: 'u32', capacity: 'u32', slots: 'u32', rows: 'u32', octets: 'u32', join: 'u32' },
    threads: 64,
    per: 'group',
    operations: ({ heads, slots, rows }) => 2 * heads * slots * rows * d,
    source: /* wgsl */ `
${TOTAL}
${source}
${source.includes(HALF) ? '' : rowFunctions(stored)}${readsRows(values)}
var<workgroup> staged: array<f32, ${count * d}>;
fn run(group: u32, lane: u32) {
  let tiles = (params.slots + ${count - 1}u) / ${count}u;
  let h = group / tiles;
  let g = h / (params.heads / params.kv_heads);
  let first = group % tiles * ${count}u;
  ${stageRows(values, {
    ...{ into: 'staged', stride: d, rows: count, threads: 64 },
    row: 'g * params.capacity + first + key',
    exists: 'first + key < min(lengths[g], params.slots)',
  })}
  workgroupBarrier();
  ${vectors.map((i) => `var sums${i} = vec4<f32>();`).join(' ')}
  for (var o = lane; o < params.rows; o += 64u) {
    ${vectors.map((i) => `var products${i} = vec4<f32>();`).join(' ')}
    ${
      whole
        ? /* wgsl */ `for (var k = 0u; k < ${d / 8}u; k++) {
      let w = weight(o * params.octets + h * ${d / 8}u + k);
      ${[0, 1, 2, 3, 4, 5, 6, 7].map((i) => add(`w.${i < 4 ? 'a' : 'b'}[${i % 4}]`, `8u * k + ${i}u`)).join('\n      ')}
    }`
        : /* wgsl */ `for (var c = 0u; c < ${d}u; c++) {
      let at = h * ${d}u + c;
      let w = weight(o * params.octets + at / 8u);
      let x = select(w.b[at % 4u], w.a[at % 4u], at % 8u < 4u);
      ${add('x', 'c')}
    }`
    }
    ${vectors.map((i) => `sums${i} += ${p === 1 ? `abs(products${i})` : `products${i} * products${i}`};`).join(' ')}
  }
  ${each
    .map(
      (i) => /* wgsl */ `{
    let sum = total(lane, sums${Math.floor(i / 4)}[${i % 4}]);
    if (lane == 0u && first + ${i}u < params.slots) {
      let at = h * params.slots + first + ${i}u;
      if (params.join == 1u) { out[at] += sum; } else { out[at] = sum; }
    }
  }`,
    )
    .join('\n  ')}
}`,
  };
});
