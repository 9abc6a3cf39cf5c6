import { existsSync } from 'node:fs';
import { join } from 'node:path';

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
  return `a release must come from a clean clone, but ${lines[0].slice(3)} is changed or not committed${more}`;
}

/**
 * Where a run of GitHub's CI may sign what it publishes: what npm wants to know of a package for its statement of
 * provenance, the repository. Nothing elsewhere.
 */
export function provenanceOf({ ACTIONS_ID_TOKEN_REQUEST_URL: signs, GITHUB_SERVER_URL: host, GITHUB_REPOSITORY: of }) {
  if (!signs || !host || !of) return undefined;
  return (directory) => ({ type: 'git', url: `git+${host}/${of}.git`, directory });
}
