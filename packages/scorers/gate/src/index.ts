export { GATE_FILE, gateFile, layerGate, readGate } from './gate-file.ts';
export type { Affine, LayerGate } from './gate-file.ts';
export { gate, gateScores } from './gate.ts';
export { gelu } from './gelu.ts';
