import { existsSync, readdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { KvError, oneOf } from '@kv/core';
import type { Option } from '@kv/core';
import type { Runtime } from '@kv/models';
import { entry, howToInstall, installedFolder } from './optional-package.ts';

/** Where a model runs: `auto` is webgpu if a hardware adapter and the GPU packages are there, else cpu. */
const DEVICES = ['webgpu', 'cpu', 'auto'] as const;
export type Device = (typeof DEVICES)[number];

/** The option `--device`. */
export const deviceOption: Option<Device> = oneOf(
  DEVICES,
  'auto',
  'webgpu, cpu, or auto: webgpu where @kv/engine-webgpu is installed and finds a GPU (a software adapter is none), unless --engine says what multiplies.',
);

/** The used part of an open device of `@kv/gpu` and of `@kv/engine-webgpu`, which this package does not install. */
interface Gpu {
  readonly name: string;
  readonly software: boolean;
  destroy(): void;
}
interface GpuPackages {
  openGpu(): Promise<Gpu>;
  gpuRuntime(gpu: Gpu): Runtime;
}

/**
 * Whether the Vulkan loader would find a driver's manifest: without one, Linux has no GPU to open, and an attempt
 * prints Dawn's warnings to stderr.
 */
function hasDriver(env: NodeJS.ProcessEnv): boolean {
  if (process.platform !== 'linux') return true;
  if (env.VK_DRIVER_FILES || env.VK_ICD_FILENAMES || env.VK_ADD_DRIVER_FILES) return true;
  const home = homedir(),
    roots = [
      ...(env.XDG_CONFIG_DIRS || '/etc/xdg').split(':'),
      ...(env.XDG_DATA_DIRS || '/usr/local/share:/usr/share').split(':'),
      ...['/etc', '/usr/local/share', '/usr/share', '/usr/local/etc'],
      ...[env.XDG_CONFIG_HOME || join(home, '.config'), env.XDG_DATA_HOME || join(home, '.local/share')],
    ];
  return roots.some((root) => {
    const folder = join(root, 'vulkan/icd.d');
    return existsSync(folder) && readdirSync(folder).some((file) => file.endsWith('.json'));
  });
}

/** Whether `auto` is webgpu here. */
export async function hasGpu(cwd: string): Promise<boolean> {
  if (!hasDriver(process.env)) return false;
  const packages = await gpuPackages(cwd),
    gpu = await packages?.openGpu().catch(() => undefined);
  gpu?.destroy();
  return gpu?.software === false;
}

/** Returns the adapter of this machine, or a sentence about what is missing. */
export async function adapterOf(cwd: string): Promise<Pick<Gpu, 'name' | 'software'> | string> {
  const packages = await gpuPackages(cwd);
  if (packages === undefined) return `none looked for: ${howToInstall(`${NAME} webgpu`)}`;
  if (!hasDriver(process.env))
    return 'none: no Vulkan driver is here. Install that of the GPU, or SwiftShader (it comes with Chromium), to whose vk_swiftshader_icd.json VK_ICD_FILENAMES must point';
  try {
    const gpu = await packages.openGpu();
    gpu.destroy();
    return { name: gpu.name, software: gpu.software };
  } catch (cause) {
    return `none: ${cause instanceof Error ? cause.message : String(cause)}`;
  }
}

/** Something that holds a device until it is closed. */
export interface Closable {
  close(): void;
}

/** Opens a runtime on the GPU. @throws KvError in one sentence if there is none */
export async function openGpuRuntime(cwd: string): Promise<Runtime & Closable> {
  const packages = await gpuPackages(cwd);
  if (packages === undefined)
    throw new KvError(
      '--device webgpu',
      `expected ${NAME} to be installed (npm install ${NAME} webgpu), it was not found from ${cwd}`,
    );
  const gpu = await packages.openGpu();
  return { ...packages.gpuRuntime(gpu), close: () => gpu.destroy() };
}

const NAME = '@kv/engine-webgpu';

/**
 * Imports the GPU packages from the folder `KV_GPU_MODELS`, or as installed next to the working folder or this package.
 */
async function gpuPackages(cwd: string): Promise<GpuPackages | undefined> {
  const models = webgpuFolder(cwd),
    gpu = models && installedFolder('@kv/gpu', models);
  if (!models || !gpu) return undefined;
  return { ...(await entry(gpu)), ...(await entry(models)) } as unknown as GpuPackages;
}

/** Returns the folder of the `@kv/engine-webgpu` in use. */
export const webgpuFolder = (cwd: string): string | undefined =>
  process.env.KV_GPU_MODELS ?? installedFolder(NAME, cwd) ?? installedFolder(NAME, import.meta.dirname);

/** Returns the folder of the `@kv/gpu` in use, from which `webgpu` is resolved. */
export function gpuFolder(cwd: string): string | undefined {
  const models = webgpuFolder(cwd);
  return models && installedFolder('@kv/gpu', models);
}
