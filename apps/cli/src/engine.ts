import { KvError } from '@kv/core';
import type { Compiled } from '@kv/core/engine';
import { cpuRuntime, exactRuntime, hostRuntime } from '@kv/models';
import type { HostRunning, Runtime } from '@kv/models';
import type { Command } from 'commander';
import { hasGpu, openGpuEngine, openGpuRuntime } from './device.ts';
import type { Closing, Device } from './device.ts';
import { oneOf } from './option-values.ts';

/**
 * What multiplies on the CPU: `fast` and `wasm` are built in; `exact` is ONNX Runtime where it is installed, else `wasm`.
 */
const ENGINES = ['exact', 'fast', 'wasm'] as const;
type CpuEngine = (typeof ENGINES)[number];
/** What multiplies beside caches on the host. */
type HostChoice = CpuEngine | 'webgpu';
/** On a GPU caches live there (`resident`), or on the host. */
export type EngineChoice = HostChoice | 'webgpu-resident';

/** The flag, the help text, the parser and the default of `--engine`. */
export const engineOption = (
  choice: CpuEngine,
): [flag: string, help: string, parse: (text: string) => CpuEngine, choice: CpuEngine] => [
  '--engine <name>',
  'on the CPU: fast (weights as stored, those of at most 8 bits with activations in 8 bits), wasm (f32), or exact (f32 on onnxruntime-node where it is installed, else as wasm); commands that answer take fast, those that measure exact',
  oneOf('--engine', ENGINES),
  choice,
];

/** Whether a policy runs where caches live on the GPU: it reads no hidden states. */
export const residentOn = (policy: Compiled): boolean => policy.needs.every(({ hidden }) => !hidden);

/** What `--device` and `--engine` of a command come to on this machine. @throws KvError where they exclude each other */
export async function chooseHostEngine(command: Command, cwd: string): Promise<HostChoice> {
  const { engine, device } = command.opts<{ engine: CpuEngine; device: Device }>(),
    asked = command.getOptionValueSource('engine') === 'cli';
  if (asked && device === 'webgpu')
    throw new KvError(
      '--engine',
      `expected no --device webgpu beside it, since it says what multiplies on the CPU, got ${engine}`,
    );
  return device === 'webgpu' || (device === 'auto' && !asked && (await hasGpu(cwd))) ? 'webgpu' : engine;
}

/** The same, with caches on the GPU if what runs there is `resident`. */
export async function chooseEngine(command: Command, cwd: string, resident: boolean): Promise<EngineChoice> {
  const choice = await chooseHostEngine(command, cwd);
  return choice === 'webgpu' && resident ? 'webgpu-resident' : choice;
}

/** The runtime of a choice; `threads` for each of several at once. */
export async function openRuntime(choice: EngineChoice, cwd: string, threads?: number): Promise<Runtime & Closing> {
  return choice === 'webgpu-resident' ? openGpuRuntime(cwd) : openHostRuntime(choice, cwd, threads);
}

/** The same, with caches on the host. */
export async function openHostRuntime(
  choice: HostChoice,
  cwd: string,
  threads?: number,
): Promise<Runtime<HostRunning> & Closing> {
  if (choice === 'webgpu') {
    const engine = await openGpuEngine(cwd);
    return { ...hostRuntime({ engine }), close: () => engine.close() };
  }
  const runtime =
    choice === 'exact'
      ? await exactRuntime({ from: cwd, threads })
      : cpuRuntime({ exact: choice === 'wasm', from: cwd, threads });
  return { ...runtime, close: () => undefined };
}
