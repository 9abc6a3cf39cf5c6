import { applyOn } from '@kv/core';
import { apply } from '@kv/cpu';
import { openGpu } from '@kv/gpu';
import { deviceTests } from '@kv/gpu-testing';
import { kernelLaws } from '@kv/laws';
import { describe, expect } from 'vitest';
import { facilityLocation } from '../src/index.ts';
import { flat, kernels, siteOf } from './sites.ts';

const gpuTest = await deviceTests(openGpu, { release: true });

describe.each(kernels)('the kernel %s', (_, kernel, make) => {
  gpuTest('as its reference on WebGPU', async (backend) => {
    for (const law of Object.values(kernelLaws(kernel, { make, runs: 15, backend }))) await law();
  });
});

gpuTest('keeps on WebGPU what it keeps on the CPU, beyond a workgroup of slots', async (backend) => {
  for (const n of [1, 40, 300]) {
    const site = siteOf(n, 4, n);
    const inputs = { scores: [site.weights], values: flat(site), budget: Math.ceil(n / 4) };
    const { kept } = await applyOn(backend, facilityLocation(), inputs);
    expect(kept).toEqual(apply(facilityLocation(), inputs).kept);
  }
});
