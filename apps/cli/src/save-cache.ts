import { resolve } from 'node:path';
import { checkWritable, writeWhole } from '@kv/evaluation/files';
import { saveCache } from '@kv/models';
import type { Sequence } from '@kv/models';

/** Writes a sequence's cache atomically to a file that only its owner can read. */
export async function saveCacheFile(sequence: Sequence, file: string, cwd: string): Promise<void> {
  writeWhole(resolve(cwd, file), await saveCache(sequence), file, 0o600); // it contains the user's text
}

/** Checks, before anything is computed, that the cache can be written. @throws KvError if not */
export function checkCacheFile(file: string | undefined, cwd: string): void {
  if (file !== undefined) checkWritable(resolve(cwd, file), file);
}
