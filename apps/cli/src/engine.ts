import { KvError } from '@kv/core';
import type { Compiled } from '@kv/core';
import { defaultLinear, linearEngine, pickEngine } from '@kv/models';
import type { Engine } from '@kv/models';
import type { Command } from 'commander';
import { hasGpu, openWebgpu } from './device.ts';
import type { Device } from './device.ts';
import { oneOf } from './option-values.ts';

/**
 * What multiplies on the CPU: `wasm` is built in; the others are ONNX Runtime where it is installed, else `wasm` too.
 */
const ENGINES = ['exact', 'fast', 'wasm'] as const;
type CpuEngine = (typeof ENGINES)[number];
/** On a GPU caches live there (`resident`), or on the host. */
export type EngineChoice = CpuEngine | 'webgpu' | 'webgpu-resident';

/** The flag, the help text, the parser and the default of `--engine`. */
export const engineOption = (
  choice: CpuEngine,
): [flag: string, help: string, parse: (text: string) => CpuEngine, choice: CpuEngine] => [
  '--engine <name>',
  'on the CPU: exact (f32), fast (quantised weights as stored, activations in 8 bits) or wasm; the first two run on onnxruntime-node where it is installed',
  oneOf('--engine', ENGINES),
  choice,
];

/** Whether a policy runs where caches live on the GPU: it reads no hidden states. */
export const residentOn = (policy: Compiled): boolean => policy.needs.every(({ hidden }) => !hidden);

/**
 * What `--device` and `--engine` of a command come to on this machine; `resident` if what it runs allows caches on the
 * GPU. @throws KvError where they exclude each other
 */
export async function chooseEngine(command: Command, cwd: string, resident: boolean): Promise<EngineChoice> {
  const { engine, device } = command.opts<{ engine: CpuEngine; device: Device }>(),
    asked = command.getOptionValueSource('engine') === 'cli';
  if (asked && device === 'webgpu')
    throw new KvError(
      '--engine',
      `expected no --device webgpu beside it, since it says what multiplies on the CPU, got ${engine}`,
    );
  if (device !== 'webgpu' && !(device === 'auto' && !asked && (await hasGpu(cwd)))) return engine;
  return resident ? 'webgpu-resident' : 'webgpu';
}

/** An engine, and what gives its device back. */
export type OpenEngine = Engine & { close(): void };

/** The engine of a choice; `threads` for each of several at once. */
export async function openEngine(choice: EngineChoice, cwd: string, threads?: number): Promise<OpenEngine> {
  if (choice === 'webgpu' || choice === 'webgpu-resident') return openWebgpu(cwd, choice === 'webgpu-resident');
  const engine =
    choice === 'wasm'
      ? linearEngine(defaultLinear())
      : await pickEngine({ exact: choice === 'exact', from: cwd, ...(threads !== undefined && { threads }) });
  return Object.assign(engine, { close: () => undefined });
}
