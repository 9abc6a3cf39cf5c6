export { moments } from './moments.ts';
export { foldedMeans, foldedMoments, recordSize, stretchLogits, stretchValues } from './kernels.ts';
