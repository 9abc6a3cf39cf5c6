import { variants } from '../variants.ts';
import { inputsOf, weightsOf, type WeightFormat } from '../wgsl/weights.ts';
import { linearBuffers, linearEnd, linearScalars, type LinearEnd, type LinearKernel } from '../wgsl/linear.ts';

/** Rows and outputs of one workgroup's tile. */
export const MATMUL_TILE = 64;

const four = [0, 1, 2, 3] as const;

/** Memory of a workgroup's tile, staged as f32 or f16. */
export const tileSums = (half: boolean): string => {
  const type = half ? 'vec4<f16>' : 'vec4<f32>';
  return /* wgsl */ `
var<workgroup> xs: array<${type}, 320>;
var<workgroup> ws: array<${type}, 320>;`;
};

/** Which row of x, or of the weights, a thread stages: the first half of them stages x, the second weights. */
export const STAGED = /* wgsl */ `
  let of_weights = lane >= 128u;
  let staged = lane % 128u / 2u;`;

/**
 * Sets sums0 to sums3 to the products of rows ty, ty + 16, ... of a tile with its outputs tx, tx + 16, ... A thread stages
 * octets of row `from_row` of x, or of the row of weights that begins at octet `from_output`.
 * @param rows expression of how many rows of the tile there are, in groups of 16
 */
export const sumTile = (half: boolean, rows?: string): string => {
  const staged = (v: string): string => (half ? `vec4<f16>(${v})` : v),
    added = (products: string): string => (half ? `vec4<f32>(vec4<f16>(${products}))` : `vec4<f32>(${products})`);
  return /* wgsl */ `
  let tx = lane % 16u;
  let ty = lane / 16u;
  let to = staged * 5u + lane % 2u * 2u;
  ${four.map((i) => `var sums${i} = vec4<f32>();`).join(' ')}
  for (var start = 0u; start < params.octets; start += 2u) {
    let o = start + lane % 2u;
    var v = Octet(vec4<f32>(), vec4<f32>());
    if (o < params.octets) { if (of_weights) { v = weight(from_output + o); } else { v = input(from_row, o); } }
    workgroupBarrier();
    if (of_weights) { ws[to] = ${staged('v.a')}; ws[to + 1u] = ${staged('v.b')}; } else { xs[to] = ${staged('v.a')}; xs[to + 1u] = ${staged('v.b')}; }
    workgroupBarrier();
    for (var k = 0u; k < 4u; k++) {
      ${four.map((i) => `let w${i} = ws[(tx + ${16 * i}u) * 5u + k];`).join(' ')}
      ${four.map((i) => `${rows && i > 0 ? `if (${rows} > ${16 * i}u) ` : ''}{ let v = xs[(ty + ${16 * i}u) * 5u + k]; sums${i} += ${added(four.map((j) => `dot(v, w${j})`).join(', '))}; }`).join('\n      ')}
    }
  }`;
};

/** Calls `finish` for each of a thread's sums, with its row and output in the tile. */
export const eachSum = (finish: (row: string, output: string, sum: string) => string): string =>
  four
    .map((i) => four.map((j) => finish(`ty + ${16 * i}u`, `tx + ${16 * j}u`, `sums${i}[${j}]`)).join(' '))
    .join('\n  ');

/**
 * One workgroup: a tile of 64 rows x 64 outputs, each thread 4 x 4 of them, 16 apart. 16 inputs at a time are staged,
 * along the inputs as vec4, five to a row to avoid bank conflicts. `half`: staged and multiplied in f16, four products
 * at a time, and added up in f32; numbers and sums of four products beyond 65,504 are infinite then.
 */
export const matmul: (form: WeightFormat, whole: boolean, end: LinearEnd, half: boolean) => LinearKernel = variants(
  (form, whole, end, half) => {
    const { buffers, source } = weightsOf(form),
      x = inputsOf(whole);
    return {
      id: `model:matmul:${form}:${whole}:${end.bias}:${end.residual}:${half}`,
      half,
      buffers: { x: x.type, ...buffers, ...linearBuffers(end) },
      scalars: linearScalars,
      per: 'group',
      source: /* wgsl */ `
${source}
${x.source}
${linearEnd(end)}
${tileSums(half)}
fn run(group: u32, lane: u32) {
  let tiles = (params.outputs + 63u) / 64u;
  let first_row = group / tiles * 64u;
  let first_output = group % tiles * 64u;
  ${STAGED}
  let from_row = min(first_row + staged, params.rows - 1u);
  let from_output = min(first_output + staged, params.outputs - 1u) * params.octets;
  ${sumTile(half)}
  ${eachSum((row, output, sum) => `finish(first_row + ${row}, first_output + ${output}, ${sum});`)}
}`,
    };
  },
);
