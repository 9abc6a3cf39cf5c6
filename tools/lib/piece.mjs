import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { camel, createInside, families, familyFolder } from '../../packages/create-piece/src/create.mjs';
import { published } from './manifests.mjs';
import { root } from './process.mjs';

export { families, familyFolder };

/**
 * @see createInside
 * @throws {Error} also for a name that a piece of the repository has: a policy text calls pieces by name
 */
export function createPiece(family, name) {
  const called = typeof name === 'string' ? camel(name) : undefined,
    owner = published().find(({ folder }) => pieceNames(folder).includes(called));
  if (owner) throw new Error(`the name must be of no other piece, but ${owner.folder} has '${called}'`);
  return createInside(root, family, name);
}

/** Pieces of a package, as its README lists them. */
const pieceNames = (folder) =>
  [...readFileSync(join(root, folder, 'README.md'), 'utf8').matchAll(/^\| \*\*`(\w+)`\*\*/gm)].map(([, name]) => name);
