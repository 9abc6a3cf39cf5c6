import { inputSignalLaws, kernelLaws } from '@kv/laws';
import { gateScores, gelu } from '@kv/scorers-gate';
import { gpuTests } from './device.ts';
import { share } from './differential.ts';

const gpuTest = await gpuTests();
const sines = (count: number, by: number): Float32Array =>
  Float32Array.from({ length: count }, (_, i) => Math.sin(by * (i + 1)));

for (const units of [0, 5])
  gpuTest(`a gate ${units > 0 ? 'with a hidden map' : 'that is linear'} keeps the laws of its kind`, async (gpu) => {
    const laws = inputSignalLaws(gateScores, {
      backend: gpu,
      runs: share(12),
      files: (_, { kvHeads }, width) => ({
        width,
        kvHeads,
        ...(units > 0 && { hidden: { weight: sines(units * width, 1.7), bias: sines(units, 0.3) } }),
        output: { weight: sines(kvHeads * (units || width), 2.3), bias: sines(kvHeads, 0.9) },
      }),
    });
    for (const law of Object.values(laws)) await law();
  });

gpuTest('GELU is its reference', async (gpu) => {
  for (const law of Object.values(kernelLaws(gelu, { backend: gpu, runs: share(12) }))) await law();
});
