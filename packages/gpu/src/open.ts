import { KvError } from '@kv/core';
import { createGpu } from './gpu.ts';
import type { Gpu } from './gpu.ts';

export interface GpuOptions {
  /** Where adapters come from. @defaultValue `navigator.gpu`, in Node the npm package `webgpu` */
  readonly instance?: GPU;
  readonly adapter?: GPUAdapter;
  /** A device of the caller's, which `destroy()` leaves open. */
  readonly device?: GPUDevice;
  /** Bytes of idle buffers that wait to be used again. @defaultValue 256 MiB */
  readonly idleBytes?: number;
}

const MISSING = 'no WebGPU adapter was found: install a Vulkan driver for the GPU, or SwiftShader (it comes with Chromium) and point VK_ICD_FILENAMES to its vk_swiftshader_icd.json';

/**
 * Opens a device, with the largest buffers that its adapter allows and `shader-f16` where it has it.
 *
 * @throws KvError with one sentence that says what to install, where there is no adapter or, in Node, no package `webgpu`.
 */
export async function openGpu({ instance, adapter, device, idleBytes = 2 ** 28 }: GpuOptions = {}): Promise<Gpu> {
  if (device) return createGpu({ name: nameOf(device.adapterInfo), device, owned: false, instance, idleBytes });
  const gpu = instance ?? (adapter ? undefined : await findInstance());
  const found = adapter ?? (await gpu!.requestAdapter({ powerPreference: 'high-performance' }));
  if (!found) throw new KvError('gpu', MISSING);
  const { maxBufferSize, maxStorageBufferBindingSize } = found.limits;
  const opened = await found.requestDevice({ requiredLimits: { maxBufferSize, maxStorageBufferBindingSize }, requiredFeatures: found.features.has('shader-f16') ? ['shader-f16'] : [] });
  return createGpu({ name: nameOf(found.info), device: opened, owned: true, instance: gpu, idleBytes });
}

const nameOf = ({ description, vendor, architecture }: GPUAdapterInfo): string => description || [vendor, architecture].filter(Boolean).join(' ') || 'webgpu';

async function findInstance(): Promise<GPU> {
  const here = (globalThis as { navigator?: { gpu?: GPU } }).navigator?.gpu;
  if (here) return here;
  try {
    const { create } = await import('webgpu');
    return create([]);
  } catch (cause) {
    throw new KvError('gpu', `there is no navigator.gpu, and the npm package 'webgpu' did not load (${cause instanceof Error ? cause.message.split('\n')[0] : String(cause)}): install it, or open this in a browser with WebGPU`);
  }
}
