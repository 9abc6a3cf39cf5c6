export { fit } from './fit.ts';
export { dualEquations, referenceLogits, solved, spread } from './kernels.ts';
