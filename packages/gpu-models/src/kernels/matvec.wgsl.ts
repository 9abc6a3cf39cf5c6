import { kernel, variants } from '../kernel.ts';
import { inputsOf, weightsOf, type Form } from '../wgsl/weights.ts';
import { linearBuffers, linearEnd, linearScalars, type LinearEnd, type LinearKernel } from '../wgsl/linear.ts';

/** Outputs of one workgroup. */
export const MATVEC_OUTPUTS = 8;

/**
 * One workgroup: 8 outputs of one row of x, for products of few rows. Half of its 64 threads share 4 outputs, each with
 * every 32nd octet of the row.
 */
export const matvec: (form: Form, whole: boolean, end: LinearEnd) => LinearKernel = variants((form, whole, end) => {
  const { buffers, source } = weightsOf(form),
    x = inputsOf(whole);
  return kernel({
    id: `matvec:${form}:${whole}:${end.bias}:${end.residual}`,
    buffers: { x: x.type, ...buffers, ...linearBuffers(end) },
    scalars: linearScalars,
    threads: 64,
    per: 'group',
    source: /* wgsl */ `
${source}
${x.source}
${linearEnd(end)}
var<workgroup> parts: array<vec4<f32>, 64>;
fn run(group: u32, lane: u32) {
  let tiles = (params.outputs + 7u) / 8u;
  let row = group / tiles;
  let first = group % tiles * 8u + lane / 32u * 4u;
  let most = params.outputs - 1u;
  let w = min(vec4<u32>(first, first + 1u, first + 2u, first + 3u), vec4<u32>(most)) * params.octets;
  var sums = vec4<f32>();
  for (var o = lane % 32u; o < params.octets; o += 32u) {
    let v = input(row, o);
    ${[0, 1, 2, 3].map((i) => /* wgsl */ `{ let u = weight(w[${i}] + o); sums[${i}] += dot(v.a, u.a) + dot(v.b, u.b); }`).join('\n    ')}
  }
  parts[lane] = sums;
  workgroupBarrier();
  if (lane % 32u < 8u) { parts[lane] = (parts[lane] + parts[lane + 8u]) + (parts[lane + 16u] + parts[lane + 24u]); }
  workgroupBarrier();
  if (lane < 8u) {
    let at = lane / 4u * 32u;
    var sum = 0.0;
    for (var i = 0u; i < 8u; i++) { sum += parts[at + i][lane % 4u]; }
    finish(row, group % tiles * 8u + lane, sum);
  }
}`,
  });
});
