import { createInside, families, familyFolder } from '../../packages/create-piece/src/create.mjs';
import { root } from './process.mjs';

export { families, familyFolder };

/** @see createInside */
export const createPiece = (family, name) => createInside(root, family, name);
