import { countFrom, inOrder } from '@kv/allocators-across-layers';
import { causalAttention, causalDot, dotWith, gram, quadratic } from '@kv/core/shared';
import type { Kernel } from '@kv/core';
import { kernelLaws } from '@kv/laws';
import type { KernelInputs, KernelSize } from '@kv/laws';
import { squaredErrors } from '@kv/scorers-caote';
import { lagScores, lagSpread, minusCosine, unitSums, windowShare } from '@kv/scorers-keys';
import { aheadProducts } from '@kv/scorers-triattention';
import { newestKey } from '@kv/selectors-cis';
import { layerOverlaps, leaders, listKernel, ofLayer, overlaps, rowsOfLeaders } from '@kv/selectors-hshare';
import { foldAhead, shareAhead } from '@kv/transforms-merging';
import { withChunk } from '@kv/units-chunks';
import { carryKernel, holding, resonance } from '@kv/units-trunks';
import { gpuTests } from './device.ts';
import { share } from './differential.ts';

const gpuTest = await gpuTests();

const put = (f: (i: number) => number, ...shape: number[]) => ({
  data: Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => f(i)),
  shape,
});
const ids = (f: (i: number) => number, ...shape: number[]) => ({
  data: Uint32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => f(i)),
  shape,
});
/** Up to three values of position + 1 per row, ascending, then 0. */
const entry =
  (slots: number, seed: number) =>
  (i: number): number =>
    i % 3 < (seed + Math.floor(i / 3)) % 4 && 1 + 2 * (i % 3) <= slots ? 1 + 2 * (i % 3) : 0;
/** Moves sizes around a border of 128 to 256, the threads of a workgroup. */
const wide = (slots: number): number => (slots < 63 ? slots : slots + 128);
/** Vectors of which some have length 0. */
const withZeros =
  (seed: number) =>
  (i: number): number =>
    i % 9 > 2 ? Math.sin(i + seed) : 0;
