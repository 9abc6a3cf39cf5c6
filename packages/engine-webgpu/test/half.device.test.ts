import { expect } from 'vitest';
import { gpuRuntime } from '../src/index.ts';
import { gpuTests } from './device.ts';
import { product } from './products.ts';

const gpuTest = await gpuTests();

gpuTest('tiles in f16 where the adapter has them, else a sentence', async (gpu) => {
  if (!gpu.device.features.has('shader-f16')) {
    expect(process.env['KV_REQUIRE_F16'], 'this adapter has no shader-f16').not.toBe('1'); // set by .ci/full.d/lavapipe
    expect(() => gpuRuntime(gpu, { half: true })).toThrow(
      /^gpuRuntime: expected an adapter with shader-f16 for half, got ./,
    );
    return;
  }
  expect(gpuRuntime(gpu, { half: true }).name).toMatch(/, f16$/);
  for (const [type, m, outputs, inputs] of [
    ['F32', 9, 1, 8],
    ['F32', 65, 63, 264],
    ['Q4_K', 64, 65, 512],
  ] as const) // one variant each: software adapters compile them for seconds
    await product(
      gpu,
      { inputs, parts: [[type, outputs]] },
      { seed: m, m, before: 4, after: 0, bias: false, residual: false, binding: 2 ** 30, half: true },
    );
});
