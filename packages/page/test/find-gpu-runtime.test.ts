import { afterEach, expect, test, vi } from 'vitest';
import { findGpuRuntime } from '../src/find-gpu-runtime.ts';

afterEach(() => {
  vi.unstubAllGlobals();
});

test('an adapter that tells nothing of itself, and gives no device: no runtime', async () => {
  const requestDevice = vi.fn(() => Promise.reject(new DOMException('no device')));
  vi.stubGlobal('navigator', {
    gpu: { requestAdapter: async () => ({ limits: {}, features: new Set(), requestDevice }) },
  });
  expect(await findGpuRuntime()).toBe(undefined);
  expect(requestDevice).toHaveBeenCalledTimes(1);
});
