import { KvError } from '@kv/core';
import { builtin } from '../checkpoint/builtin.ts';
import { linearEngine } from '../decoder/linear-engine.ts';
import type { HostEngine } from '../host/decoder.ts';
import { defaultLinear } from '../linear/default.ts';
import { onnxEngine } from './engine.ts';
import type { Onnx } from './runtime.ts';

export interface PickOptions {
  /**
   * Every product in f32, as comparisons of policies need it; otherwise quantised weights meet activations in 8 bits.
   * @defaultValue false
   */
  readonly exact?: boolean;
  /** @defaultValue the cores of this machine, at most 8 */
  readonly threads?: number;
  /**
   * The folder from which `onnxruntime-node` is looked for, before this package's own. @defaultValue the working folder
   */
  readonly from?: string;
  /** Told in one sentence if ONNX Runtime is installed and does not load. @defaultValue console.warn */
  readonly warn?: (sentence: string) => void;
}

/** ONNX Runtime if `onnxruntime-node` is installed, or this package's own products. */
export async function pickEngine({
  exact = false,
  threads,
  from,
  warn = console.warn,
}: PickOptions = {}): Promise<HostEngine> {
  const onnx = installed(from, warn);
  if (onnx === undefined) return linearEngine(defaultLinear());
  return onnxEngine(onnx, {
    threads: threads ?? Math.min(8, builtin('node:os').availableParallelism()),
    weights: exact ? 'f32' : 'stored',
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
