export { foldInto, nearestKept } from './kernels.ts';
export { merge } from './merge.ts';
