import { resolve } from 'node:path';
import { checkWritable, writeWhole } from '@kv/evaluation';
import { saveCache } from '@kv/models';
import type { Sequence } from '@kv/models';

/** Writes a sequence's cache to a file that its owner alone can read, whole or not at all. */
export async function saveCacheFile(sequence: Sequence, file: string, cwd: string): Promise<void> {
  writeWhole(resolve(cwd, file), await saveCache(sequence), file, 0o600); // it holds what a person said
}

/** @throws KvError before anything is computed, where the cache could not be written */
export function checkCacheFile(file: string | undefined, cwd: string): void {
  if (file !== undefined) checkWritable(resolve(cwd, file), file);
}
