import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The repository of which this is a part. */
export const repository: string = join(dirname(fileURLToPath(import.meta.url)), '../../..');

/** A text of the shared reference material: `KV_SHARED`, or `shared` beside the repository. */
export function sharedText(path: string): string {
  const full = join(process.env.KV_SHARED ?? join(repository, '../shared'), path);
  if (!existsSync(full))
    throw new Error(`expected the shared fixtures at ${full}: set KV_SHARED or put them beside the repository`);
  return readFileSync(full, 'utf8');
}
