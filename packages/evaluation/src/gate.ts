export { FIT_GATE, fitGate } from './gate/fit-gate.ts';
export type { FitGateOptions, FittedGate } from './gate/fit-gate.ts';
export type { NamedText } from './gate/stretches.ts';
