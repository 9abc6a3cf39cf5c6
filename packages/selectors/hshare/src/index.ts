export { sharedSets } from './hshare.ts';
export { leaders, overlaps, rowsOfLeaders } from './heads.ts';
export { layerOverlaps, listed, ofLayer } from './layers.ts';
