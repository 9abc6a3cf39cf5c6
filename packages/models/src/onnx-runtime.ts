import { KvError } from '@kv/core';
import { expectOptions } from '@kv/core/engine';
import { hostRuntime } from '@kv/engine';
import type { HostRunning, Runtime } from '@kv/engine';
import type { CpuOptions } from './cpu-runtime.ts';
import { onnxWhereInstalled } from './onnx.ts';
import { availableThreads } from './threads.ts';

/**
 * Returns a runtime that computes everything in f32 on ONNX Runtime.
 * @throws KvError if `@kv/engine-onnx` or `onnxruntime-node` is not installed, or does not load
 */
export async function onnxRuntime(options: Pick<CpuOptions, 'threads' | 'from'> = {}): Promise<Runtime<HostRunning>> {
  expectOptions('onnxRuntime', { threads: true, from: true }, options);
  const { threads, from } = options,
    failed = (error: KvError): never => {
      throw error;
    };
  const engine = await onnxWhereInstalled(from, failed, { threads: threads ?? availableThreads() });
  if (engine === undefined)
    throw new KvError(
      'onnxruntime-node',
      'expected it and @kv/engine-onnx to be installed, got none; cpuRuntime({ exact: true }) needs none',
    );
  return hostRuntime({ engine });
}
