import { KvError, oneOf } from '@kv/core';
import type { Option } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import { cpuRuntime, onnxRuntime } from '@kv/models';
import type { RunningHostModel, Runtime } from '@kv/models';
import type { Command } from 'commander';
import { hasGpu, openGpuRuntime } from './device.ts';
import type { Closable, Device } from './device.ts';

/** Engines on the CPU: the built-in one, in 8 bits or in f32, or ONNX Runtime. */
const ENGINES = ['fast', 'f32', 'onnx'] as const;
export type CpuEngine = (typeof ENGINES)[number];
/** An engine on the CPU, or WebGPU, where caches are on the GPU too. */
export type EngineChoice = CpuEngine | 'webgpu';

/** Returns the option `--engine`; `choice` is its default. */
export const engineOption = (choice: CpuEngine): Option<CpuEngine> =>
  oneOf(
    ENGINES,
    choice,
    'On the CPU: fast (weights as stored, those of at most 8 bits with activations in 8 bits), f32 (everything in f32), or onnx (f32 on onnxruntime-node, where it is installed); commands that answer take fast, those that measure f32.',
  );

/** Returns why policies cannot run on a GPU, or undefined if they can. */
export function hostOnly(policies: readonly CompiledPolicy[]): string | undefined {
  const reading = policies.find(({ needs }) => needs.some(({ hidden }) => hidden));
  return reading && `'${reading.label}' reads hidden states, which stay on a GPU`;
}

/**
 * Returns the CPU engine of a command that needs the CPU for this reason. @throws KvError if `--device` asks for WebGPU
 */
export function chooseCpuEngine(command: Command, reason: string): CpuEngine {
  const { engine, device } = command.opts<{ engine: CpuEngine; device: Device }>();
  if (device === 'webgpu') throw new KvError('--device', `expected cpu or auto, since ${reason}, got webgpu`);
  return engine;
}

/**
 * Returns the engine that `--device` and `--engine` of a command choose on this machine.
 *
 * @param reason why only the CPU will do, if so
 * @throws KvError if the two exclude each other, or `--device` asks for WebGPU in spite of the reason
 */
export async function chooseEngine(command: Command, cwd: string, reason?: string): Promise<EngineChoice> {
  const { engine, device } = command.opts<{ engine: CpuEngine; device: Device }>(),
    asked = command.getOptionValueSource('engine') === 'cli';
  if (asked && device === 'webgpu')
    throw new KvError(
      '--engine',
      `expected none with --device webgpu, since it says what multiplies on the CPU, got ${engine}`,
    );
  if (reason !== undefined) return chooseCpuEngine(command, reason);
  return device === 'webgpu' || (device === 'auto' && !asked && (await hasGpu(cwd))) ? 'webgpu' : engine;
}

/** Returns why ONNX Runtime cannot run here, or undefined. */
export async function withoutOnnx(cwd: string): Promise<string | undefined> {
  try {
    await onnxRuntime({ from: cwd });
    return undefined;
  } catch (error) {
    if (!KvError.is(error)) throw error;
    return error.message;
  }
}

/** Opens the runtime of a choice; `threads` per runtime if several run at once. */
export async function openRuntime(choice: EngineChoice, cwd: string, threads?: number): Promise<Runtime & Closable> {
  return choice === 'webgpu' ? openGpuRuntime(cwd) : openCpuRuntime(choice, cwd, threads);
}

/** Opens the runtime of an engine on the CPU. */
export async function openCpuRuntime(
  choice: CpuEngine,
  cwd: string,
  threads?: number,
): Promise<Runtime<RunningHostModel> & Closable> {
  const runtime =
    choice === 'onnx'
      ? await onnxRuntime({ from: cwd, threads }).catch((cause: unknown) => {
          throw KvError.is(cause) && cause.message.includes('is not installed, or')
            ? new KvError(
                '--engine',
                'expected onnxruntime-node and @kv/engine-onnx to be installed for onnx, got one or none: install both, or take f32, which needs neither',
              )
            : cause;
        })
      : cpuRuntime({ exact: choice === 'f32', from: cwd, threads });
  return { ...runtime, close: () => undefined };
}
