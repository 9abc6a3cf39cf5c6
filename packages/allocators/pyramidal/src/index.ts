export { pyramidal } from './pyramidal.ts';
export { pyramidkv } from './pyramidkv.ts';
