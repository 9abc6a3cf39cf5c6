import { KvError } from '@kv/core';
import type { OptionValues } from '@kv/core';
import { settleOwn } from '@kv/core/engine';
import { hostRuntime } from '@kv/engine';
import type { RunningHostModel, Runtime } from '@kv/engine';
import { onnxWhereInstalled } from './onnx.ts';
import { ONNX } from './options.ts';
import { availableThreads } from './threads.ts';

/**
 * Returns a runtime that computes everything in f32 on ONNX Runtime.
 * @throws KvError if `@kv/engine-onnx` or `onnxruntime-node` is not installed, or does not load
 */
export async function onnxRuntime(options: OptionValues<typeof ONNX> = {}): Promise<Runtime<RunningHostModel>> {
  const { threads, from } = settleOwn('onnxRuntime', ONNX, options),
    failed = (error: KvError): never => {
      throw error;
    };
  const engine = await onnxWhereInstalled(from, failed, { threads: threads ?? availableThreads() });
  if (engine === undefined)
    throw new KvError(
      'onnxruntime-node',
      'is not installed, or @kv/engine-onnx is not: install both, or leave out the engine: the exact one in f32 needs neither',
    );
  return hostRuntime({ engine });
}
