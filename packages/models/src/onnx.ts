import type { KvError } from '@kv/core';
import type { OnnxEngineOptions } from '@kv/engine-onnx';
import type { HostEngine } from '@kv/engine';

/**
 * The engine on ONNX Runtime, in Node, where both `@kv/engine-onnx` and `onnxruntime-node` are installed.
 *
 * @param from the folder from which `onnxruntime-node` is looked for first. @defaultValue the working folder
 * @param failed is told why `onnxruntime-node`, if it is installed, does not load
 */
export async function onnxWhereInstalled(
  from: string | undefined,
  failed: (error: KvError) => void,
  options: OnnxEngineOptions,
): Promise<HostEngine | undefined> {
  if (typeof process !== 'object' || process.versions?.node === undefined) return undefined;
  const { installedOnnx, onnxEngine } = await import('@kv/engine-onnx').catch(absent),
    onnx = installedOnnx?.(from, failed);
  return onnx && onnxEngine?.(onnx, options);
}

/** Nothing for a package that is not installed. @throws what else went wrong */
function absent(error: unknown): Partial<typeof import('@kv/engine-onnx')> {
  if ((error as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND') return {};
  throw error;
}
