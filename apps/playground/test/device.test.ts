import { afterEach, expect, test, vi } from 'vitest';
import { openComputer } from '../src/worker/device.ts';

afterEach(() => {
  vi.unstubAllGlobals();
});

test('an adapter that tells nothing of itself, and gives no device: the CPU, with the reason', async () => {
  const requestDevice = (): Promise<never> => Promise.reject(new DOMException('no device'));
  vi.stubGlobal('navigator', {
    gpu: { requestAdapter: async () => ({ limits: {}, features: new Set(), requestDevice }) },
  });
  const { opened } = await openComputer('auto');
  expect(opened).toMatchObject({ device: 'cpu' });
  expect(opened.because).toBe(
    'the adapter unnamed adapter gave no device: gpu: webgpu gave no device (no device): an adapter gives one, once; request another adapter',
  );
});
