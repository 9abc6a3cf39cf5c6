export { chunks } from './chunks.ts';
export { eachChunk, withChunk } from './each-chunk.ts';
export { entropyGate } from './entropy-gate.ts';
