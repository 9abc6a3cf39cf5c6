export * from '@kv/core';
export * from '@kv/models';
export * from '@kv/policies';
export * from '@kv/policies/pieces';
export { openGpu } from '@kv/gpu';
export { gpuRuntime } from '@kv/engine-webgpu';
export type { OfflineModel, Progress } from '@kv/hub/browser';

// of what several of the above export
export { decode } from '@kv/models';
export { parsePolicy } from '@kv/policies';

export { loadModel, type PageLoadOptions } from './load-model.ts';
export { fetchModel, type PageFetchOptions } from './fetch-model.ts';
export { findGpuRuntime } from './find-gpu-runtime.ts';
