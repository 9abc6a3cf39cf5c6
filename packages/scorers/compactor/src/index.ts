export { chunkMass, fromChunks } from './chunk-mass.ts';
export { byEviction } from './by-eviction.ts';
export { leverage, regular } from './leverage.ts';
export { noncausalAttention } from './noncausal-attention.ts';
