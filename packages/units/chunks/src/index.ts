export { chunks } from './chunks.ts';
export type { ChunksOptions } from './chunks.ts';
