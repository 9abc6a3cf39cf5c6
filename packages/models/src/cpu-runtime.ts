import { KvError } from '@kv/core';
import { settleOwn } from '@kv/core/engine';
import type { CheckpointSize } from '@kv/checkpoints';
import { hostRuntime, referenceEngine } from '@kv/engine';
import type { RunningHostModel, Runtime } from '@kv/engine';
import { fastModule, wasmRuntime, UnsupportedModelError } from '@kv/engine-wasm';
import { onnxWhereInstalled } from './onnx.ts';
import { CPU, type CpuOptions } from './options.ts';
import { availableThreads } from './threads.ts';

/** Bytes of weights from which threads pay off: less is read before they have synchronised. */
const worthThreads = 16 * 2 ** 20;
/** Maximum bytes of weights in a WebAssembly memory, which also holds caches and the working buffers of passes. */
const mostBytes = 3.5 * 2 ** 30;

/**
 * Returns the runtime of this package's own engine: weights as stored, caches and threads in one WebAssembly memory. If
 * WebAssembly lacks SIMD, or the memory cannot hold the weights, ONNX Runtime runs if it is installed, else plain
 * loops; `warn` is told.
 */
export function cpuRuntime(options: CpuOptions = {}): Runtime<RunningHostModel> {
  const { exact, threads, from, warn = console.warn } = settleOwn('cpuRuntime', CPU, options);
  return {
    name: exact === undefined ? 'wasm' : `wasm, ${exact ? 'f32' : 'stored weights'}`,
    async start({ stored, ...source }) {
      const fast = await fastModule(),
        precise = exact ?? stored?.quantised !== true;
      let why = fast === undefined ? 'WebAssembly with SIMD and shared memory, got none' : tooLarge(stored);
      if (fast !== undefined && why === undefined)
        try {
          return await wasmRuntime(fast, {
            exact: precise,
            threads: threads ?? (stored && stored.bytes < worthThreads ? 1 : availableThreads()),
            warn,
          }).start(source);
        } catch (error) {
          if (!(error instanceof UnsupportedModelError)) throw error;
          ({ why } = error);
        }
      const onnx = await onnxWhereInstalled(from, ({ message }) => warn(message), {
          threads: threads ?? availableThreads(),
          weights: precise ? 'f32' : 'stored',
        }),
        engine = onnx ?? referenceEngine(),
        cost = onnx === undefined ? ', 50 and more times slower' : '';
      warn(new KvError('engine', `expected ${why}; ${engine.name} runs instead${cost}`).message);
      return { ...(await hostRuntime({ engine }).start(source)), engine: engine.name };
    },
  };
}

/** Returns why the module's memory cannot hold a model, or undefined if it can. */
function tooLarge(stored: CheckpointSize | undefined): string | undefined {
  if (stored === undefined || stored.bytes <= mostBytes) return undefined;
  const gigabytes = (bytes: number): string => (bytes / 2 ** 30).toFixed(1);
  return `weights of at most ${gigabytes(mostBytes)} GiB, which WebAssembly has room for, got ${gigabytes(stored.bytes)} GiB`;
}
