export { h2o } from './h2o.ts';
export type { H2oOptions } from './h2o.ts';
export { observed } from './observed.ts';
export type { SumOptions } from './sums.ts';
export { snapkv } from './snapkv.ts';
export type { SnapkvOptions } from './snapkv.ts';
export { streaming } from './streaming.ts';
export { tova } from './tova.ts';
