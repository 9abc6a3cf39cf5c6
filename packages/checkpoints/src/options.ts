import { number, object, value } from '@kv/core';
import type { OptionValues } from '@kv/core';
import type { FileBlob } from './read/source.ts';

/** Options of fetching a model's files. */
export const DOWNLOAD = {
  signal: object<AbortSignal>('an AbortSignal', 'Ends it early.'),
  maxBytes: number(2 ** 32, 'Most bytes of a file.'),
  timeoutMs: number(30_000, 'Milliseconds without a byte after which a server has stopped answering.'),
};
export interface DownloadOptions extends OptionValues<typeof DOWNLOAD> {}

type Files = readonly string[] | ReadonlyMap<string, FileBlob>;
/** Options of `openCheckpoint`. With the files themselves, the model's name is that of the .gguf file, or any other. */
export const OPEN = {
  files: {
    ...value(
      'names, or files by name',
      "Names of a folder's files, for a server that is not to be asked for others; or the files themselves (`File`, `Blob`) by name, read in slices.",
      (x): x is Files => typeof x === 'object' && x !== null,
    ),
    otherwise: 'each is asked for',
  },
  ...DOWNLOAD,
};
export interface OpenOptions extends OptionValues<typeof OPEN> {}
