/** Entry for engines on the host, and for tools that measure them. */

export { blockProducts, folds, rowsHeld, TOGETHER } from './block-products.ts';
export type { FoldKind } from './block-products.ts';
export { cpuWith } from './cpu.ts';
export { scratchBytes } from './fastest.ts';
export { plainProducts } from './reduce.ts';
