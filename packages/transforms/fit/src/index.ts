export { fit } from './fit.ts';
export { repeatedQueries } from './repeated-queries.ts';
export { dualEquations, intoSlots, referenceLogits, solved, spread } from './kernels.ts';
