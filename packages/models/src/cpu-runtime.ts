import { KvError } from '@kv/core';
import { expectOptions } from '@kv/core/engine';
import type { ModelConfig, Stored } from '@kv/checkpoints';
import { linearEngine, hostRuntime, type HostRunning, defaultLinear, referenceLinear, hasSimd } from '@kv/engine';
import type { HostEngine, Runtime } from '@kv/engine';
import { onnxWhereInstalled } from './onnx.ts';
import { availableThreads } from './threads.ts';
import { fastModule, wasmRuntime, Unfit } from '@kv/engine-wasm';

export interface CpuOptions {
  /**
   * Everything in f32, as comparisons of policies need it; otherwise weights in blocks of codes meet activations in 8
   * bits. @defaultValue whether the file has no such weights
   */
  readonly exact?: boolean | undefined;
  /** @defaultValue the cores of this machine, at most 8; one for a model so small that threads only wait */
  readonly threads?: number | undefined;
  /**
   * The folder from which `onnxruntime-node` is looked for, before this package's own. @defaultValue the working folder
   */
  readonly from?: string | undefined;
  /** Told in one sentence what runs in the place of what was asked for. @defaultValue console.warn */
  readonly warn?: ((sentence: string) => void) | undefined;
}

/** Bytes of weights that threads share with gain: less is read before they have met. */
const worthThreads = 16 * 2 ** 20;
/** Bytes that a WebAssembly memory has for weights, beside caches and what passes work on. */
const mostBytes = 3.5 * 2 ** 30;

/**
 * This package's own engine: weights as stored, caches and threads in one WebAssembly memory. Where that cannot be,
 * another engine runs, and it is said once.
 */
export function cpuRuntime(options: CpuOptions = {}): Runtime<HostRunning> {
  expectOptions('cpuRuntime', { exact: true, threads: true, from: true, warn: true }, options);
  const { exact, threads, from, warn = console.warn } = options;
  return {
    name: exact === undefined ? 'wasm' : `wasm, ${exact ? 'f32' : 'stored weights'}`,
    async start({ stored, ...source }) {
      const fast = await fastModule(),
        beyond = (stored?.bytes ?? 0) > mostBytes,
        precise = exact ?? stored?.quantised !== true;
      let why = fast === undefined ? missing() : refused(source.config, stored);
      if (fast !== undefined && why === undefined)
        try {
          return await wasmRuntime(fast, {
            exact: precise,
            threads: threads ?? (stored && stored.bytes < worthThreads ? 1 : availableThreads()),
            warn,
          }).start(source);
        } catch (error) {
          if (!(error instanceof Unfit)) throw error;
          ({ why } = error);
        }
      const onnx = beyond
        ? await onnxWhereInstalled(from, warn, {
            threads: threads ?? availableThreads(),
            weights: precise ? 'f32' : 'stored',
          })
        : undefined;
      const engine = onnx ?? general(beyond);
      warn(new KvError('engine', `expected ${why}; ${engine.name} runs in its place${cost(engine.name)}`).message);
      return { ...(await hostRuntime({ engine }).start(source)), engine: engine.name };
    },
  };
}

const plainLoops = 'plain loops, f32, 1 thread',
  byInstruction = 'wasm by instruction, f32, 1 thread';

/** Runs whatever a program says, in f32; weights of any size in plain loops. */
const general = (beyond: boolean): HostEngine =>
  beyond || !hasSimd() ? linearEngine(referenceLinear, plainLoops) : linearEngine(defaultLinear(), byInstruction);

const cost = (name: string): string =>
  name === plainLoops ? ', 50 and more times slower' : name === byInstruction ? ', about 5 times slower' : '';

const missing = (): string => `WebAssembly with ${hasSimd() ? 'shared memory' : 'SIMD'}, got none`;

/** Why the engine cannot run a model, if so. */
function refused({ headDim }: ModelConfig, stored: Stored | undefined): string | undefined {
  if (headDim % 4 !== 0) return `heads of a multiple of 4 numbers, got ${headDim}`;
  if (stored && stored.bytes > mostBytes)
    return `weights of at most ${mostBytes / 2 ** 30} GiB, which WebAssembly has room for, got ${(stored.bytes / 2 ** 30).toFixed(1)} GiB`;
  return undefined;
}
