import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterAll, expect, test } from 'vitest';
import { openGpu } from '../src/index.ts';
import type { Gpu, GpuOptions } from '../src/index.ts';

const SWIFTSHADER = '/usr/lib/chromium/vk_swiftshader_icd.json'; // of Debian's package chromium

/** A device for one test file, or undefined where there is none; with KV_REQUIRE_GPU=1 that is a failure. */
export async function testGpu(options?: GpuOptions): Promise<Gpu | undefined> {
  if (!process.env['VK_ICD_FILENAMES'] && existsSync(SWIFTSHADER)) process.env['VK_ICD_FILENAMES'] = SWIFTSHADER;
  process.env['XDG_RUNTIME_DIR'] ??= tmpdir();
  try {
    return await openGpu(options);
  } catch (error) {
    if (process.env['KV_REQUIRE_GPU'] === '1') throw error;
    console.log(`GPU tests are skipped: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  }
}

type Run = (gpu: Gpu) => Promise<void> | void;

/** `test` with the file's device, inside error scopes: what the device reports fails the test. Buffers of the test are given back. */
export async function gpuTests(options?: GpuOptions): Promise<(name: string, run: Run, timeout?: number) => void> {
  const gpu = await testGpu(options);
  afterAll(() => {
    gpu?.destroy();
    if (gpu) expect(gpu.ledger).toMatchObject({ live: 0, allocated: 0, buffers: 0 });
  });
  return (name, run, timeout) => {
    test.skipIf(!gpu)(name, async () => { await withoutErrors(gpu!, run); }, timeout ?? 300_000); // software adapters on a busy machine
  };
}

async function withoutErrors(gpu: Gpu, run: Run): Promise<void> {
  const filters = ['internal', 'out-of-memory', 'validation'] as const;
  for (const filter of filters) gpu.device.pushErrorScope(filter);
  try {
    await run(gpu);
  } finally {
    gpu.release();
    const errors = await Promise.all(filters.map(() => gpu.device.popErrorScope()));
    expect(errors.flatMap((e) => (e ? [e.message] : [])), 'what the device reported').toEqual([]);
  }
}
