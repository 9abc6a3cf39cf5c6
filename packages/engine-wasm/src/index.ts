export { wasmEngine } from './engine.ts';
export { heapKernels } from './host-kernels.ts';
export { heapProducts } from './host-products.ts';
export type { FastModule, Form } from './kernels.ts';
export { fastModule, moduleOf, pairedModuleOf } from './module.ts';
export { wasmRuntime } from './runtime.ts';
export { Team } from './team.ts';
export { Unfit } from './unfit.ts';
