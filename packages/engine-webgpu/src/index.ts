export { shapeCosts, sum } from './costs.ts';
export type { CostRecorder, EventCosts, EventCostOptions, ShapeCosts, SumCosts } from './costs.ts';
export type { DeviceRunnable, GpuRuntimeOptions } from './engine.ts';
export { gpuRuntime } from './runtime.ts';
export type { RunningDeviceModel } from './runtime.ts';

// for measurements of products only
export { encodeLinear } from './linear.ts';
export { rowsOf } from './rows.ts';
export type { DeviceRowView } from './rows.ts';
export { uploadMatrix } from './weights/device-matrix.ts';
export type { DeviceMatrix, DevicePart } from './weights/device-matrix.ts';
export type { WeightFormat } from './wgsl/weights.ts';
