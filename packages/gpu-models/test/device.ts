import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import type { Tensor } from '@kv/core';
import { openGpu } from '@kv/gpu';
import type { Commands, Gpu } from '@kv/gpu';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';

const SWIFTSHADER = '/usr/lib/chromium/vk_swiftshader_icd.json'; // of Debian's package chromium

/** A device for one test file, or undefined where there is none; with KV_REQUIRE_GPU=1 that is a failure. */
async function testGpu(): Promise<Gpu | undefined> {
  if (!process.env['VK_ICD_FILENAMES'] && existsSync(SWIFTSHADER)) process.env['VK_ICD_FILENAMES'] = SWIFTSHADER;
  process.env['XDG_RUNTIME_DIR'] ??= tmpdir();
  try {
    return await openGpu();
  } catch (error) {
    if (process.env['KV_REQUIRE_GPU'] === '1') throw error;
    console.log(`GPU tests are skipped: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  }
}

/** `test` with the file's device, inside error scopes: what the device reports fails the test, and so does a buffer that is not given back. */
export async function gpuTests(): Promise<(name: string, run: (gpu: Gpu) => Promise<void>) => void> {
  const gpu = await testGpu();
  afterAll(() => {
    gpu?.destroy();
    if (gpu) expect(gpu.ledger).toMatchObject({ live: 0, allocated: 0, buffers: 0 });
  });
  return (name, run) => {
    test.skipIf(!gpu)(name, async () => {
      const filters = ['internal', 'out-of-memory', 'validation'] as const, live = gpu!.ledger.live;
      for (const filter of filters) gpu!.device.pushErrorScope(filter);
      try {
        await run(gpu!);
        expect(gpu!.ledger.live - live, 'bytes that the test left behind').toBeLessThanOrEqual(65_536); // the scalars of a batch
      } finally {
        const errors = await Promise.all(filters.map(() => gpu!.device.popErrorScope()));
        expect(errors.flatMap((e) => (e ? [e.message] : [])), 'what the device reported').toEqual([]);
      }
    }, 300_000); // software adapters on a busy machine
  };
}

export type Numbers = Float32Array | Uint32Array;

/** What `build` records, read; twice, on buffers that hold NaN and then 1e30, with the same bits. */
export async function twice(gpu: Gpu, build: (commands: Commands) => readonly Tensor[]): Promise<Numbers[]> {
  const [first, again] = [await once(gpu, build, 0x7fc0_0000), await once(gpu, build, 0x7149_f2ca)];
  expect(again.map(bits)).toEqual(first.map(bits));
  return first;
}
const bits = ({ buffer, byteOffset, length }: Numbers): Uint32Array => new Uint32Array(buffer, byteOffset, length).slice();

async function once(gpu: Gpu, build: (commands: Commands) => readonly Tensor[], dirt: number): Promise<Numbers[]> {
  await gpu.scope(async ({ commands }) => { for (let size = 64; size <= 16_384; size *= 2) for (let i = 0; i < 3; i++) commands.upload(new Uint32Array(size).fill(dirt), [size]); });
  return gpu.scope(async ({ commands, read }) => (await read(build(commands))).map(({ data }) => data));
}

/** The distance to the next f32, at least the smallest normal one: WGSL may flush subnormals. */
export const ulp = (x: number): number => Math.max(2 ** (Math.floor(Math.log2(Math.max(Math.abs(x), 2 ** -126))) - 23), 2 ** -126);

/** Every number is as near as `tolerance` says; fails with the worst one. */
export function near(got: Numbers, want: ArrayLike<number>, tolerance: (at: number, want: number) => number, what = 'numbers'): void {
  let worst = { at: -1, over: 0 };
  for (let at = 0; at < want.length; at++) {
    const over = Math.abs(got[at]! - want[at]!) - tolerance(at, want[at]!);
    if (!(over <= worst.over)) worst = { at, over };
    if (Number.isNaN(over)) break;
  }
  const { at } = worst;
  if (at >= 0) expect.fail(`worst of ${what} at ${at}: expected ${want[at]} within ${tolerance(at, want[at]!)}, got ${got[at]}`);
  expect(got.length).toBeGreaterThanOrEqual(want.length);
}

/** A property on the device over random cases; FC_RUNS scales the number. */
export const everywhere = <C>(cases: fc.Arbitrary<C>, check: (c: C) => Promise<void>, runs = 12): Promise<void> =>
  fc.assert(fc.asyncProperty(cases, check), { numRuns: Math.ceil((runs * (fc.readConfigureGlobal().numRuns ?? 100)) / 100) });
