import type { Backend } from '@kv/core';
import { openGpu } from '@kv/gpu';
import { deviceTests } from '@kv/gpu-testing';

const gpuTest = await deviceTests(() => openGpu(), { release: true });
/** A test on a device, where there is one. */
export const onDevice = (name: string, run: (backend: Backend) => Promise<void>): void => gpuTest(name, run);
