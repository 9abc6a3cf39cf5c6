export type { Gpu, Scope } from './gpu.ts';
export type { Ledger } from './memory.ts';
export { openGpu } from './open.ts';
export type { GpuOptions } from './open.ts';
export type { Counters } from './recorder.ts';
