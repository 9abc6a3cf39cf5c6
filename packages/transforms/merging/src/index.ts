export { cam } from './cam.ts';
export { foldAhead, shareAhead } from './ahead.ts';
export { foldInto, nearestKept } from './kernels.ts';
export { merge } from './merge.ts';
