import { cpu, readCpu } from '@kv/cpu';
import type { HostArray, Ops, Tensor } from '@kv/core';
import { numbers, random } from '@kv/gpu-testing';
import fc from 'fast-check';
import { expect } from 'vitest';
import type { Gpu } from '../src/index.ts';

type Read = ReturnType<typeof readCpu>;
/** The distance to the next f32, at least the smallest normal one: WGSL may flush subnormals. */
export const ulp = (x: number): number =>
  Math.max(2 ** (Math.floor(Math.log2(Math.max(Math.abs(x), 2 ** -126))) - 23), 2 ** -126);
/** Allowed distance of an element from the reference: `want` is the reference, `of` the same element of `magnitude`. */
export type Tolerance = (want: number, of: number) => number;
export const exact: Tolerance = () => 0;
export const ulps =
  (n: number): Tolerance =>
  (want) =>
    n * ulp(want);
/**
 * Tolerance for sums of n terms in f32, in any order: n * 2^-24 * Σ|terms|, where `magnitude` computes Σ|terms|; and
 * `n` ULP for later operations.
 */
export const sums =
  (terms: number, after = 4): Tolerance =>
  (want, of) =>
    terms * 2 ** -24 * of + after * ulp(want);

/**
 * Asserts that an operation gives the same shape, type, lengths and valid elements on the device as on the CPU; and the
 * same bits again from dirty buffers.
 */
export async function same(
  gpu: Gpu,
  build: (ops: Ops) => Tensor,
  tolerance: Tolerance = exact,
  magnitude?: (ops: Ops) => Tensor,
): Promise<void> {
  const want = build(cpu.ops),
    reference = readCpu(want),
    of = magnitude && readCpu(magnitude(cpu.ops));
  const got = await once(gpu, build, 0x7fc0_0000); // NaN
  expect([got.shape, got.data.constructor, got.lengths && [...got.lengths]]).toEqual([
    reference.shape,
    reference.data.constructor,
    reference.lengths && [...reference.lengths],
  ]);
  const again = await once(gpu, build, 0x7149_f2ca); // 1e30
  expect(bytes(again)).toEqual(bytes(got));
  compare(got, reference, tolerance, of);
}
const bytes = ({ data }: Read): Uint32Array => new Uint32Array(data.buffer, data.byteOffset, data.length).slice();

/** One run on buffers that hold `dirt`. */
async function once(gpu: Gpu, build: (ops: Ops) => Tensor, dirt: number): Promise<Read> {
  await gpu.scope(({ ops }) => {
    for (let size = 64; size <= 4096; size *= 2)
      for (let i = 0; i < 3; i++) ops.from({ data: new Uint32Array(size).fill(dirt), shape: [size] });
  });
  return gpu.scope(async ({ ops, read }) => (await read([build(ops)]))[0]);
}

function compare(got: Read, want: Read, tolerance: Tolerance, of: Read | undefined): void {
  const [, slots = 1, channels = 1] = want.shape;
  let worst = { at: -1, over: 0 };
  for (let at = 0; at < want.data.length; at++) {
    if (want.lengths && Math.floor(at / channels) % slots >= want.lengths[Math.floor(at / (slots * channels))])
      continue;
    const w = want.data[at],
      g = got.data[at];
    if (Object.is(w, g) || w === g) continue;
    const over =
      Number.isFinite(g) && Number.isFinite(w) ? Math.abs(g - w) - tolerance(w, of?.data[at] ?? 0) : Infinity;
    if (over > worst.over) worst = { at, over };
  }
  const { at } = worst,
    w = want.data[at],
    g = got.data[at];
  if (at >= 0)
    expect.fail(
      `worst at ${at} of [${want.shape}]: expected ${w} within ${tolerance(w, of?.data[at] ?? 0)}, got ${g} (${(Math.abs(g - w) / ulp(w)).toFixed(1)} ULP away)`,
    );
}

/** Sizes around those of a workgroup, and the heads of grouped-query attention. */
export interface Case {
  readonly seed: number;
  readonly kv: number;
  readonly group: number;
  readonly slots: number;
  readonly channels: number;
  readonly ragged: boolean;
  readonly strided: boolean;
}
const cases = (
  slots: fc.Arbitrary<number> = fc.oneof(
    fc.constantFrom(0, 1, 63, 64, 65, 255, 256, 257),
    fc.integer({ min: 0, max: 300 }),
  ),
): fc.Arbitrary<Case> =>
  fc.record({
    seed: fc.nat(),
    kv: fc.integer({ min: 1, max: 3 }),
    group: fc.integer({ min: 1, max: 2 }),
    slots,
    channels: fc.constantFrom(1, 2, 5, 17),
    ragged: fc.boolean(),
    strided: fc.boolean(),
  });

/** Returns a tensor of seeded numbers, the same on every backend: ragged or transposed in memory as the case says. */
export function tensor(
  ops: Ops,
  { seed, ragged, strided }: Pick<Case, 'seed' | 'ragged' | 'strided'>,
  shape: readonly number[],
  kind: Parameters<typeof numbers>[2] = 'any',
  salt = 0,
): Tensor {
  const [rows = 1, slots = 1, channels = 1] = shape;
  const data = numbers(seed + salt, rows * slots * channels + 3, kind),
    next = random(seed + salt + 1);
  const lengths =
    ragged && shape.length > 1
      ? ops.from({ data: Uint32Array.from({ length: rows }, () => Math.floor(next() * (slots + 1))), shape: [rows] })
      : undefined;
  const array: HostArray = strided
    ? { data, shape, stride: [1, rows, rows * slots].slice(0, shape.length), offset: 3 }
    : { data, shape };
  return ops.from(array, 'f32', lengths);
}
/** Returns whole numbers below `below`, u32. */
export function indices(
  ops: Ops,
  { seed, ragged }: Pick<Case, 'seed' | 'ragged'>,
  shape: readonly [number, number],
  below: number,
  sorted = false,
): Tensor {
  const next = random(seed + 99),
    [rows, slots] = shape;
  const data = Uint32Array.from({ length: rows * slots }, () => Math.floor(next() * below));
  if (sorted) for (let r = 0; r < rows; r++) data.subarray(r * slots, (r + 1) * slots).sort();
  const lengths = ragged
    ? ops.from({ data: Uint32Array.from({ length: rows }, () => Math.floor(next() * (slots + 1))), shape: [rows] })
    : undefined;
  return ops.from({ data, shape }, 'u32', lengths);
}

/** Returns `runs` at the usual number of runs; FC_RUNS scales it. */
export const share = (runs: number): number => Math.ceil((runs * (fc.readConfigureGlobal().numRuns ?? 100)) / 100);

/** A property of one operation over random cases. */
export const everywhere = (
  check: (c: Case) => Promise<void>,
  { runs = 12, slots }: { readonly runs?: number; readonly slots?: fc.Arbitrary<number> } = {},
): Promise<void> => fc.assert(fc.asyncProperty(cases(slots), check), { numRuns: share(runs) });
