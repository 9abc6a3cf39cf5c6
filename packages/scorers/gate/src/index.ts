export { GATE_FILE, gateFile, layerGate, readGate } from './gate-file.ts';
export type { Affine, CompetingGate, LayerGate, RegressionGate } from './gate-file.ts';
export { gate, gateScores } from './gate.ts';
export { competition } from './competition.ts';
export { gelu } from './gelu.ts';
