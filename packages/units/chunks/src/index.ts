export { chunks } from './chunks.ts';
export type { ChunksOptions } from './chunks.ts';
export { entropyGate, placeInChunk } from './entropy-gate.ts';
export type { EntropyGateOptions } from './entropy-gate.ts';
