import { prefix } from '@kv/allocators-mass';
import { placeInUnit } from '@kv/core/shared';
import type { Kernel } from '@kv/core';
import { numbers } from '@kv/gpu-testing';
import { kernelLaws } from '@kv/laws';
import type { KernelInputs, KernelSize } from '@kv/laws';
import { addByPosition, greedyOrder } from '@kv/selectors-diversity';
import { evictionOrder, firstColumns } from '@kv/selectors-joint-eviction';
import { activeDots, decode, matching, remember } from '@kv/selectors-cis';
import { allowance } from '@kv/selectors-branch-dissolution';
import { strongest } from '@kv/units-trunks';
import { gpuTests } from './device.ts';
import { share } from './differential.ts';

const gpuTest = await gpuTests();
const D = 3;
type Shape = readonly number[];
const size = (shape: Shape): number => shape.reduce((a, b) => a * b, 1);
/** Inputs by name: random numbers of a shape, or host data. */
const f32 = (seed: number, shape: Shape, kind?: Parameters<typeof numbers>[2]) => ({
  data: numbers(seed, size(shape), kind),
  shape,
});
const few = (n: number, rows: number) => ({ data: new Float32Array(rows).fill(Math.min(n, 6)), shape: [rows, 1] });
const none = (rows: number, n: number) => ({ data: new Float32Array(rows * n), shape: [rows, n] });
const u32 = (shape: Shape, of: (i: number) => number) => ({
  data: Uint32Array.from({ length: size(shape) }, (_, i) => of(i)),
  shape,
});

const cases: readonly (readonly [Kernel, (s: KernelSize) => KernelInputs])[] = [
  [
    greedyOrder,
    ({ rows, slots: n, lengths, seed }) => ({
      inputs: {
        scores: { ...f32(seed, [rows, n]), lengths },
        signatures: f32(seed + 1, [rows, n, D]),
        forced: none(rows, n),
        banned: none(rows, n),
        budgets: few(n, rows),
        lambdas: { data: Float32Array.from({ length: rows }, (_, r) => r / 2), shape: [rows, 1] },
      },
    }),
  ],
  [
    addByPosition,
    ({ rows, slots: n, lengths, seed }) => ({
      inputs: {
        total: f32(seed, [1, n + 2, D]),
        values: f32(seed + 1, [rows, n, D]),
        positions: u32([rows, n], (i) => (i % Math.max(1, n)) + 1),
        held: u32([rows], (r) => lengths?.[r] ?? n),
      },
    }),
  ],
  [
    evictionOrder,
    ({ rows, slots: n, lengths, seed }) => ({
      inputs: {
        weights: { data: numbers(seed, rows * n, 'weights').map((x) => x / Math.max(1, n)), shape: [rows, n] },
        outputs: f32(seed + 1, [rows, D]),
        values: f32(seed + 2, [rows, n, D]),
        mask: { ...none(rows, n), lengths },
        budgets: { data: new Float32Array(rows).fill(Math.max(0, n - 4)), shape: [rows, 1] },
      },
    }),
  ],
  [
    firstColumns,
    ({ rows, slots: n, lengths, seed }) => ({
      inputs: { x: f32(seed, [rows, n + 4]), like: { ...none(rows, n), lengths } },
    }),
  ],
  [
    placeInUnit,
    ({ rows, slots: n, lengths, seed }) => ({
      inputs: {
        scores: { ...f32(seed, [rows, n]), lengths },
        unitOf: u32([rows, n], (i) => Math.floor((i % Math.max(1, n)) / 5)),
      },
    }),
  ],
  [
    strongest,
    ({ slots: n, seed }) => ({
      inputs: { x: { data: numbers(seed, n * n, 'weights').map((x) => x * n), shape: [n, n] } },
      params: { above: 0.1 },
    }),
  ],
  [
    allowance,
    ({ rows, slots: n, seed }) => ({
      inputs: {
        scores: f32(seed, [rows, n]),
        sizes: { data: new Float32Array(rows * n).fill(4), shape: [rows, n] },
        excess: { data: new Float32Array(rows).fill(2 * n + 1), shape: [rows, 1] },
        fewest: { data: new Float32Array(rows).fill(3), shape: [rows, 1] },
      },
    }),
  ],
  [
    prefix,
    ({ rows, slots: n, lengths, seed }) => ({
      inputs: {
        weights: { data: numbers(seed, 2 * rows * n, 'weights').map((x) => x / Math.max(1, n)), shape: [2 * rows, n] },
        sink: { data: numbers(seed + 1, 2 * rows, 'weights').map((x) => x / 4), shape: [2 * rows, 1] },
        place: {
          ...u32([rows, n], (i) => i % Math.max(1, n)),
          data: Float32Array.from({ length: rows * n }, (_, i) => i % Math.max(1, n)),
          lengths,
        },
      },
      params: { share: 0.3 },
    }),
  ],
  [
    activeDots,
    ({ rows, slots: n, lengths, seed }) => ({
      inputs: {
        queries: f32(seed, [2 * rows, 1, D]),
        keys: { ...f32(seed + 1, [rows, n, D]), lengths },
        wanted: { data: Float32Array.from({ length: 2 * rows }, (_, h) => h % 2), shape: [2 * rows, 1] },
      },
    }),
  ],
  [
    matching,
    ({ rows, seed }) => ({
      inputs: {
        query: f32(seed, [rows, 1, D]),
        past: f32(seed + 1, [rows, 4 * D]),
        owners: {
          data: Float32Array.from({ length: rows * 4 }, (_, i) => 1 + ((i % 4) >> ((i + seed) % 2))),
          shape: [rows, 4],
        },
      },
      params: { now: 3, threshold: 0.2, any: seed % 2 },
    }),
  ],
  [
    remember,
    ({ rows, seed }) => ({
      inputs: { query: f32(seed, [rows, 1, D]), past: f32(seed + 1, [rows, 4 * D]) },
      params: { now: 2, steps: 4 },
    }),
  ],
  [
    decode,
    ({ rows, slots: n, lengths, seed }) => ({
      inputs: {
        field: {
          data: Float32Array.from({ length: rows * n }, (_, i) => (i * 2654435761 + seed) % 2 ** 24),
          shape: [rows, n],
          lengths,
        },
        found: { data: Float32Array.from({ length: rows }, (_, r) => r % 6), shape: [rows, 1] },
      },
      params: { first: 0 },
    }),
  ],
];
for (const [kernel, make] of cases)
  gpuTest(`the kernel ${kernel.id} on the device as its reference`, async (gpu) => {
    for (const law of Object.values(kernelLaws(kernel, { backend: gpu, runs: share(12), make }))) await law();
  });
