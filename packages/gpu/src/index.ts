export type { Commands } from './encode.ts';
export type { Gpu, OpenScope, Scope } from './gpu.ts';
export type { Ledger } from './memory.ts';
export { openGpu } from './open.ts';
export type { GpuOptions } from './open.ts';
export type { Counters } from './recorder.ts';
export { bits, shaderText } from './shader-text.ts';
export type { Shader } from './shader-text.ts';
export type { Timing } from './timer.ts';
