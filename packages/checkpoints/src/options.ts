import { maybe, text, value } from '@kv/core';
import type { OptionValues } from '@kv/core';
import { DOWNLOAD } from './read/download.ts';
import type { FileBlob } from './read/source.ts';

type Files = readonly string[] | ReadonlyMap<string, FileBlob>;
/** The options of `openCheckpoint`, declared. */
export const OPEN = {
  files: {
    ...value(
      'names, or files by name',
      "Names of a folder's files, for a server that is not to be asked for others; or the files themselves (`File`, `Blob`) by name, read in slices.",
      (x): x is Files => typeof x === 'object' && x !== null,
    ),
    otherwise: 'each is asked for',
  },
  chatTemplate: maybe(text('', 'Jinja', 'Source of a chat template.'), "the checkpoint's own"),
  ...DOWNLOAD,
};
/** Options of `openCheckpoint`. With the files themselves, the model's name is that of the .gguf file, or any other. */
export interface OpenOptions extends OptionValues<typeof OPEN> {}
