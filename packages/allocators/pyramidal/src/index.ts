export { pyramidal } from './pyramidal.ts';
export { pyramidkv } from './pyramidkv.ts';
export type { PyramidkvOptions } from './pyramidkv.ts';
