import { kernelLaws } from '@kv/laws';
import { outputNorms } from '@kv/engine';
import { gpuTests } from './device.ts';

const gpuTest = await gpuTests();

for (const p of [1, 2])
  gpuTest(`output norms of a host's cache on a device, p = ${p}`, async (gpu) => {
    const numbers = (shape: readonly number[], by: number) => ({
      data: Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => Math.sin(i * by)),
      shape,
    });
    for (const law of Object.values(
      kernelLaws(outputNorms, {
        backend: gpu,
        runs: 5,
        make: ({ rows, slots, lengths }) => ({
          inputs: { values: { ...numbers([rows, slots, 3], 5), lengths }, weight: numbers([7, 2 * rows * 3], 3) },
          params: { p },
        }),
      }),
    ))
      await law();
    gpu.release();
  });
