import { dirname, join } from 'node:path';
import { makeFolder, nameOf, versionsOf } from '@kv/create-piece/template';

const here = dirname(import.meta.dirname);

/**
 * Writes a page with a chat into a folder that is not there yet.
 * @param {string} cwd where the folder goes
 * @param {string} name of the app, with a scope or not; the folder is its last part
 * @returns {string} the folder, relative to `cwd`
 * @throws {Error} with one sentence if the name cannot be one or the folder exists
 */
export function createApp(cwd, name) {
  const { scope, word } = nameOf(name);
  return makeFolder(cwd, word, [join(here, 'templates')], {
    package: `${scope}${word}`,
    name: word,
    ...versionsOf(here, 'npm create @kv/app NAME'),
  });
}
