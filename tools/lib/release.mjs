import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './process.mjs';

/**
 * What the manifest of a package names and its folder lacks, so that it cannot be published; for one with a build
 * also its declarations. @returns {readonly string[]} a sentence each
 */
export const unbuilt = (folder, { name, exports = {}, bin = {} }) =>
  [...files(exports), ...files(bin)]
    .filter((file) => file.startsWith('./') && !file.includes('*') && !existsSync(join(folder, file)))
    .slice(0, 1)
    .map((file) => `${name} must be built, but ${file} is not there`);

/** Every file that `exports` or `bin` of a manifest leads to, but for sources, which only a clone resolves. */
const files = (target) =>
  typeof target === 'string'
    ? [target]
    : Object.entries(target ?? {}).flatMap(([condition, next]) => (condition === '@kv/source' ? [] : files(next)));

/** Why a clone cannot be released as it is, in a sentence; nothing where it can. `status` is git's, in short form. */
export function dirty(status) {
  const lines = status.split('\n').filter((line) => line !== '');
  if (lines.length === 0) return undefined;
  const more = lines.length === 1 ? '' : ` and ${lines.length - 1} more`;
  return `a release must come from a clean clone, but ${lines[0].slice(3)} is changed or not committed${more}: commit it, or put it aside with 'git stash --include-untracked'`;
}

/** Where the sources are, for manifests: `KV_REPOSITORY`, or where this clone is from, unless that is no public place. */
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

/** What git calls a remote, as manifests call it; nothing for a folder. */
export function webAddress(remote) {
  const [, host, path] = /^(?:https:\/\/|(?:ssh:\/\/)?git@)([^/:@]+)[/:](.+?)(?:\.git)?\/?$/.exec(remote.trim()) ?? [];
  return host && `git+https://${host}/${path}.git`;
}

/** Whether this is a run of GitHub's CI that may sign what it publishes. */
export const signs = (env) => Boolean(env.ACTIONS_ID_TOKEN_REQUEST_URL);
