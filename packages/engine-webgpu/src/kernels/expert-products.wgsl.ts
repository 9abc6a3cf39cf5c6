import type { GpuKernel } from '@kv/gpu';
import { variants } from '../variants.ts';
import { inputsOf, weightsOf, type WeightFormat } from '../wgsl/weights.ts';
import { TILE_WORDS } from './expert-tiles.wgsl.ts';
import { eachSum, STAGED, sumTile, tileSums } from './matmul.wgsl.ts';
import { sumVectors, vectorSums } from './matvec.wgsl.ts';

/**
 * Scalars of products of rows with their experts. A pair is a row and one of its `active` experts; it reads row `pair / share`
 * of x, so that pairs of one row may share it. The weights are rows `[first, first + stored)` of all experts' matrices of
 * `outputs` rows, one after the other.
 */
const scalars = {
  outputs: 'u32',
  inputs: 'u32',
  octets: 'u32',
  x_at: 'u32',
  x_stride: 'u32',
  first: 'u32',
  stored: 'u32',
  share: 'u32',
} as const;

type ExpertKernel<B extends string> = GpuKernel<'x' | 'weights' | 'scales' | 'bias' | 'out' | B, keyof typeof scalars>;

/** Writes a number of a pair, if the weights have its row. */
const finish = (bias: boolean): string => /* wgsl */ `
fn holds(row: u32) -> bool { return row >= params.first && row - params.first < params.stored; }
fn finish(pair: u32, expert: u32, output: u32, sum: f32) {
  let row = expert * params.outputs + output;
  if (output >= params.outputs || !holds(row)) { return; }
  out[pair * params.outputs + output] = sum${bias ? ' + bias[row]' : ''};
}
/** The octet at which a row of weights begins, or that of the nearest one which they have. */
fn begin(row: u32) -> u32 { return (clamp(row, params.first, params.first + params.stored - 1u) - params.first) * params.octets; }`;

/** One workgroup: 8 outputs of one pair, as `matvec`. */
export const expertMatvec: (form: WeightFormat, whole: boolean, bias: boolean) => ExpertKernel<'chosen'> = variants(
  (form, whole, bias) => {
    const { buffers, source } = weightsOf(form),
      x = inputsOf(whole);
    return {
      id: `model:expert-matvec:${form}:${whole}:${bias}`,
      buffers: { x: x.type, ...buffers, ...(bias && { bias: 'f32' }), chosen: 'u32', out: ['f32', 'write'] },
      scalars,
      threads: 64,
      per: 'group',
      source: /* wgsl */ `
${source}
${x.source}
${finish(bias)}
${vectorSums(1)}
fn run(group: u32, lane: u32) {
  let tiles = (params.outputs + 7u) / 8u;
  let pair = group / tiles;
  let output = group % tiles * 8u;
  let expert = chosen[pair];
  let row = expert * params.outputs + output;
  if (row + 8u <= params.first || row >= params.first + params.stored) { return; }
  let first = row + lane / 32u * 4u;
  let w = vec4<u32>(begin(first), begin(first + 1u), begin(first + 2u), begin(first + 3u));
  let row0 = pair / params.share;
  ${sumVectors(1, (_, at) => `finish(pair, expert, output + ${at}, sum);`)}
}`,
    };
  },
);

/** One workgroup: a tile of up to 64 pairs of one expert x 64 outputs, as `matmul`; 16 of the pairs cost as few as one. */
export const expertMatmul: (
  form: WeightFormat,
  whole: boolean,
  bias: boolean,
  half: boolean,
) => ExpertKernel<'order' | 'tiles'> = variants((form, whole, bias, half) => {
  const { buffers, source } = weightsOf(form),
    x = inputsOf(whole);
  return {
    id: `model:expert-matmul:${form}:${whole}:${bias}:${half}`,
    half,
    buffers: {
      ...{ x: x.type, ...buffers, ...(bias && { bias: 'f32' }), order: 'u32', tiles: 'u32' },
      out: ['f32', 'write'],
    },
    scalars,
    per: 'group',
    source: /* wgsl */ `
${source}
${x.source}
${finish(bias)}
${tileSums(half)}
fn run(group: u32, lane: u32) {
  let across = (params.outputs + 63u) / 64u;
  let tile = group / across * ${TILE_WORDS}u;
  let output = group % across * 64u;
  let expert = tiles[tile];
  let first = tiles[tile + 1u];
  let rows = tiles[tile + 2u] - first;
  let row = expert * params.outputs + output;
  if (rows == 0u || row + 64u <= params.first || row >= params.first + params.stored) { return; }
  ${STAGED}
  let from_row = order[first + min(staged, rows - 1u)] / params.share;
  let from_output = begin(row + staged);
  ${sumTile(half, 'rows')}
  ${eachSum((r, o, sum) => `if (${r} < rows) { finish(order[first + ${r}], expert, output + ${o}, ${sum}); }`)}
}`,
  };
});
