import { KvError } from '@kv/core';
import { builtin } from '@kv/checkpoints';
import type { Onnx } from './runtime.ts';

const NAME = 'onnxruntime-node';

/**
 * Returns ONNX Runtime, if `onnxruntime-node` is found from a folder or from this package; `failed` is called if it
 * does not load.
 */
export function installedOnnx(from: string | undefined, failed: (error: KvError) => void): Onnx | undefined {
  if (typeof process !== 'object' || process.versions?.node === undefined) return undefined;
  const { createRequire } = builtin<typeof import('node:module')>('node:module'),
    { join } = builtin<typeof import('node:path')>('node:path');
  for (const base of [join(from ?? process.cwd(), 'index.js'), import.meta.url]) {
    const require = createRequire(base);
    try {
      return require(require.resolve(NAME)) as Onnx;
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code === 'MODULE_NOT_FOUND' && message.includes(`'${NAME}'`)) continue;
      failed(new KvError(NAME, `is installed but did not load: ${message.split('\n')[0]}`));
      return undefined;
    }
  }
  return undefined;
}
