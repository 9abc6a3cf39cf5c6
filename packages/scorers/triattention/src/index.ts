export { calibration } from './calibration.ts';
export type { RotatedQueries } from './calibration.ts';
export { PRE_ROPE_FILE, preRope, preRopeFile, readPreRope } from './pre-rope.ts';
export type { PreRope, Statistics } from './pre-rope.ts';
export { aheadProducts, futureQueryScores } from './future-query-scores.ts';
