import { number, object } from '@kv/core';

/** Options of `loadModel`. */
export const LOAD = {
  runtime: object('a runtime', 'Where the model runs.', '`cpuRuntime()`'),
  engine: object('an engine', "What runs the model's programs, with caches on the host.", 'that of `cpuRuntime()`'),
  files: object(
    'names, or files by name',
    "Names of a folder's files, for a server that is not to be asked for others; or the files themselves (`File`, `Blob`) by name, read in slices.",
    'each is asked for',
  ),
  signal: object('an AbortSignal', 'Ends it early.'),
  maxBytes: number(2 ** 32, 'Most bytes of a file.'),
  timeoutMs: number(30_000, 'Milliseconds without a byte after which a server has stopped answering.'),
};
