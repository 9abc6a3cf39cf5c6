import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { parseArgs } from 'node:util';

const WORD = /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/;

/** Tells whether a text is words in kebab case, short enough for the name of a package. */
export const isWord = (text) => WORD.test(text) && text.length <= 100;

/**
 * Splits the name of a package into its scope, which may be empty, and the word after it.
 * @throws {Error} with one sentence if no package can have the name
 */
export function nameOf(name) {
  const [, scope = '', word = ''] = /^(@[a-z0-9][a-z0-9._-]{0,99}\/)?(.*)$/s.exec(name) ?? [];
  if (!isWord(word))
    throw new Error(
      `the name must be lower-case words joined by '-', after a scope or not, at most 100 characters, got ${JSON.stringify(name.slice(0, 120))}`,
    );
  return { scope, word };
}

/**
 * Makes a folder of files of some templates, the later over the earlier, with `words` for every `__word__` in them.
 * @param {string} under the folder that it goes into
 * @param {string} folder its path from there
 * @param {readonly string[]} sources folders of templates
 * @param {Readonly<Record<string, string>>} words
 * @returns {string} `folder`
 * @throws {Error} with one sentence if it exists; nothing is left of a folder that could not be completed
 */
export function makeFolder(under, folder, sources, words) {
  const made = join(under, folder);
  mkdirSync(dirname(made), { recursive: true });
  try {
    mkdirSync(made);
  } catch (error) {
    throw error.code === 'EEXIST' ? new Error(`${folder} must be free, but it exists`) : error;
  }
  try {
    for (const source of sources) fill(source, made, words);
  } catch (error) {
    rmSync(made, { recursive: true });
    throw error;
  }
  return folder;
}

function fill(source, folder, words) {
  const filled = (text) => text.replace(/__([a-z]+(?::[^_\s"]+)?)__/g, (whole, word) => words[word] ?? whole);
  for (const entry of readdirSync(source, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = join(entry.parentPath, entry.name),
      // npm leaves a .gitignore out of what it publishes, and a package.json within a package is taken for one
      target = join(
        folder,
        filled(relative(source, file))
          .replace(/(^|[/\\])_(?=package\.json$)/, '$1')
          .replace(/(^|[/\\])_gitignore$/, '$1.gitignore'),
      );
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, filled(readFileSync(file, 'utf8')));
  }
}

/**
 * Returns the ranges of the packages that a published package was developed with, as words of templates.
 * @param {string} folder of the package
 * @param {string} command that the published package is for
 */
export function versionsOf(folder, command) {
  const { devDependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const range = (of) => {
    const found = devDependencies[of];
    if (/^(workspace|catalog):/.test(found))
      throw new Error(`${of} must have a version, which only the published package knows: ${command}`);
    return /^\d/.test(found) ? `^${found}` : found;
  };
  return Object.fromEntries(Object.keys(devDependencies).map((of) => [`version:${of}`, range(of)]));
}

/**
 * Runs a command that takes one NAME: prints its help, or what `make` returns; an error is one sentence, and the exit
 * code 2.
 * @param {string} called the command's name in errors
 * @param {string} help
 * @param {(name: string, options: Readonly<Record<string, string>>) => string} make
 * @param {import('node:util').ParseArgsConfig['options']} [options]
 */
export function runWithName(called, help, make, options = {}) {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: { ...options, help: { type: 'boolean', short: 'h' } },
    });
    if (!values.help && positionals.length !== 1)
      throw new Error(`expected one NAME, got ${positionals.length}; --help says more`);
    console.log(values.help ? help : make(positionals[0], values));
  } catch (error) {
    console.error(`${called}: ${error.message}`);
    process.exitCode = 2;
  }
}
