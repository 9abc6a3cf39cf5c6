export { chunks } from './chunks.ts';
export { entropyGate, placeInChunk } from './entropy-gate.ts';
