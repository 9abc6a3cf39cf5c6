import type { KvError } from '@kv/core';
import type * as Onnx from '@kv/engine-onnx';
import type { HostEngine } from '@kv/engine';

/**
 * Returns the engine on ONNX Runtime, in Node, if both `@kv/engine-onnx` and `onnxruntime-node` are installed.
 * @param from folder in which `onnxruntime-node` is looked for first; the working folder by default
 * @param failed is called with the error if `onnxruntime-node` is installed but does not load
 */
export async function onnxWhereInstalled(
  from: string | undefined,
  failed: (error: KvError) => void,
  options: Onnx.OnnxEngineOptions,
): Promise<HostEngine | undefined> {
  if (typeof process !== 'object' || process.versions?.node === undefined) return undefined;
  let onnxPackage: typeof Onnx;
  try {
    onnxPackage = await import('@kv/engine-onnx'); // inside `try`, webpack builds without it too
  } catch (error) {
    if (isNotInstalled(error as Error)) return undefined;
    throw error;
  }
  const onnx = onnxPackage.installedOnnx(from, failed);
  return onnx && onnxPackage.onnxEngine(onnx, options);
}

/** Whether an error of importing the package, in Node or from a bundler, says that it is not installed. */
export const isNotInstalled = ({ code, message }: Error & { readonly code?: string | undefined }): boolean =>
  (code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND') &&
  /^Cannot find (?:package|module) '@kv\/engine-onnx'/.test(message);
