import { KvError } from '@kv/core';
import { openGpu } from '@kv/gpu';
import { gpuRuntime } from '@kv/engine-webgpu';
import { cpuRuntime } from '@kv/models';
import type { Runtime } from '@kv/models';
import type { DeviceChoice } from '../choice.ts';
import type { DeviceInfo } from '../messages.ts';

/** A device that runs a model and the pieces of its policies. */
export interface Computer {
  readonly opened: DeviceInfo;
  /** What WebGPU tells of the adapter; absent on the CPU. */
  readonly adapter?: Pick<GPUAdapterInfo, 'vendor' | 'architecture' | 'description'>;
  /** Creates a runtime. @param exact in f32 throughout */
  readonly runtime: (exact: boolean) => Runtime;
  destroy(): void;
}

/**
 * Opens WebGPU if it is asked for and faster; otherwise the CPU, with the reason. A software adapter is used only when
 * asked for: WebAssembly is faster.
 */
export async function openComputer(wish: DeviceChoice): Promise<Computer> {
  if (wish === 'cpu') return onCpu('it was chosen');
  const gpu = (navigator as { gpu?: GPU }).gpu;
  if (gpu === undefined)
    return onCpu(isSecureContext ? 'this browser has no WebGPU' : 'browsers offer WebGPU to https and localhost only');
  const adapter = await gpu.requestAdapter({ powerPreference: 'high-performance' }).catch(() => null);
  if (adapter === null) return onCpu('this browser offers no WebGPU adapter');
  const { description, vendor, architecture, isFallbackAdapter } = infoOf(adapter),
    name = description || [vendor, architecture].filter(Boolean).join(' ') || 'unnamed adapter';
  const software = isFallbackAdapter || /swiftshader|llvmpipe|basic render/i.test(`${name} ${vendor} ${architecture}`);
  if (software && wish === 'auto') return onCpu(`the only WebGPU adapter is software (${name}), which is slower`);
  try {
    return await onGpu(gpu, adapter, software ? `${name}, software` : name);
  } catch (error) {
    return onCpu(`the adapter ${name} gave no device: ${KvError.is(error) ? error.message : String(error)}`);
  }
}

/** Returns what WebGPU tells of an adapter: nothing in older browsers. */
const infoOf = ({
  info,
}: {
  readonly info?: GPUAdapterInfo;
}): Pick<GPUAdapterInfo, 'vendor' | 'architecture' | 'description' | 'isFallbackAdapter'> =>
  info ?? { vendor: '', architecture: '', description: '', isFallbackAdapter: false };

async function onGpu(instance: GPU, adapter: GPUAdapter, name: string): Promise<Computer> {
  const gpu = await openGpu({ instance, adapter });
  const { vendor, architecture, description } = infoOf(adapter);
  return {
    opened: { device: 'webgpu', name },
    adapter: { vendor, architecture, description },
    runtime: () => gpuRuntime(gpu),
    destroy: () => gpu.destroy(),
  };
}

export function onCpu(because: string): Computer {
  return {
    opened: { device: 'cpu', name: 'WebAssembly SIMD', because },
    runtime: (exact) => cpuRuntime({ exact, threads: 1 }), // the page's policy allows no worker from a blob
    destroy() {},
  };
}
