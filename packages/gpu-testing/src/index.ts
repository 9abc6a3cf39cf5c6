export { deviceTests, firstDevice, sharedGpu, timeLimit } from './device.ts';
export type { DeviceTest, DeviceTestOptions, TestDevice } from './device.ts';
export { limitedDevice } from './limits.ts';
export type { LowLimits } from './limits.ts';
export { numbers, random } from './numbers.ts';
