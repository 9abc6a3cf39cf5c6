import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { KvError } from '@kv/core';
import { saveCache } from '@kv/models';
import type { Sequence } from '@kv/models';

/** Writes a sequence's cache to a file, whole or not at all. */
export async function saveCacheFile(sequence: Sequence, file: string, cwd: string): Promise<void> {
  const path = resolve(cwd, file),
    part = `${path}.${process.pid}.part`,
    bytes = await saveCache(sequence);
  try {
    writeFileSync(part, bytes);
    renameSync(part, path);
  } catch (cause) {
    rmSync(part, { force: true });
    throw new KvError(
      file,
      `expected a file that can be written, got ${(cause as NodeJS.ErrnoException).code ?? String(cause)}`,
    );
  }
}
