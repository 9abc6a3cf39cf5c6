import { OPEN } from '@kv/checkpoints';
import { callback, count, flag, maybe, object, text } from '@kv/core';
import type { OptionValues } from '@kv/core';
import { CACHE } from '@kv/engine';

/** Options of `loadModel`. */
export const LOAD = {
  runtime: object('a runtime', 'Where the model runs.', '`cpuRuntime()`'),
  engine: object('an engine', "What runs the model's programs, with caches on the host.", 'that of `cpuRuntime()`'),
  cache: CACHE,
  ...OPEN,
};

export const CPU = {
  exact: maybe(
    flag(
      false,
      'Compute everything in f32, as comparisons of policies require; otherwise block-quantised weights are multiplied with 8-bit activations.',
    ),
    'true if the file has no quantised weights',
  ),
  threads: maybe(
    count(1, 'threads', 'Threads on the CPU.'),
    'the cores of this machine, at most 8; 1 for a model so small that threads would only wait',
  ),
  from: maybe(
    text('', 'a folder', "Where `onnxruntime-node` is looked for before this package's own."),
    'the working folder',
  ),
  warn: callback<(sentence: string) => void>(
    'Called with one sentence if something other than what was requested runs.',
    'console.warn',
  ),
};
/** Options of `cpuRuntime`. */
export interface CpuOptions extends OptionValues<typeof CPU> {}

/** Options of `onnxRuntime`. */
export const ONNX = { threads: CPU.threads, from: CPU.from };
