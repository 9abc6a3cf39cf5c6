import { expectOptions } from '@kv/core/engine';
import { cpuRuntime, type CpuOptions } from './cpu-runtime.ts';
import { availableThreads } from './threads.ts';
import { hostRuntime, type HostRunning } from '@kv/engine';
import type { Runtime } from '@kv/engine';
import { onnxWhereInstalled } from './onnx.ts';

/** Everything in f32: on ONNX Runtime if `@kv/engine-onnx` and `onnxruntime-node` are installed, else on this package's own engine. */
export async function exactRuntime(options: Omit<CpuOptions, 'exact'> = {}): Promise<Runtime<HostRunning>> {
  expectOptions('exactRuntime', { threads: true, from: true, warn: true }, options);
  const { threads, from, warn = console.warn } = options;
  const engine = await onnxWhereInstalled(from, warn, { threads: threads ?? availableThreads() });
  return engine ? hostRuntime({ engine }) : cpuRuntime({ exact: true, threads, from, warn });
}
