export { chunks } from './chunks.ts';
export { entropyGate } from './entropy-gate.ts';
