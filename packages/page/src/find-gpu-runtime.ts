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
    if (error instanceof DOMException || KvError.is(error)) return undefined; // an adapter that gives no device
    throw error;
  }
}

const isSoftware = ({ isFallbackAdapter, vendor, architecture, description }: GPUAdapterInfo): boolean =>
  isFallbackAdapter || /swiftshader|llvmpipe|basic render/i.test(`${vendor} ${architecture} ${description}`);
