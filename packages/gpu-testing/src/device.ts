import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterAll, expect, test } from 'vitest';

/** The part of a `Gpu` of `@kv/gpu` that tests use. */
export interface TestDevice {
  readonly device: GPUDevice;
  readonly ledger: { readonly live: number; readonly allocated: number; readonly buffers: number };
  release(): void;
  destroy(): void;
}
export interface DeviceTestOptions {
  /** Releases a test's tensors outside scopes after it. @defaultValue false: they count as leaked */
  readonly release?: boolean;
}
/** A `test` that is given the file's device. */
export type DeviceTest<G> = (name: string, run: (gpu: G) => Promise<void> | void) => void;

/** Time limit of a test in milliseconds, for software adapters on a busy machine. */
export const timeLimit: number = process.env['KV_FULL'] === '1' ? 4 * 3600_000 : 300_000;

const SWIFTSHADER = '/usr/lib/chromium/vk_swiftshader_icd.json'; // of Debian's package chromium
/** Bytes of a batch's scalars, which the recorder holds. */
const SCALARS = 65_536;

/** Opens a device, or returns undefined if there is none; with KV_REQUIRE_GPU=1 that is a failure. */
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
 * The device of all files that this worker runs, with its compiled pipelines: a software adapter takes seconds for
 * each.
 */
let worker: Promise<TestDevice> | undefined;

/** Caches pipelines of equal code for the device's lifetime. */
function keepPipelines<G extends TestDevice>(gpu: G): G {
  const { device } = gpu,
    createModule = device.createShaderModule.bind(device),
    createPipeline = device.createComputePipeline.bind(device),
    codes = new WeakMap<GPUShaderModule, string>(),
    kept = new Map<string, GPUComputePipeline>();
  device.createShaderModule = (descriptor) => {
    const module = createModule(descriptor);
    codes.set(module, descriptor.code);
    return module;
  };
  device.createComputePipeline = (descriptor) => {
    const code = codes.get(descriptor.compute.module) ?? '',
      pipeline = kept.get(code) ?? createPipeline(descriptor);
    kept.set(code, pipeline);
    return pipeline;
  };
  return gpu;
}

/** Returns a `Gpu` of its own on the device of all files that this worker runs, or undefined if there is none. */
export async function sharedGpu<G extends TestDevice>(
  open: (options?: { readonly device: GPUDevice }) => Promise<G>,
): Promise<G | undefined> {
  const lent = await firstDevice(() => (worker ??= open().then(keepPipelines)));
  return lent && open({ device: lent.device });
}

/**
 * Returns a `test` with one `Gpu` for the file, inside error scopes: an error that the device reports fails the test,
 * and so does a buffer that is not released.
 *
 * @param open `openGpu`
 */
export async function deviceTests<G extends TestDevice>(
  open: (options?: { readonly device: GPUDevice }) => Promise<G>,
  { release = false }: DeviceTestOptions = {},
): Promise<DeviceTest<G>> {
  const gpu = await sharedGpu(open);
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
          expect(ledger.live - live, 'bytes that the test did not free').toBeLessThanOrEqual(SCALARS);
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
