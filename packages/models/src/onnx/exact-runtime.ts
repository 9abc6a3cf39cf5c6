import { expectOptions } from '@kv/core/engine';
import { cpuRuntime, type CpuOptions } from '../cpu-runtime.ts';
import { availableThreads } from '../threads.ts';
import { hostRuntime, type HostRunning } from '../host/runtime.ts';
import type { Runtime } from '../sequence/runtime.ts';
import { onnxEngine } from './engine.ts';
import { installedOnnx } from './installed.ts';

/** Everything in f32: on ONNX Runtime if `onnxruntime-node` is installed, else on this package's own engine. */
export async function exactRuntime(options: Omit<CpuOptions, 'exact'> = {}): Promise<Runtime<HostRunning>> {
  expectOptions('exactRuntime', { threads: true, from: true, warn: true }, options);
  const { threads, from, warn = console.warn } = options;
  const onnx = installedOnnx(from, warn);
  if (onnx === undefined) return cpuRuntime({ exact: true, threads, from, warn });
  return hostRuntime({ engine: onnxEngine(onnx, { threads: threads ?? availableThreads() }) });
}
