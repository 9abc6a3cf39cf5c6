import { byRank } from '@kv/allocators-across-layers';
import { compose, zScore } from '@kv/core';
import type { AnySignal, Kernel, Ops, Piece, Tensor } from '@kv/core';
import { backendLaws, kernelLaws } from '@kv/laws';
import type { KernelInputs, KernelSize, Layer } from '@kv/laws';
import { dropkv } from '@kv/scorers-caote';
import { capkv, expectedAttentionStats } from '@kv/scorers-expected-attention';
import { keydiff, qfilter } from '@kv/scorers-keys';
import { rereadingAttention, rereading } from '@kv/scorers-reconstruction';
import { futureQueryScores } from '@kv/scorers-triattention';
import { questionAttention } from '@kv/scorers-window';
import { eachChunk, entropyGate } from '@kv/units-chunks';
import { gpuTests } from './device.ts';
import { share } from './differential.ts';

const gpuTest = await gpuTests();

/** Sidecar files of a model, and observations of a second pass. */
function signals(
  signal: AnySignal,
  { at: { queryHeads, kvHeads, headDim: d, slots, aligned }, attention, lengths }: Layer,
  ops: Ops,
): unknown {
  const sines = (count: number) => Float32Array.from({ length: count }, (_, i) => Math.sin(i + 1));
  if (signal.id === 'queryStatistics')
    return {
      queryHeads,
      headDim: d,
      mean: sines(queryHeads * d),
      covariance: Float32Array.from({ length: queryHeads * d * d }, (_, i) => (i % (d + 1) === 0 ? 1 : 0.1)),
    };
  if (signal.id === 'qFilters') return { kvHeads, headDim: d, filters: sines(kvHeads * d) };
  if (signal.id === 'preRope')
    return {
      queryHeads,
      headDim: d,
      half: Math.floor(d / 2),
      mean: sines(queryHeads * d),
      size: sines(queryHeads * Math.floor(d / 2)).map((x) => 2 + x),
    };
  const ragged = (): Tensor =>
    ops.from(
      {
        data: Uint32Array.from({ length: queryHeads }, (_, h) => lengths[Math.floor((h * kvHeads) / queryHeads)]),
        shape: [queryHeads],
      },
      'u32',
    );
  return signal.id === rereading.id
    ? ops.from({ data: attention, shape: [queryHeads, slots] }, 'f32', aligned ? undefined : ragged())
    : undefined;
}
/** Odds of a weight close to 1 have few digits in f32, and DropKV squares them. */
const pieces: readonly (readonly [piece: Piece<any, any>, tolerance: number])[] = [
  [capkv({ window: 6, future: 3, sinks: 1 }), 1e-3],
  [expectedAttentionStats({ future: 3, sinks: 1 }), 1e-3],
  [qfilter(), 1e-4],
  [compose(futureQueryScores({ horizon: 8 }), zScore()), 1e-2],
  [questionAttention({ question: 2 }), 1e-4],
  [dropkv({ window: 2 }), 0.1],
  [rereadingAttention(), 1e-5],
  [eachChunk(keydiff(), { size: 3 }), 1e-4],
  [entropyGate({ size: 3, low: 1 }), 1e-5],
];
for (const [piece, tolerance] of pieces)
  gpuTest(`${piece.label} as on the CPU`, async (gpu) => {
    for (const law of Object.values(backendLaws(piece, { backend: gpu, runs: share(4), tolerance, signals })))
      await law();
  });
const put = (f: (i: number) => number, ...shape: number[]) => ({
  data: Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => f(i)),
  shape,
});
const made: readonly (readonly [Kernel, (size: KernelSize) => KernelInputs])[] = [
  [
    byRank,
    ({ rows, slots, lengths }) => ({
      inputs: {
        x: { ...put((i) => Math.sin(i), rows, slots), lengths },
        rank: put(
          (i) => {
            const n = lengths?.[Math.floor(i / slots)] ?? slots,
              at = i % slots;
            return at < n ? n - 1 - at : 0;
          },
          rows,
          slots,
        ),
      },
    }),
  ],
];
for (const [kernel, make] of made)
  gpuTest(`the kernel ${kernel.id} as its reference`, async (gpu) => {
    for (const law of Object.values(kernelLaws(kernel, { backend: gpu, runs: share(8), make }))) await law();
  });
