import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './process.mjs';

/**
 * Finds files that a package's manifest names and its folder lacks, so that it cannot be published; with a build, its
 * declarations too. @returns {readonly string[]} one sentence per file
 */
export const unbuilt = (folder, { name, exports = {}, bin = {} }) =>
  [...files(exports), ...files(bin)]
    .filter((file) => file.startsWith('./') && !file.includes('*') && !existsSync(join(folder, file)))
    .slice(0, 1)
    .map((file) => `${name} must be built, but ${file} is not there`);

/** Returns every file that `exports` or `bin` of a manifest names, except sources, which only a clone resolves. */
const files = (target) =>
  typeof target === 'string'
    ? [target]
    : Object.entries(target ?? {}).flatMap(([condition, next]) => (condition === '@kv/source' ? [] : files(next)));

/** Returns why a clone cannot be released, in a sentence, or nothing if it can. `status` is git's, in short form. */
export function dirty(status) {
  const lines = status.split('\n').filter((line) => line !== '');
  if (lines.length === 0) return undefined;
  const more = lines.length === 1 ? '' : ` and ${lines.length - 1} more`;
  return `a release must come from a clean clone, but ${lines[0].slice(3)} is changed or not committed${more}: commit it, or put it aside with 'git stash --include-untracked'`;
}

/** Returns the repository address for manifests: `KV_REPOSITORY`, or this clone's origin if that is public. */
export function repository() {
  if (process.env.KV_REPOSITORY) return process.env.KV_REPOSITORY;
  try {
    return webAddress(
      execFileSync('git', ['remote', 'get-url', 'origin'], { cwd: root, encoding: 'utf8', stdio: 'pipe' }),
    );
  } catch {
    return undefined; // not a clone, or one without an origin
  }
}

/** Converts a git remote to the form of manifests; nothing for a folder. */
export function webAddress(remote) {
  const [, host, path] = /^(?:https:\/\/|(?:ssh:\/\/)?git@)([^/:@]+)[/:](.+?)(?:\.git)?\/?$/.exec(remote.trim()) ?? [];
  return host && `git+https://${host}/${path}.git`;
}

/** Tells whether this is a run of GitHub's CI that may sign what it publishes. */
export const signs = (env) => Boolean(env.ACTIONS_ID_TOKEN_REQUEST_URL);
