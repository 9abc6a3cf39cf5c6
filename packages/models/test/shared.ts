import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const repository = join(dirname(fileURLToPath(import.meta.url)), '../../..');

/** A path in the shared fixtures: `KV_SHARED`, or `shared` beside the repository. */
export function shared(path: string): string {
  const root = process.env.KV_SHARED ?? join(repository, '../shared');
  const full = join(root, path);
  if (!existsSync(full))
    throw new Error(`expected the shared fixtures at ${full}: set KV_SHARED or put them beside the repository`);
  return full;
}

export function sharedJson<T>(path: string): T {
  return JSON.parse(readFileSync(shared(path), 'utf8')) as T;
}
