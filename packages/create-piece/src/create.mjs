import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';

const here = dirname(import.meta.dirname),
  templates = join(here, 'templates');

/** What a package of its own may hold: families of pieces, and policies of several. */
export const kinds = readdirSync(templates)
  .filter((name) => !['common', 'inside', 'outside'].includes(name))
  .sort();
/** What the repository of kv has folders for: policies stand together in one package. */
export const families = kinds.filter((kind) => kind !== 'policies');

const WORD = /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/;

/**
 * Writes a piece package into the repository of kv, packages/FAMILY/NAME, and nothing else.
 * @param {string} root of the repository
 * @returns {string} its folder, relative to the root
 * @throws {Error} with one sentence if the family is unknown, the name is no kebab-case word, or the folder exists.
 */
export function createInside(root, family, name) {
  if (!families.includes(family))
    throw new Error(`the family must be one of ${families.join(', ')}, got ${JSON.stringify(family)}`);
  if (!WORD.test(name ?? ''))
    throw new Error(`the name must be lower-case words joined by '-', got ${JSON.stringify(name)}`);
  const folder = join('packages', family, name);
  if (existsSync(join(root, folder))) throw new Error(`${folder} must be free, but it exists`);
  write(['common', 'inside', family], join(root, folder), {
    package: `@kv/${family}-${name}`,
    name,
    camel: camel(name),
  });
  return folder;
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
  const [, scope = '', word = ''] = /^(@[a-z0-9][a-z0-9._-]*\/)?(.*)$/.exec(name ?? '') ?? [];
  if (!kinds.includes(kind)) throw new Error(`--kind must be one of ${kinds.join(', ')}, got ${JSON.stringify(kind)}`);
  if (!WORD.test(word))
    throw new Error(
      `the name must be lower-case words joined by '-', after a scope or not, got ${JSON.stringify(name)}`,
    );
  const folder = join(cwd, word);
  if (existsSync(folder)) throw new Error(`${word} must be free, but it exists`);
  write(['common', 'outside', kind], folder, {
    package: `${scope}${word}`,
    name: word,
    // what a policy text calls it: without the prefix that packages have
    camel: camel(word.replace(/^kv-(?=[a-z])/, '')),
    year: String(new Date().getFullYear()),
    ...versions(),
  });
  return basename(folder);
}

const camel = (name) => name.replace(/-(.)/g, (_, letter) => letter.toUpperCase());

/** Ranges of the packages that this one was published with. */
function versions() {
  const { devDependencies } = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'));
  const range = (of) => {
    const found = devDependencies[of];
    if (/^(workspace|catalog):/.test(found))
      throw new Error(`${of} must have a version, which only the published package knows: npm create @kv/piece NAME`);
    return /^\d/.test(found) ? `^${found}` : found;
  };
  return Object.fromEntries(Object.keys(devDependencies).map((of) => [`version:${of}`, range(of)]));
}

/** Files of some templates, the later over the earlier, with words in the place of `__word__`. */
function write(sources, folder, words) {
  const fill = (text) => text.replace(/__([a-z]+(?::[^_\s"]+)?)__/g, (whole, word) => words[word] ?? whole);
  for (const source of sources.map((name) => join(templates, name)))
    for (const entry of readdirSync(source, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const file = join(entry.parentPath, entry.name),
        // npm leaves a .gitignore out of what it publishes, and a package.json within a package is taken for one
        target = join(
          folder,
          fill(relative(source, file))
            .replace(/(^|[/\\])_(?=package\.json$)/, '$1')
            .replace(/(^|[/\\])_gitignore$/, '$1.gitignore'),
        );
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target, fill(readFileSync(file, 'utf8')));
    }
}
