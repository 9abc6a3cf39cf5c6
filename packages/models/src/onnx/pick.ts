import { KvError } from '@kv/core';
import { builtin } from '../checkpoint/builtin.ts';
import { cpuRuntime } from '../cpu-runtime.ts';
import { hostRuntime, type HostRunning } from '../host/runtime.ts';
import type { Runtime } from '../sequence/runtime.ts';
import { onnxEngine } from './engine.ts';
import type { Onnx } from './runtime.ts';

export interface ExactOptions {
  /** @defaultValue the cores of this machine, at most 8 */
  readonly threads?: number | undefined;
  /**
   * The folder from which `onnxruntime-node` is looked for, before this package's own. @defaultValue the working folder
   */
  readonly from?: string | undefined;
  /** Told in one sentence what does not run as asked. @defaultValue console.warn */
  readonly warn?: ((sentence: string) => void) | undefined;
}

/** Everything in f32: on ONNX Runtime if `onnxruntime-node` is installed, else on this package's own engine. */
export async function exactRuntime({ threads, from, warn = console.warn }: ExactOptions = {}): Promise<
  Runtime<HostRunning>
> {
  const onnx = installed(from, warn);
  if (onnx === undefined) return cpuRuntime({ exact: true, threads, warn });
  return hostRuntime({
    engine: onnxEngine(onnx, { threads: threads ?? Math.min(8, builtin('node:os').availableParallelism()) }),
  });
}

const NAME = 'onnxruntime-node';

function installed(from: string | undefined, warn: (sentence: string) => void): Onnx | undefined {
  if (typeof process !== 'object' || process.versions?.node === undefined) return undefined;
  const { createRequire } = builtin('node:module'),
    { join } = builtin('node:path');
  for (const base of [join(from ?? process.cwd(), 'index.js'), import.meta.url]) {
    const require = createRequire(base);
    try {
      return require(require.resolve(NAME)) as Onnx;
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code === 'MODULE_NOT_FOUND' && message.includes(`'${NAME}'`)) continue;
      warn(new KvError(NAME, `expected the installed package to load, got: ${message.split('\n')[0]}`).message);
      return undefined;
    }
  }
  return undefined;
}
