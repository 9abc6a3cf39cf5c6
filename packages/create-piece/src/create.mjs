import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isWord, makeFolder, nameOf, versionsOf } from './template.mjs';

const here = dirname(import.meta.dirname),
  templates = join(here, 'templates'),
  sources = (...names) => names.map((name) => join(templates, name));

/** What a package of its own may hold: families of pieces, and policies of several. */
export const kinds = readdirSync(templates)
  .filter((name) => !['common', 'inside', 'outside'].includes(name))
  .sort();
/** What the repository of kv has packages of: policies stand together in one. */
export const families = kinds.filter((kind) => kind !== 'policies');
/** The folder of a family below `packages`. */
export const familyFolder = (family) => (['folds', 'refits'].includes(family) ? 'transforms' : family);

/**
 * Writes a piece package into the repository of kv, packages/FAMILY/NAME, and nothing else; folds and refits go with transforms.
 * @param {string} root of the repository
 * @returns {string} its folder, relative to the root
 * @throws {Error} with one sentence if the family is unknown, the name is no kebab-case word, or the folder exists.
 */
export function createInside(root, family, name) {
  if (!families.includes(family))
    throw new Error(`the family must be one of ${families.join(', ')}, got ${JSON.stringify(family)}`);
  if (!isWord(name ?? ''))
    throw new Error(`the name must be lower-case words joined by '-', got ${JSON.stringify(name)}`);
  const folder = familyFolder(family);
  expectFree(name, family, camel(name));
  return makeFolder(root, join('packages', folder, name), sources('common', 'inside', family), {
    package: `@kv/${folder}-${name}`,
    name,
    camel: camel(name),
  });
}

/**
 * Writes a package of its own into a folder that is not there yet.
 * @param {string} cwd where the folder goes
 * @param {string} name of the package, `kv-mine` or `@me/kv-mine`; the folder is its last part
 * @param {string} kind
 * @returns {string} the folder, relative to `cwd`
 * @throws {Error} with one sentence if the name cannot be one or the folder exists, or the kind is unknown
 */
export function createOutside(cwd, name, kind) {
  if (!kinds.includes(kind)) throw new Error(`--kind must be one of ${kinds.join(', ')}, got ${JSON.stringify(kind)}`);
  const { scope, word } = nameOf(name),
    // what a policy text calls it: without the prefix that packages have
    called = camel(word.replace(/^kv-(?=[a-z])/, ''));
  expectFree(name, kind, called);
  const made = makeFolder(cwd, word, sources('common', 'outside', kind), {
    package: `${scope}${word}`,
    name: word,
    camel: called,
    year: String(new Date().getFullYear()),
    ...versionsOf(here, 'npm create @kv/piece NAME'),
  });
  // its tables are written by a tool of the repository
  const readme = join(cwd, made, 'README.md');
  writeFileSync(readme, readFileSync(readme, 'utf8').replace(/<!-- (?:begin|end) .*? -->\n/g, ''));
  return made;
}

/** @throws {Error} if no module can declare this: a word of JavaScript, or one that the templates of a kind have */
function expectFree(name, kind, called) {
  const files = [join(templates, 'common'), join(templates, kind)].flatMap((from) =>
    readdirSync(from, { recursive: true, withFileTypes: true }).filter((one) => /\.(?:ts|mjs)$/.test(one.name)),
  );
  const has = ({ parentPath, path, name: file }) =>
    wordsOf(readFileSync(join(parentPath ?? path, file), 'utf8')).has(called);
  if (!isIdentifier(called) || files.some(has))
    throw new Error(
      `the name must be one that code can give a piece, got ${JSON.stringify(name)}, and '${called}' is a word of JavaScript or of the code that a piece begins with`,
    );
}
/** Words of code that may be names: none of comments and texts, and no property. A key may be one, in a destructuring. */
const wordsOf = (code) =>
  new Set(
    code
      .replace(/\/\*[^]*?\*\/|\/\/.*|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`[^`]*`/g, ' ')
      .match(/(?<![\w$]|(?<!\.\.)\.)[a-z]\w*/gi),
  );
function isIdentifier(called) {
  try {
    new Function(`'use strict'; const ${called} = 0;`);
    return called !== 'await';
  } catch {
    return false;
  }
}

/** The name of a piece in code and policy texts. */
export const camel = (name) => name.replace(/-(.)/g, (_, letter) => letter.toUpperCase());
