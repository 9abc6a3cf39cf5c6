import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { root } from './process.mjs';

const templates = join(root, 'tools/templates');
export const families = readdirSync(templates)
  .filter((name) => name !== 'common')
  .sort();

/**
 * Writes a new piece package, packages/FAMILY/NAME, and nothing else.
 * @returns its folder, relative to the root
 * @throws Error with one sentence if the family is unknown, the name is no kebab-case word, or the folder exists.
 */
export function createPiece(family, name) {
  if (!families.includes(family))
    throw new Error(`the family must be one of ${families.join(', ')}, got ${JSON.stringify(family)}`);
  if (!/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name ?? ''))
    throw new Error(`the name must be lower-case words joined by '-', got ${JSON.stringify(name)}`);
  const folder = join('packages', family, name);
  if (existsSync(join(root, folder))) throw new Error(`${folder} must be free, but it exists`);
  const words = {
    __package__: `@kv/${family}-${name}`,
    __name__: name,
    __camel__: name.replace(/-(.)/g, (_, letter) => letter.toUpperCase()),
  };
  const fill = (text) => text.replace(/__(package|name|camel)__/g, (word) => words[word]);
  for (const source of [join(templates, 'common'), join(templates, family)])
    for (const file of files(source)) {
      const target = join(root, folder, fill(relative(source, file)));
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target, fill(readFileSync(file, 'utf8')));
    }
  return folder;
}

const files = (folder) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
