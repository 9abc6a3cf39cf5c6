import { sigmoid } from './f32.ts';

/**
 * Returns x * sigmoid(gate) of what heads give, x `[m, H * d]`, before the output product, rounded to f32 as everywhere; gates
 * `[m, H * d]`, or `[m, H]`, one for all numbers of a head.
 */
export function gateOutputs(x: Float32Array, gate: Float32Array): Float32Array {
  const run = x.length / gate.length,
    open = gate.map(sigmoid);
  return x.map((value, i) => value * open[Math.floor(i / run)]);
}
