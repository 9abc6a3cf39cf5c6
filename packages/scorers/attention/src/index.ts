export { h2o } from './h2o.ts';
export { meanAttention } from './mean-attention.ts';
export { snapkv } from './snapkv.ts';
export { streaming } from './streaming.ts';
export { tova } from './tova.ts';
