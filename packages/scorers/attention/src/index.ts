export { h2o } from './h2o.ts';
export { observed } from './observed.ts';
export { snapkv } from './snapkv.ts';
export { streaming } from './streaming.ts';
export { tova } from './tova.ts';
