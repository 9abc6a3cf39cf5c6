export { sharedSets } from './hshare.ts';
export { leaders, overlaps, rowsOfLeaders } from './heads.ts';
export { layerOverlaps, listKernel, ofLayer } from './layers.ts';
