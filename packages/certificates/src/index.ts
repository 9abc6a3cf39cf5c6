export { certificates } from './certificates.ts';
export type { Certificates } from './certificates.ts';
export type { AttentionRow } from './attention-row.ts';
export { fitConstants, readConstants } from './constants.ts';
export type { Constants } from './constants.ts';
export {
  covering,
  fitDecay,
  freezingBound,
  freezingDepth,
  jointBound,
  posteriorBound,
  printedSharingBound,
  quantisedBound,
  roundingVariation,
  sharingBound,
  windowBound,
  windowShare,
} from './design.ts';
export { centroid, coveringRadius, driftBound, driftLoss } from './drift.ts';
export { certificate, droppedMass, heaviest, informationBound, retrievalRatio } from './mass.ts';
export type { Certificate } from './mass.ts';
export type { Drift, Reuse } from './reuse.ts';
export type { Rounding } from './rounding.ts';
export type { LayerBound } from './schedules.ts';
export type { Surrogate } from './surrogate.ts';
export type { Spread, Summary } from './tally.ts';
