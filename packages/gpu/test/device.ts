import { deviceTests, firstDevice } from '@kv/gpu-testing';
import type { DeviceTest } from '@kv/gpu-testing';
import { openGpu } from '../src/index.ts';
import type { Gpu } from '../src/index.ts';

/** Opens a device, or returns undefined if there is none; with KV_REQUIRE_GPU=1 that is a failure. */
export const testGpu = (): Promise<Gpu | undefined> => firstDevice(() => openGpu());

/** A `test` that is given the file's device; its tensors are released after it. */
export const gpuTests = (): Promise<DeviceTest<Gpu>> => deviceTests(openGpu, { release: true });
