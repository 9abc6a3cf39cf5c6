import { inTurn } from '@kv/model-testing/in-turn';
import { gpuTests } from './device.ts';
import { embedded, product } from './products.ts';

const gpuTest = await gpuTests();

for (const type of inTurn(['Q5_0', 'Q5_1', 'Q4_K', 'Q5_K', 'Q6_K', 'IQ4_NL', 'MXFP4'] as const, 3))
  gpuTest(`products and embedding rows of ${type}, as it is stored`, async (gpu) => {
    const least = type.endsWith('K') ? 256 : 32;
    for (const [m, outputs, inputs] of [
      [1, 9, least],
      [3, 65, 2 * least],
      [2, 1, 3 * least],
      [9, 64, least],
    ] as const) {
      // few rows, and a tile
      const around = {
        seed: m + inputs,
        m,
        before: 8,
        after: 4,
        bias: false,
        residual: false,
        binding: m === 3 ? 2 ** 13 : 2 ** 30,
      };
      await product(gpu, { inputs, parts: [[type, outputs]] }, around);
      await embedded(gpu, { inputs, parts: [[type, outputs]] }, around);
    }
  });
