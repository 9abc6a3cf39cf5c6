import { KvError } from '@kv/core';
import { settleOwn } from '@kv/core/engine';
import { builtin } from '@kv/checkpoints';
import { hostRuntime, referenceEngine } from '@kv/engine';
import type { RunningHostModel, Runtime } from '@kv/engine';
import { fastModule, wasmRuntime, UnsupportedModelError } from '@kv/engine-wasm';
import { onnxWhereInstalled } from './onnx.ts';
import { CPU, type CpuOptions } from './options.ts';
import { availableThreads } from './threads.ts';

/** Bytes of weights from which threads pay off: less is read before they have synchronised. */
const worthThreads = 16 * 2 ** 20;

/**
 * Returns the runtime of this package's own engine: weights as stored, caches and threads in one WebAssembly memory, or
 * more weights than it holds in several. If WebAssembly lacks SIMD, ONNX Runtime runs if it is installed, else plain
 * loops; `warn` is told.
 */
export function cpuRuntime(options: CpuOptions = {}): Runtime<RunningHostModel> {
  const { exact, threads, from, warn = console.warn } = settleOwn('cpuRuntime', CPU, options);
  return {
    name: exact === undefined ? 'wasm' : `wasm, ${exact ? 'f32' : 'stored weights'}`,
    async start({ stored, ...source }) {
      if (stored !== undefined) expectRoom(stored.bytes);
      const fast = await fastModule(),
        precise = exact ?? stored?.quantised !== true;
      let why = 'WebAssembly with SIMD and shared memory, got none';
      if (fast !== undefined)
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

/** Checks, before they are read, that weights fit this machine. @throws KvError if they do not */
function expectRoom(bytes: number): void {
  if (typeof process !== 'object' || process.versions?.node === undefined) return;
  const limit = process.constrainedMemory?.() ?? 0,
    machine = builtin<typeof import('node:os')>('node:os').totalmem(),
    room = limit > 0 ? Math.min(limit, machine) : machine;
  if (bytes <= room) return;
  throw new KvError(
    'model',
    `expected memory for ${bytes} bytes of weights, got ${room} bytes in all: choose a file with fewer bits a weight, or a machine with more memory`,
  );
}
