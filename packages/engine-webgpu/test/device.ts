import type { Tensor } from '@kv/core';
import { openGpu } from '@kv/gpu';
import type { Commands, Gpu } from '@kv/gpu';
import { deviceTests } from '@kv/gpu-testing';
import type { DeviceTest } from '@kv/gpu-testing';
import { inTurn } from '@kv/model-testing/in-turn';
import fc from 'fast-check';
import { expect } from 'vitest';

/** `test` with the file's device; fails if a buffer is not freed. */
export const gpuTests = (): Promise<DeviceTest<Gpu>> => deviceTests(openGpu);

/**
 * Returns a `test` for each kind of long tests; those of one kind run, of another one each turn, or with KV_FULL=1 all.
 */
export const byTurns =
  <K extends string>(gpuTest: DeviceTest<Gpu>, kinds: readonly K[]) =>
  (kind: K): DeviceTest<Gpu> =>
    inTurn(kinds, kinds.length).includes(kind) ? gpuTest : () => {};

export type Numbers = Float32Array | Uint32Array;

/** Reads what `build` records; runs twice, on buffers that hold NaN and then 1e30, and expects the same bits. */
export async function twice(gpu: Gpu, build: (commands: Commands) => readonly Tensor[]): Promise<Numbers[]> {
  const [first, again] = [await once(gpu, build, 0x7fc0_0000), await once(gpu, build, 0x7149_f2ca)];
  expect(again.map(bits)).toEqual(first.map(bits));
  return first;
}
const bits = ({ buffer, byteOffset, length }: Numbers): Uint32Array =>
  new Uint32Array(buffer, byteOffset, length).slice();

async function once(gpu: Gpu, build: (commands: Commands) => readonly Tensor[], dirt: number): Promise<Numbers[]> {
  await gpu.scope(async ({ commands }) => {
    for (let size = 64; size <= 16_384; size *= 2)
      for (let i = 0; i < 3; i++) commands.upload(new Uint32Array(size).fill(dirt), [size]);
  });
  return gpu.scope(async ({ commands, read }) => (await read(build(commands))).map(({ data }) => data));
}

/** The distance to the next f32, at least the smallest normal one: WGSL may flush subnormals. */
export const ulp = (x: number): number =>
  Math.max(2 ** (Math.floor(Math.log2(Math.max(Math.abs(x), 2 ** -126))) - 23), 2 ** -126);

/** Expects every number to be within `tolerance`; fails with the worst one. */
export function near(
  got: Numbers,
  want: ArrayLike<number>,
  tolerance: (at: number, want: number) => number,
  what = 'numbers',
): void {
  let worst = { at: -1, over: 0 };
  for (let at = 0; at < want.length; at++) {
    const over = Math.abs(got[at] - want[at]) - tolerance(at, want[at]);
    if (!(over <= worst.over)) worst = { at, over };
    if (Number.isNaN(over)) break;
  }
  const { at } = worst;
  if (at >= 0)
    expect.fail(`worst of ${what} at ${at}: expected ${want[at]} within ${tolerance(at, want[at])}, got ${got[at]}`);
  expect(got.length).toBeGreaterThanOrEqual(want.length);
}

/** A property on the device over random cases; FC_RUNS scales the number. */
export const everywhere = <C>(cases: fc.Arbitrary<C>, check: (c: C) => Promise<void>, runs = 12): Promise<void> =>
  fc.assert(fc.asyncProperty(cases, check), {
    numRuns: Math.ceil((runs * (fc.readConfigureGlobal().numRuns ?? 100)) / 100),
  });
