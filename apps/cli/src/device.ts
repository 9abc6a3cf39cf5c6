import { KvError } from '@kv/core';
import type { HostEngine, Runtime } from '@kv/models';
import { entry, installed } from './optional-package.ts';
import { oneOf } from './option-values.ts';

/** Where a model runs: `auto` is webgpu if a hardware adapter and the GPU packages are there, else cpu. */
const DEVICES = ['webgpu', 'cpu', 'auto'] as const;
export type Device = (typeof DEVICES)[number];

/** The flag, the help text, the parser and the default of `--device`. */
export const deviceOption: [flag: string, help: string, parse: (text: string) => Device, choice: Device] = [
  '--device <name>',
  'webgpu, cpu, or auto: webgpu where @kv/gpu-models is installed and finds a GPU (a software adapter is none), unless --engine says what multiplies',
  oneOf('--device', DEVICES),
  'auto',
];

/** What is used of an open device of `@kv/gpu`, and of `@kv/gpu-models`, which this package does not install. */
interface Gpu {
  readonly name: string;
  readonly software: boolean;
  destroy(): void;
}
interface GpuPackages {
  openGpu(): Promise<Gpu>;
  gpuEngine(gpu: Gpu): HostEngine;
  gpuRuntime(gpu: Gpu): Runtime;
}

/** Whether `auto` is webgpu here. */
export async function hasGpu(cwd: string): Promise<boolean> {
  const packages = await gpuPackages(cwd),
    gpu = await packages?.openGpu().catch(() => undefined);
  gpu?.destroy();
  return gpu?.software === false;
}

/** The adapter of this machine; a sentence about what is missing. */
export async function adapterOf(cwd: string): Promise<Pick<Gpu, 'name' | 'software'> | string> {
  const packages = await gpuPackages(cwd);
  if (packages === undefined) return `none looked for: npm install ${NAME} webgpu`;
  try {
    const gpu = await packages.openGpu();
    gpu.destroy();
    return { name: gpu.name, software: gpu.software };
  } catch (cause) {
    return `none: ${cause instanceof Error ? cause.message : String(cause)}`;
  }
}

/** What gives back the device that something runs on. */
export interface Closing {
  close(): void;
}

/** An engine on the GPU, for caches on the host. @throws KvError in one sentence where there is no GPU */
export const openGpuEngine = (cwd: string): Promise<HostEngine & Closing> =>
  onGpu(cwd, ({ gpuEngine }, gpu) => gpuEngine(gpu));

/** A runtime whose caches are on the GPU. @throws KvError in one sentence where there is none */
export const openGpuRuntime = (cwd: string): Promise<Runtime & Closing> =>
  onGpu(cwd, ({ gpuRuntime }, gpu) => gpuRuntime(gpu));

async function onGpu<T extends object>(
  cwd: string,
  make: (packages: GpuPackages, gpu: Gpu) => T,
): Promise<T & Closing> {
  const packages = await gpuPackages(cwd);
  if (packages === undefined)
    throw new KvError(
      '--device webgpu',
      `expected ${NAME} to be installed (npm install ${NAME} webgpu), it was not found from ${cwd}`,
    );
  const gpu = await packages.openGpu();
  return Object.assign(make(packages, gpu), { close: () => gpu.destroy() });
}

const NAME = '@kv/gpu-models';

/**
 * The GPU packages: in the folder that `KV_GPU_MODELS` names, or installed beside the working folder or this package.
 */
async function gpuPackages(cwd: string): Promise<GpuPackages | undefined> {
  const models = process.env.KV_GPU_MODELS ?? installed(NAME, cwd) ?? installed(NAME, import.meta.dirname);
  const gpu = models && installed('@kv/gpu', models);
  if (!models || !gpu) return undefined;
  return { ...(await entry(gpu)), ...(await entry(models)) } as unknown as GpuPackages;
}
