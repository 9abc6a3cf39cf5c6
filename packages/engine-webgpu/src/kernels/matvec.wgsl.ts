import { variants } from '../variants.ts';
import { inputsOf, weightsOf, type WeightFormat } from '../wgsl/weights.ts';
import { linearBuffers, linearEnd, linearScalars, type LinearEnd, type LinearKernel } from '../wgsl/linear.ts';

/** Outputs of one workgroup. */
export const MATVEC_OUTPUTS = 8;

const each = (rows: number, code: (r: number) => string): string =>
  Array.from({ length: rows }, (_, r) => code(r)).join('\n    ');

/** Memory of a workgroup's sums. */
export const vectorSums = (rows: number): string => /* wgsl */ `
var<workgroup> parts: array<vec4<f32>, ${64 * rows}>;`;

/**
 * Adds up the products of rows row0, row1, ... of x with the four rows of weights that begin at octets `w`, those of this
 * half of the workgroup, and calls `finish` for each row of x and each of the workgroup's 8 outputs.
 */
export const sumVectors = (rows: number, finish: (r: string, output: string) => string): string => /* wgsl */ `
  ${each(rows, (r) => /* wgsl */ `var sums${r} = vec4<f32>();`)}
  for (var o = lane % 32u; o < params.octets; o += 32u) {
    ${each(rows, (r) => /* wgsl */ `let v${r} = input(row${r}, o);`)}
    ${[0, 1, 2, 3].map((i) => /* wgsl */ `{ let u = weight(w[${i}] + o); ${each(rows, (r) => /* wgsl */ `sums${r}[${i}] += dot(v${r}.a, u.a) + dot(v${r}.b, u.b);`)} }`).join('\n    ')}
  }
  ${each(rows, (r) => /* wgsl */ `parts[${64 * r}u + lane] = sums${r};`)}
  workgroupBarrier();
  if (lane % 32u < 8u) {
    for (var at = lane; at < ${64 * rows}u; at += 64u) { parts[at] = (parts[at] + parts[at + 8u]) + (parts[at + 16u] + parts[at + 24u]); }
  }
  workgroupBarrier();
  if (lane < 8u) {
    for (var r = 0u; r < ${rows}u; r++) {
      let at = r * 64u + lane / 4u * 32u;
      var sum = 0.0;
      for (var i = 0u; i < 8u; i++) { sum += parts[at + i][lane % 4u]; }
      ${finish('r', 'lane')}
    }
  }`;

/**
 * One workgroup: 8 outputs of all rows of x, at most `rows` of them, so that each weight is read once for all rows.
 * Half of its 64 threads share 4 outputs, each with every 32nd octet of a row. The order of a row's sum does not depend
 * on `rows`.
 */
export const matvec: (form: WeightFormat, whole: boolean, end: LinearEnd, rows: number) => LinearKernel = variants(
  (form, whole, end, rows) => {
    const { buffers, source } = weightsOf(form),
      x = inputsOf(whole);
    return {
      id: `model:matvec:${form}:${whole}:${end.bias}:${end.residual}:${rows}`,
      buffers: { x: x.type, ...buffers, ...linearBuffers(end) },
      scalars: linearScalars,
      threads: 64,
      per: 'group',
      source: /* wgsl */ `
${source}
${x.source}
${linearEnd(end)}
${vectorSums(rows)}
fn run(group: u32, lane: u32) {
  let first = group * 8u + lane / 32u * 4u;
  let most = params.outputs - 1u;
  let w = min(vec4<u32>(first, first + 1u, first + 2u, first + 3u), vec4<u32>(most)) * params.octets;
  ${each(rows, (r) => /* wgsl */ `let row${r} = min(${r}u, params.rows - 1u);`)}
  ${sumVectors(rows, (r, output) => `finish(${r}, group * 8u + ${output}, sum);`)}
}`,
    };
  },
);
