export { shapeCosts, sum } from './costs.ts';
export type { Counting, EventCosts, EventOptions, ShapeCosts, SumCosts } from './costs.ts';
export { encodeAccumulate, encodeAttention, encodeColumns } from './attention.ts';
export type { Attended, AttentionOptions, DeviceAttention } from './attention.ts';
export type { DeviceRunnable, GpuRuntimeOptions } from './engine.ts';
export { encodeLinear } from './linear.ts';
export {
  encodeAdd,
  encodeAppend,
  encodeArgmax,
  encodeCompact,
  encodeEmbedding,
  encodeGated,
  encodeHeads,
  encodeNorm,
  encodeOutputNorms,
  encodeRest,
  encodeSlots,
  encodeSoftcap,
} from './operations.ts';
export type { DeviceAngles, DeviceSlots } from './operations.ts';
export { gpuRuntime } from './runtime.ts';
export type { DeviceRunning } from './runtime.ts';
export { columns, rowsOf } from './rows.ts';
export type { RowView } from './rows.ts';
export { encodeSample } from './sample.ts';
export type { SampleOptions } from './sample.ts';
export { encodeStrongest } from './strongest.ts';
export type { StrongestOptions } from './strongest.ts';
export { encodeTurn } from './rotate.ts';
export { uploadMatrix } from './weights/device-matrix.ts';
export type { DeviceMatrix, DevicePart } from './weights/device-matrix.ts';
export type { Form } from './wgsl/weights.ts';
