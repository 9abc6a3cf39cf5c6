import { describe, test } from 'vitest';
import * as core from '@kv/core';
import { apply, cpu } from '@kv/cpu';
import { gram, inverse, quadratic, rotateKernel } from '@kv/core/shared';
import * as laws from '../src/index.ts';

/** Core's own pieces keep the laws of their kind. */
describe.each([
  core.pool(),
  core.pool({ kernel: 3, kind: 'max', except: 2 }),
  core.normalize(),
  core.minMax(),
  core.zScore(),
  core.softmax(),
  core.log1p(),
  core.reduceHeads(),
  core.reduceHeads({ kind: 'sum' }),
  core.perLayer(),
  core.perModel(),
  core.perModel({ kind: 'mean' }),
  core.mandatory({ sinks: 2, recent: 1 }),
])('$label', (piece) => laws.each(laws.transformLaws(piece), test));
describe('sum', () => laws.each(laws.sumLaws(core.sum as laws.Combination), test));
describe('max', () => laws.each(laws.maxLaws(core.max as laws.Combination), test));
describe('weighted', () => laws.each(laws.weightedLaws(core.weighted as laws.WeightedCombination), test));
describe('compose', () => laws.each(laws.composeLaws(core.compose as laws.Compose), test));
describe('mean-by-position', () => laws.each(laws.kernelLaws(core.meanByPosition), test));
/** Vectors of 2 channels, a matrix per row, and angles of 3 positions. */
const vectors = ({ rows, slots, lengths }: laws.KernelSize): laws.KernelInputs => ({
  inputs: {
    x: {
      data: Float32Array.from({ length: rows * slots * 2 }, (_, i) => Math.sin(i * 3)),
      shape: [rows, slots, 2],
      lengths,
    },
    w: { data: Float32Array.from({ length: rows * slots }, (_, i) => Math.cos(i)), shape: [rows, slots] },
    c: { data: Float32Array.of(0.5, -1), shape: [1, 2] },
    m: { data: Float32Array.from({ length: rows * 4 }, (_, i) => [2, 0.5, 0.5, 1][i % 4]), shape: [rows, 2, 2] },
    cos: { data: Float32Array.of(1, 0.5, -1), shape: [1, 3, 1] },
    sin: { data: Float32Array.of(0, 0.8, 0.1), shape: [1, 3, 1] },
    index: { data: Uint32Array.from({ length: slots }, (_, i) => i % 3), shape: [1, slots] },
  },
  params: { jitter: 0.01, back: 1 },
});
const of =
  (make: typeof vectors, kernel: core.Kernel): typeof vectors =>
  (size) => {
    const { inputs, params } = make(size);
    return { inputs: Object.fromEntries(Object.keys(kernel.inputs).map((k) => [k, inputs[k]])), params };
  };
describe.each([gram, inverse, quadratic, rotateKernel])('$id', (kernel) =>
  laws.each(laws.kernelLaws(kernel, { make: of(vectors, kernel), runs: 30 }), test),
);

const norm = core.scorer('norm', { needs: [core.keys] }, ({ ops, keys }) => ops.sub(0, ops.norm(keys)))();
const window = core.weightScorer('window', { needs: [core.attentionWindow(2)] }, ({ attention }) => attention)();
describe.each([
  norm,
  window,
  core.sum(norm, window),
  core.max(norm, window),
  core.weighted([2, norm], [-1, window]),
  core.sum(),
])('$label', (piece) => laws.each(laws.scorerLaws(piece), test));

describe('apply', () => laws.each(laws.applyLaws(apply), test));
describe('applyOn', () =>
  laws.each(
    laws.applyLaws((piece, inputs) => core.applyOn(cpu, piece, inputs)),
    test,
  ));
