import type { KvError } from '@kv/core';
import type { OnnxEngineOptions } from '@kv/engine-onnx';
import type { HostEngine } from '@kv/engine';

/**
 * Returns the engine on ONNX Runtime, in Node, if both `@kv/engine-onnx` and `onnxruntime-node` are installed.
 * @param from folder in which `onnxruntime-node` is looked for first; the working folder by default
 * @param failed is called with the error if `onnxruntime-node` is installed but does not load
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

/** Whether an error of importing the package says that it is not installed, rather than that it does not load. */
export const isNotInstalled = ({ code, message }: Error & { readonly code?: string | undefined }): boolean =>
  code === 'ERR_MODULE_NOT_FOUND' && message.startsWith("Cannot find package '@kv/engine-onnx'");

/** Returns an empty object if the package is not installed. @throws any other error */
function absent(error: unknown): Partial<typeof import('@kv/engine-onnx')> {
  if (isNotInstalled(error as Error)) return {};
  throw error;
}
