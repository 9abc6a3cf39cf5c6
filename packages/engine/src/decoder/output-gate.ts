import { sigmoid } from './f32.ts';

/** Returns x * sigmoid(gate) of what heads give, x `[m, H * d]`, before the output product, rounded to f32 as everywhere. */
export const gateOutputs = (x: Float32Array, gate: Float32Array): Float32Array =>
  x.map((value, i) => value * sigmoid(gate[i]));
