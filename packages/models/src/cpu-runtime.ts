import { KvError } from '@kv/core';
import { builtin } from './checkpoint/builtin.ts';
import type { ModelConfig } from './checkpoint/config.ts';
import type { Stored } from './checkpoint/tensor-file.ts';
import { linearEngine } from './decoder/linear-engine.ts';
import { hostRuntime, type HostRunning } from './host/runtime.ts';
import { defaultLinear } from './linear/default.ts';
import { referenceLinear } from './linear/reference.ts';
import type { Runtime } from './sequence/runtime.ts';
import { hasSimd } from './simd/kernel.ts';
import { fastModule } from './wasm/module.ts';
import { wasmRuntime } from './wasm/runtime.ts';

export interface CpuOptions {
  /**
   * Everything in f32, as comparisons of policies need it; otherwise weights in blocks of codes meet activations in 8
   * bits. @defaultValue whether the file has no such weights
   */
  readonly exact?: boolean | undefined;
  /** @defaultValue the cores of this machine, at most 8; one for a model so small that threads only wait */
  readonly threads?: number | undefined;
  /** Told in one sentence what runs in the place of what was asked for. @defaultValue console.warn */
  readonly warn?: ((sentence: string) => void) | undefined;
}

/** Bytes of weights that threads share with gain: less is read before they have met. */
const worthThreads = 16 * 2 ** 20;
/** Bytes that a WebAssembly memory has for weights, beside caches and what passes work on. */
const mostBytes = 3.5 * 2 ** 30;

/**
 * This package's own engine: weights as stored, caches and threads in one WebAssembly memory. Where that cannot be,
 * slower engines of this package run, and it is said once.
 */
export function cpuRuntime({ exact, threads, warn = console.warn }: CpuOptions = {}): Runtime<HostRunning> {
  return {
    name: exact === undefined ? 'wasm' : `wasm, ${exact ? 'f32' : 'stored weights'}`,
    async start({ stored, ...source }) {
      const fast = await fastModule(),
        why = fast === undefined ? missing() : refused(source.config, stored);
      if (fast !== undefined && why === undefined)
        return wasmRuntime(fast, {
          exact: exact ?? stored?.quantised !== true,
          threads: threads ?? (stored && stored.bytes < worthThreads ? 1 : cores()),
          warn,
        }).start(source);
      const beyond = fast !== undefined && (stored?.bytes ?? 0) > mostBytes,
        engine = beyond || !hasSimd() ? linearEngine(referenceLinear, 'plain loops, f32') : linearEngine(defaultLinear());
      warn(
        new KvError(
          'engine',
          `expected ${why}; ${engine.name} runs on one thread in its place, ${hasSimd() && !beyond ? 'about 5' : '50 and more'} times slower`,
        ).message,
      );
      return { ...(await hostRuntime({ engine }).start(source)), engine: engine.name };
    },
  };
}

const missing = (): string => `WebAssembly with ${hasSimd() ? 'shared memory' : 'SIMD'}, got none`;

/** Why the engine cannot run a model, if so. */
function refused({ headDim }: ModelConfig, stored: Stored | undefined): string | undefined {
  if (headDim % 4 !== 0) return `heads of a multiple of 4 numbers, got ${headDim}`;
  if (stored && stored.bytes > mostBytes)
    return `weights of at most ${mostBytes / 2 ** 30} GiB, which WebAssembly has room for, got ${(stored.bytes / 2 ** 30).toFixed(1)} GiB`;
  return undefined;
}

/** Threads that this machine runs at once, at most 8. */
function cores(): number {
  const count =
    typeof process === 'object' && process.versions?.node !== undefined
      ? builtin('node:os').availableParallelism()
      : (globalThis.navigator?.hardwareConcurrency ?? 1);
  return Math.min(8, count);
}
