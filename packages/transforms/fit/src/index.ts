export { fit } from './fit.ts';
export { dualEquations, intoSlots, referenceLogits, solved, spread } from './kernels.ts';
