import { KvError, maybe, object, oneOf, whole } from '@kv/core';
import type { OptionValues } from '@kv/core';
import { settleOwn } from '@kv/core/engine';
import { createGpu } from './gpu.ts';
import type { Gpu } from './gpu.ts';
import type { TimingMode } from './timer.ts';

const OPEN_GPU = {
  instance: object<GPU>('a GPU', 'Source of adapters.', '`navigator.gpu`, in Node the npm package `webgpu`'),
  adapter: object<GPUAdapter>('a GPUAdapter', 'The adapter to open.', 'that of `instance`'),
  device: object<GPUDevice>('a GPUDevice', "The caller's device, which `destroy()` leaves open."),
  idleBytes: whole(2 ** 28, 'bytes', 'Most bytes of idle buffers kept for reuse.'),
  timestamps: maybe(
    oneOf<TimingMode>(
      ['kernels', 'passes'],
      'kernels',
      'Times commands by timestamp queries: each kernel in a pass of its own, or passes as they are. In Node unquantised.',
    ),
    'nothing is timed',
  ),
};
/** Options of `openGpu`. */
export interface GpuOptions extends OptionValues<typeof OPEN_GPU> {}

const MISSING =
  'no WebGPU adapter was found: install a Vulkan driver for the GPU, or SwiftShader (it comes with Chromium) and point VK_ICD_FILENAMES to its vk_swiftshader_icd.json';

/**
 * Opens a device, with the largest buffers that its adapter allows, and with `shader-f16` if the adapter has it.
 *
 * @throws KvError with one sentence that says what to install, if there is no adapter or, in Node, no package `webgpu`;
 * and for an adapter that gives no device.
 */
export async function openGpu(options: GpuOptions = {}): Promise<Gpu> {
  const { instance, adapter, device, idleBytes, timestamps: timed } = settleOwn('openGpu', OPEN_GPU, options);
  if (device) {
    expectTimed(timed, device, nameOf(device.adapterInfo));
    return createGpu({ name: nameOf(device.adapterInfo), device, owned: false, instance, idleBytes, timed });
  }
  const gpu = instance ?? (adapter ? undefined : await findInstance(timed !== undefined));
  // `gpu` is defined if no adapter was given
  const found = adapter ?? (await gpu!.requestAdapter({ powerPreference: 'high-performance' }));
  if (!found) throw new KvError('gpu', MISSING);
  expectTimed(timed, found, nameOf(found.info));
  const { maxBufferSize, maxStorageBufferBindingSize } = found.limits;
  const requiredFeatures: GPUFeatureName[] = [
    ...(found.features.has('shader-f16') ? ['shader-f16' as const] : []),
    ...(timed ? ['timestamp-query' as const] : []),
  ];
  const opened = await found
    .requestDevice({ requiredLimits: { maxBufferSize, maxStorageBufferBindingSize }, requiredFeatures })
    .catch((cause: unknown) => {
      throw new KvError(
        'gpu',
        `${nameOf(found.info)} gave no device (${cause instanceof Error ? cause.message : String(cause)}): an adapter gives one, once; request another adapter`,
      );
    });
  return createGpu({ name: nameOf(found.info), device: opened, owned: true, instance: gpu, idleBytes, timed });
}

function expectTimed(
  timed: TimingMode | undefined,
  { features }: { readonly features: GPUSupportedFeatures },
  name: string,
): void {
  if (timed && !features.has('timestamp-query'))
    throw new KvError('gpu', `expected an adapter or device with timestamp-query for timestamps, got ${name}`);
}

/** Returns the name of an adapter; older browsers tell nothing of it. */
const nameOf = (info: GPUAdapterInfo | undefined): string =>
  info?.description || [info?.vendor, info?.architecture].filter(Boolean).join(' ') || 'webgpu';

async function findInstance(timed: boolean): Promise<GPU> {
  const here = (globalThis as { navigator?: { gpu?: GPU } }).navigator?.gpu;
  if (here) return here;
  try {
    const { create } = await import('webgpu');
    return create(timed ? ['disable-dawn-features=timestamp_quantization'] : []); // steps of 65 us otherwise
  } catch (cause) {
    throw new KvError(
      'gpu',
      `there is no navigator.gpu, and the npm package 'webgpu' did not load (${cause instanceof Error ? cause.message.split('\n')[0] : String(cause)}): install it, or open this in a browser with WebGPU`,
    );
  }
}
