import { inputSignalLaws, kernelLaws } from '@kv/laws';
import { gateScores, gelu } from '@kv/scorers-gate';
import type { Affine, LayerGate } from '@kv/scorers-gate';
import { gpuTests } from './device.ts';
import { share } from './differential.ts';

const gpuTest = await gpuTests();
const sines = (count: number, by: number): Float32Array =>
  Float32Array.from({ length: count }, (_, i) => Math.sin(by * (i + 1)));

const affine = (outputs: number, inputs: number, by: number): Affine => ({
  weight: sines(outputs * inputs, by),
  bias: sines(outputs, by / 3),
});
const kinds: Readonly<Record<string, (width: number, kvHeads: number) => LayerGate>> = {
  linear: (width, kvHeads) => ({ width, kvHeads, output: affine(kvHeads, width, 2.3) }),
  'with a hidden map': (width, kvHeads) => ({
    width,
    kvHeads,
    hidden: affine(5, width, 1.7),
    output: affine(kvHeads, 5, 2.3),
  }),
  competing: (width, kvHeads) => ({
    width,
    kvHeads,
    query: affine(kvHeads * 8, width, 1.1),
    key: sines(kvHeads * 4 * width, 0.7),
    gains: { query: sines(4, 0.4), key: sines(4, 0.5) },
    base: sines(kvHeads * 12, 1.9),
    bias: sines(kvHeads * 2, 2.9),
  }),
};

for (const [kind, made] of Object.entries(kinds))
  gpuTest(`a gate, ${kind}, keeps the laws of its kind`, async (gpu) => {
    const laws = inputSignalLaws(gateScores, {
      backend: gpu,
      runs: share(12),
      files: (_, { kvHeads }, width) => made(width, kvHeads),
      tolerance: 1e-4,
    });
    for (const law of Object.values(laws)) await law();
  });

gpuTest('GELU is its reference', async (gpu) => {
  for (const law of Object.values(kernelLaws(gelu, { backend: gpu, runs: share(12) }))) await law();
});
