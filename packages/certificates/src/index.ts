export { certificates } from './certificates.ts';
export type { Certificates, Run } from './certificates.ts';
export type { SeenRow } from './seen-row.ts';
export { fitConstants, readConstants } from './constants.ts';
export type { Constants, Shape } from './constants.ts';
export {
  covering,
  fitDecay,
  freezingBound,
  freezingDepth,
  jointBound,
  posteriorBound,
  printedSharingBound,
  quantisedBound,
  sharingBound,
  windowBound,
  windowShare,
} from './design.ts';
export type { Decay } from './design.ts';
export type { Fading } from './fading.ts';
export { binaryEntropy, certificate, droppedMass, heaviest, informationBound, retrievalRatio } from './mass.ts';
export type { Certificate } from './mass.ts';
export type { Reuse } from './reuse.ts';
export type { LayerBound } from './schedules.ts';
export type { Surrogate } from './surrogate.ts';
export type { Spread, Summary } from './tally.ts';
