import { KvError } from '@kv/core';
import type { Shader } from './shader.ts';

export interface ComputePipeline {
  readonly pipeline: GPUComputePipeline;
  readonly layout: GPUBindGroupLayout;
}
export interface Pipelines {
  /** Group 1 of every pipeline: the uniform, at a dynamic offset. */
  readonly uniform: GPUBindGroupLayout;
  /** Returns the pipeline called `key`, compiled at its first use. */
  get(key: string, make: () => Shader): ComputePipeline;
  /** Waits until everything so far is compiled. @throws KvError with the kernel's name and the first message. */
  compiled(): Promise<void>;
}

const COMPUTE = 0x4; // GPUShaderStage.COMPUTE, a global in browsers only

export function pipelineCache(device: GPUDevice, uniformBytes: number): Pipelines {
  const uniform = device.createBindGroupLayout({
    entries: [
      {
        binding: 0,
        visibility: COMPUTE,
        buffer: { type: 'uniform', hasDynamicOffset: true, minBindingSize: uniformBytes },
      },
    ],
  });
  const cache = new Map<string, ComputePipeline>();
  let pending: { readonly id: string; readonly info: Promise<GPUCompilationInfo> }[] = [];
  const build = ({ id, code, writes }: Shader): ComputePipeline => {
    const most = device.limits.maxStorageBuffersPerShaderStage;
    if (writes.length > most) throw new KvError(id, `binds ${writes.length} buffers, expected at most ${most}`);
    const module = device.createShaderModule({ label: id, code });
    pending.push({ id, info: module.getCompilationInfo() });
    const layout = device.createBindGroupLayout({
      label: id,
      entries: writes.map((write, binding) => ({
        binding,
        visibility: COMPUTE,
        buffer: { type: write ? 'storage' : 'read-only-storage' },
      })),
    });
    const pipeline = device.createComputePipeline({
      label: id,
      layout: device.createPipelineLayout({ bindGroupLayouts: [layout, uniform] }),
      compute: { module, entryPoint: 'main' },
    });
    return { pipeline, layout };
  };
  return {
    uniform,
    get(key, make) {
      let found = cache.get(key);
      if (!found) cache.set(key, (found = build(make())));
      return found;
    },
    async compiled() {
      const now = pending;
      pending = [];
      for (const { id, info } of now) {
        const error = (await info).messages.find((m) => m.type === 'error');
        if (error) throw new KvError(id, `its WGSL does not compile, line ${error.lineNum}: ${error.message}`);
      }
    },
  };
}
