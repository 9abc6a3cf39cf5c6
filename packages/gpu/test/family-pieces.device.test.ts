import { adaKV } from '@kv/allocators-ada-kv';
import { cakeScores, shareOut } from '@kv/allocators-across-layers';
import { compose, weighted, zScore } from '@kv/core';
import type { Piece } from '@kv/core';
import { levels } from '@kv/demotions-levels';
import { backendLaws, kernelLaws } from '@kv/laws';
import { byEviction, chunkMass, leverage, noncausalAttention } from '@kv/scorers-compactor';
import { expectedAttention } from '@kv/scorers-expected-attention';
import { cur, keydiff, lagkv } from '@kv/scorers-keys';
import { heavyChannelProducts, pageBounds } from '@kv/scorers-retrieval';
import { future, groupMaxAttention, phases, redundancy, worstCaseAttention } from '@kv/scorers-window';
import { topK } from '@kv/selectors-top-k';
import { wholeUnits } from '@kv/selectors-whole-units';
import { twoStageScores, outputShare } from '@kv/transforms-critical';
import { foldInto, nearestKept } from '@kv/transforms-merging';
import { chunks } from '@kv/units-chunks';
import { gpuTests } from './device.ts';
import { share } from './differential.ts';

const gpuTest = await gpuTests();

/**
 * Scorers and transforms, whose scores are compared, and the two selections; pieces that divide by small numbers have a
 * larger tolerance.
 */
const pieces: readonly (readonly [piece: Piece<any, any>, tolerance?: number])[] = [
  [lagkv({ sinks: 1, lag: 2 }), 1e-3],
  [lagkv({ sinks: 1, lag: 2, cross: true }), 1e-4],
  [lagkv({ sinks: 2 ** 31, lag: 2 ** 31 })],
  [cur({ sinks: 1, window: 3 })],
  [cur({ window: 2 ** 31 })],
  [keydiff(), 1e-4],
  [leverage({ jitter: 0.5 }), 1e-3],
  [compose(noncausalAttention({ chunk: 4, window: 16 }), zScore({ over: 'layer' }), byEviction()), 1e-2],
  [expectedAttention({ window: 6, future: 3, sinks: 1 }), 1e-3],
  [groupMaxAttention({ window: 2, kernel: 3 }), 1e-4],
  [redundancy(), 1e-4],
  [worstCaseAttention({ window: 2, kernel: 3 }), 1e-4],
  [future(worstCaseAttention({ window: 2, kernel: 3 })), 1e-4],
  [phases({ window: 4, each: 2, recent: 1 }), 1e-4],
  [cakeScores({ window: 3, gamma: 5 }), 1e-4],
  [pageBounds({ page: 3 }), 1e-4],
  [heavyChannelProducts({ channels: 2, window: 3 }), 1e-4],
  [twoStageScores(), 1e-4],
  [outputShare(), 1e-4],
  [weighted([0.1, groupMaxAttention({ window: 2 })], [-0.9, redundancy()]), 1e-4],
  [compose(chunks({ size: 3 }), wholeUnits())],
  [compose(adaKV(), topK())],
  [compose(topK(), levels())],
  [compose(topK(), adaKV(), levels())],
];
for (const [piece, tolerance] of pieces)
  gpuTest(`${piece.label} as on the CPU`, async (gpu) => {
    for (const law of Object.values(backendLaws(piece, { backend: gpu, runs: share(6), tolerance }))) await law();
  });

/** Inputs of the kernels that no scorer runs: by row and slot, with two channels if they are vectors. */
const of = (
  size: { readonly rows: number; readonly slots: number; readonly lengths?: readonly number[] | undefined },
  width: number,
  f: (i: number) => number,
) => ({
  data: Float32Array.from({ length: size.rows * size.slots * width }, (_, i) => f(i)),
  shape: width === 1 ? [size.rows, size.slots] : [size.rows, size.slots, width],
  lengths: size.lengths,
});
for (const kernel of [nearestKept, foldInto, shareOut])
  gpuTest(`the kernel ${kernel.id} as its reference`, async (gpu) => {
    for (const law of Object.values(
      kernelLaws(kernel, {
        backend: gpu,
        runs: share(8),
        make: (given) => {
          const size = kernel === shareOut ? { rows: 1, slots: Math.max(1, given.slots) } : given,
            into = of(size, 1, (i) => (i * 7) % Math.max(1, Math.min(3, size.slots)));
          const all = {
            x: of(size, 2, (i) => Math.sin(i * 5)),
            stays: of(size, 1, (i) => Number(i % 3 === 1)),
            values: of(size, 2, (i) => Math.cos(i * 5)),
            into: { ...into, data: Uint32Array.from(into.data) },
            w: of(size, 1, (i) => (i % 4) / 4),
            weights: of(size, 1, (i) => 2 ** (i % 3)),
            floors: of(size, 1, () => 1),
            caps: of(size, 1, (i) => 2 + (i % 4)),
            total: { data: Float32Array.of(2 * size.slots), shape: [1, 1] },
          };
          return {
            inputs: Object.fromEntries(Object.keys(kernel.inputs).map((name) => [name, all[name as keyof typeof all]])),
          };
        },
      }),
    ))
      await law();
  });
gpuTest('attention in chunks wider than a workgroup as its reference', async (gpu) => {
  for (const law of Object.values(
    kernelLaws(chunkMass, {
      backend: gpu,
      runs: share(8),
      tolerance: 1e-4,
      make: (size) => {
        const { rows, slots, lengths } = size,
          positions = Uint32Array.from({ length: rows * slots }, (_, i) => 3 * (i % Math.max(1, slots)));
        return {
          inputs: {
            queries: of({ rows: 2 * rows, slots: 3 * slots }, 2, (i) => Math.sin(i * 5)),
            keys: of({ rows, slots }, 2, (i) => Math.cos(i * 3)),
            positions: { data: positions, shape: [rows, slots], lengths },
          },
          params: { chunk: 300 },
        };
      },
    }),
  ))
    await law();
});
