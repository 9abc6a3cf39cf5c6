import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterAll, expect, test } from 'vitest';

/** The part of a `Gpu` of `@kv/gpu` that is looked at. */
export interface TestDevice {
  readonly device: GPUDevice;
  readonly ledger: { readonly live: number; readonly allocated: number; readonly buffers: number };
  release(): void;
  destroy(): void;
}
export interface DeviceTestOptions {
  /** A test's tensors outside scopes are given back behind it. @defaultValue false: they count as left behind */
  readonly release?: boolean;
}
/** `test` with the file's device. */
export type DeviceTest<G> = (name: string, run: (gpu: G) => Promise<void> | void) => void;

/** Milliseconds that a test may take: software adapters on a busy machine. */
export const timeLimit: number = process.env['KV_FULL'] === '1' ? 4 * 3600_000 : 300_000;

const SWIFTSHADER = '/usr/lib/chromium/vk_swiftshader_icd.json'; // of Debian's package chromium
/** The scalars of a batch, which the recorder holds. */
const SCALARS = 65_536;

/** A device, or undefined where there is none; with KV_REQUIRE_GPU=1 that is a failure. */
export async function firstDevice<G>(open: () => Promise<G>): Promise<G | undefined> {
  if (!process.env['VK_ICD_FILENAMES'] && existsSync(SWIFTSHADER)) process.env['VK_ICD_FILENAMES'] = SWIFTSHADER;
  process.env['XDG_RUNTIME_DIR'] ??= tmpdir();
  try {
    return await open();
  } catch (error) {
    if (process.env['KV_REQUIRE_GPU'] === '1') throw error;
    console.log(`GPU tests are skipped: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  }
}

/**
 * `test` with one device for the file, inside error scopes: what the device reports fails the test, and so does a
 * buffer that is not given back.
 */
export async function deviceTests<G extends TestDevice>(
  open: () => Promise<G>,
  { release = false }: DeviceTestOptions = {},
): Promise<DeviceTest<G>> {
  const gpu = await firstDevice(open);
  if (!gpu) return (name) => test.skip(name, () => {});
  afterAll(() => {
    gpu.destroy();
    expect(gpu.ledger).toMatchObject({ live: 0, allocated: 0, buffers: 0 });
  });
  return (name, run) => {
    test(
      name,
      async () => {
        const { device, ledger } = gpu,
          filters = ['internal', 'out-of-memory', 'validation'] as const,
          live = ledger.live;
        for (const filter of filters) device.pushErrorScope(filter);
        try {
          await run(gpu);
          if (release) gpu.release();
          expect(ledger.live - live, 'bytes that the test left behind').toBeLessThanOrEqual(SCALARS);
        } finally {
          if (release) gpu.release();
          const errors = await Promise.all(filters.map(() => device.popErrorScope()));
          expect(
            errors.flatMap((e) => (e ? [e.message] : [])),
            'what the device reported',
          ).toEqual([]);
        }
      },
      timeLimit,
    );
  };
}
