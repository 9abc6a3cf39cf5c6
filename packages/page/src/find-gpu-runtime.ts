import { KvError } from '@kv/core';
import { gpuRuntime } from '@kv/engine-webgpu';
import { openGpu } from '@kv/gpu';
import type { Runtime } from '@kv/models';

/**
 * Returns a runtime on this browser's WebGPU adapter, for `loadModel`; undefined without one. A software adapter counts
 * as none, since WebAssembly is faster.
 * @example
 *   const model = await loadModel('./model/', { runtime: await findGpuRuntime() });
 */
export async function findGpuRuntime(): Promise<Runtime | undefined> {
  const gpu: GPU | undefined = navigator.gpu; // older browsers have none
  try {
    const adapter = await gpu?.requestAdapter({ powerPreference: 'high-performance' });
    if (!adapter || isSoftware(adapter.info)) return undefined;
    return gpuRuntime(await openGpu({ instance: gpu, adapter }));
  } catch (error) {
    if (error instanceof DOMException || KvError.is(error)) return undefined; // no adapter, or one that gives no device
    throw error;
  }
}

/** Whether an adapter runs on the CPU; older browsers tell nothing of it. */
const isSoftware = (info: GPUAdapterInfo | undefined): boolean =>
  info !== undefined &&
  (info.isFallbackAdapter ||
    /swiftshader|llvmpipe|basic render/i.test(`${info.vendor} ${info.architecture} ${info.description}`));
