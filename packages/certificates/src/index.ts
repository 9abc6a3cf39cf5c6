export { certificates } from './certificates.ts';
export type { Certificates, Fading, Run, SeenRow, Spread, Summary } from './certificates.ts';
export { fitDecay, freezingBound, freezingDepth, jointBound, posteriorBound, quantisedBound, sharingBound, windowBound, windowShare } from './design.ts';
export type { Decay } from './design.ts';
export { binaryEntropy, certificate, droppedMass, heaviest, informationBound, retrievalRatio } from './mass.ts';
export type { Certificate } from './mass.ts';
