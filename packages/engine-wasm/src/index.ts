export { wasmEngine } from './engine.ts';
export { heapKernels } from './host-kernels.ts';
export { heapProducts } from './host-products.ts';
export type { FastModule, InstructionSet } from './kernels.ts';
export { fastModule, moduleOf, pairedModuleOf } from './module.ts';
export { wasmRuntime } from './runtime.ts';
export { ThreadPool } from './thread-pool.ts';
export { UnsupportedModelError } from './unsupported-model.ts';