/** Inputs of each kernel by rows and slots. */
const made: readonly (readonly [Kernel, (size: KernelSize) => KernelInputs])[] = [
  [
    gram,
    ({ rows, slots, lengths, seed }) => ({
      inputs: {
        x: { ...put((i) => Math.sin(i * i + seed), rows, slots, 5), lengths },
        w: put((i) => Math.cos(i + seed), (1 + (seed % 2)) * rows, slots),
        c: put((i) => Math.sin(i), seed % 3 === 0 ? rows : 1, 5),
      },
    }),
  ],
  [
    quadratic,
    ({ rows, slots, lengths, seed }) => ({
      inputs: {
        x: { ...put((i) => Math.sin(i * i + seed), rows, slots, 5), lengths },
        m: put((i) => Math.cos((i % 5) * (Math.floor(i / 5) % 5) + seed), (1 + (seed % 2)) * rows, 5, 5),
        c: put((i) => Math.sin(i), seed % 3 === 0 ? rows : 1, 5),
      },
    }),
  ],
  [
    carryKernel,
    ({ slots, seed }) => ({
      inputs: {
        before: put((i) => Math.sin(i + seed), 1, Math.max(1, Math.floor(slots / 2))),
        fresh: put((i) => i, 1, slots),
      },
    }),
  ],
  [
    holding,
    ({ rows, slots, lengths, seed }) => ({
      inputs: {
        positions: { ...ids((i) => i % Math.max(1, slots), rows, slots), lengths },
        unitOf: put((i) => ((i + seed) % 4) - 1, 1, Math.max(1, slots)),
        like: put(() => 0, 1, 3),
      },
    }),
  ],
  [
    resonance,
    ({ slots, seed }) => {
      const n = Math.max(1, slots);
      return {
        inputs: {
          weight: put((i) => Math.max(0, ((i * 7 + seed) % 9) - 4) / 4, 1, Math.max(1, (n * (n - 1)) / 2)),
          lit: put((i) => i % 2, 1, n),
        },
        params: { hops: 1 + (seed % 2), gain: 0.5, once: (seed >> 1) % 2 },
      };
    },
  ],
  [
    inOrder,
    ({ rows, seed }) => ({
      inputs: { wants: put((i) => (i * 7 + seed) % 5, rows, 1), rest: put(() => seed % 9, 1, 1) },
    }),
  ],
  ...[causalDot, causalAttention].map((kernel): (typeof made)[number] => [
    kernel,
    ({ rows, slots, lengths, seed }) => ({
      inputs: {
        q: put((i) => Math.sin(i + seed), rows * 6, 5),
        k: { ...put((i) => Math.cos(i * 3), rows, slots, 5), lengths },
        p: ids((i) => i % Math.max(1, slots), rows, slots),
      },
      params: { block: 3, first: Math.floor(slots / 2) - 1 },
    }),
  ]),
  [
    squaredErrors,
    ({ rows, slots, lengths, seed }) => ({
      inputs: {
        p: put((i) => ((i * 7 + seed) % 13) / 13, rows * 6, slots),
        o: put((i) => Math.sin(i + seed), rows * 6, 5),
        v: { ...put((i) => Math.cos(i * 3), rows, slots, 5), lengths },
      },
      params: { heads: rows * 2 },
    }),
  ],
  [
    dotWith,
    ({ rows, slots, lengths, seed }) => ({
      inputs: {
        x: { ...put((i) => Math.sin(i + seed), rows, slots, 3), lengths },
        index: ids((i) => (i * 7 + seed) % Math.max(1, Math.min(slots, ...(lengths ?? []))), rows, slots),
      },
    }),
  ],
  [
    withChunk,
    ({ rows, slots, lengths, seed }) => ({
      inputs: {
        all: put((i) => Math.sin(i + seed), 2 * rows, slots),
        part: put((i) => i, 2 * rows, slots),
        unitOf: { ...ids((i) => Math.floor((i % Math.max(1, slots)) / 3), rows, slots), lengths },
      },
      params: { chunk: seed % 3 },
    }),
  ],
  [
    countFrom,
    ({ rows, slots, lengths, seed }) => ({
      inputs: {
        x: put((i) => ((i * 7 + seed) % 11) - 5, rows, wide(slots)),
        held: put((r) => lengths?.[r] ?? wide(slots), rows, 1),
        edges: put((e) => e * 2 - 5, 1, 5),
        before: put((i) => i % 3, 30, 5),
      },
    }),
  ],
  [
    aheadProducts,
    ({ rows, slots, lengths, seed }) => ({
      inputs: {
        keys: { ...put((i) => Math.sin(i), rows, slots, 6), lengths },
        query: put((i) => Math.sin(i + seed), 2 * rows, 6),
        spread: put((i) => Math.cos(i), 2 * rows, seed % 3),
      },
    }),
  ],
  [
    unitSums,
    ({ rows, slots, lengths, seed }) => ({ inputs: { x: { ...put(withZeros(seed), rows, slots, 3), lengths } } }),
  ],
  [
    minusCosine,
    ({ rows, slots, lengths, seed }) => ({
      inputs: { x: { ...put(withZeros(seed), rows, slots, 3), lengths }, anchor: put((i) => Math.cos(i), rows, 1, 3) },
    }),
  ],
  [
    windowShare,
    ({ rows, slots, lengths, seed }) => ({
      inputs: { norm: { ...put((i) => i % 5, rows, slots), lengths } },
      params: { window: 1 + (seed % 20) },
    }),
  ],
  [
    lagSpread,
    ({ rows, slots, seed }) => ({
      inputs: { x: put((i) => Math.sin(i * 5 + seed), rows, slots, 3) },
      params: { lag: 2, sinks: seed % 3 },
    }),
  ],
  [
    lagScores,
    ({ rows, slots, lengths, seed }) => ({
      inputs: {
        parts: put((i) => (i * 7 + seed) % 2, rows * Math.max(1, Math.floor(slots / 3) - 1), 3),
        like: { ...put(() => 0, rows, slots), lengths },
      },
      params: { lag: 3, sinks: 0, ranked: seed % 2 },
    }),
  ],
  [
    shareAhead,
    ({ rows, slots, lengths, seed }) => ({
      inputs: {
        received: { ...put((i) => Math.abs(Math.sin(i * 3 + seed)), rows, slots), lengths },
        stays: put((i) => Number((i + seed) % 3 === 1), rows, slots),
        merges: put((i) => Number((i + seed) % 3 === 0), rows, slots),
        coin: put((i) => (i % 5) / 5, rows, slots),
      },
      params: { slots: 2 },
    }),
  ],
  [
    foldAhead,
    ({ rows, slots, lengths, seed }) => ({
      inputs: {
        values: { ...put((i) => Math.cos(i + seed), rows, slots, 3), lengths },
        stays: put((i) => Number((i + seed) % 3 === 1), rows, slots),
        share: put((i) => Number((i + seed) % 3 === 0) / 2, rows, slots),
      },
      params: { slots: 2 },
    }),
  ],
  [
    overlaps,
    ({ rows, slots, seed }) => ({
      inputs: {
        sets: put((i) => (i * 5 + seed) % 2, rows, slots),
        before: put((i) => i % 3, rows, rows),
        wanted: put(() => seed % 2, 1, 1),
      },
    }),
  ],
  [
    leaders,
    ({ rows, seed }) => ({
      inputs: {
        overlap: put((i) => (i * 7 + seed) % 11, rows, rows),
        before: put((h) => -h, rows, 1),
        wanted: put(() => seed % 2, 1, 1),
      },
      params: { share: 2 },
    }),
  ],
  [
    newestKey,
    ({ rows, slots, seed }) => ({
      inputs: {
        keys: put((i) => Math.sin(i + seed), rows, slots + 1, 3),
        counts: put((g) => 1 + ((g + seed) % (slots + 1)), rows, 1),
      },
      params: { heads: 2 * rows },
    }),
  ],
  [
    listKernel,
    ({ rows, slots, seed }) => ({
      inputs: {
        list: ids((i) => i % Math.max(1, slots), rows, slots),
        count: put((h) => Math.min(slots, (h + seed) % 4), rows, 1),
        before: put((i) => i, 1, 6 * rows),
        wanted: put(() => seed % 2, 1, 1),
      },
      params: { layer: 1, width: 3 },
    }),
  ],
  [
    layerOverlaps,
    ({ rows, slots, seed }) => ({
      inputs: {
        sets: put((i) => (i * 5 + seed) % 2, rows, slots),
        lists: put(entry(slots, seed), 1, 6 * rows),
        before: put((i) => i, 1, 4),
        wanted: put(() => seed % 2, 1, 1),
      },
      params: { layer: 1, layers: 2, width: 3 },
    }),
  ],
  [
    ofLayer,
    ({ rows, slots, seed }) => ({
      inputs: {
        lists: put(entry(slots, seed), 1, 6 * rows),
        offset: put(() => -(seed % 2), 1, 1),
        sets: put((i) => (i * 5 + seed) % 2, rows, slots),
      },
      params: { layer: 1, width: 3 },
    }),
  ],
  [
    rowsOfLeaders,
    ({ rows, slots }) => ({
      inputs: { sets: put((i) => Math.sin(i), rows, slots), leader: put((i) => Math.floor(i / 2), rows, 1) },
    }),
  ],
];
for (const [kernel, make] of made)
  gpuTest(`the kernel ${kernel.id} as its reference`, async (gpu) => {
    for (const law of Object.values(kernelLaws(kernel, { backend: gpu, runs: share(8), make }))) await law();
  });

/** Sizes around the threads of a workgroup: of slots, channels and partitions. */
const borders: readonly (readonly [Kernel, (size: number, seed: number) => KernelInputs])[] = [
  [unitSums, (n, seed) => ({ inputs: { x: put(withZeros(seed), 2, n, 3) } })],
  [unitSums, (d, seed) => ({ inputs: { x: put(withZeros(seed), 2, 3, d) } })],
  [
    lagSpread,
    (lag, seed) => ({
      inputs: { x: put((i) => Math.sin(i * 5 + seed), 2, 3 * lag + 2, 3) },
      params: { lag, sinks: 1 },
    }),
  ],
  [
    lagSpread,
    (d, seed) => ({ inputs: { x: put((i) => Math.sin(i * 5 + seed), 2, 7, d) }, params: { lag: 2, sinks: 1 } }),
  ],
];
gpuTest('kernels of workgroups as their references around the number of threads', async (gpu) => {
  for (const [kernel, make] of borders)
    for (const size of [255, 256, 257])
      await kernelLaws(kernel, { backend: gpu, runs: 1, make: ({ seed }) => make(size, seed) })['sizes']();
});
