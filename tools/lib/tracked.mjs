import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './process.mjs';

const git = (...args) => execFileSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 28 });

/**
 * Returns every tracked file that `wanted` accepts, as `{ path, text }`: from the working tree, or from the commit
 * `ref`.
 */
export function tracked(wanted, ref) {
  const paths = ref ? git('ls-tree', '-rz', '--name-only', ref) : git('ls-files', '-z');
  return paths
    .split('\0')
    .filter((path) => path && wanted(path))
    .flatMap((path) => {
      try {
        return [{ path, text: ref ? git('show', `${ref}:${path}`) : readFileSync(join(root, path), 'utf8') }];
      } catch (error) {
        if (error.code === 'ENOENT') return []; // deleted, but not yet in the index
        throw error;
      }
    });
}
