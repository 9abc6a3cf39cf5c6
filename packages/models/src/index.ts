export { architectures, chatIds, renderedAfter, renderedIds } from '@kv/checkpoints';
export type {
  Architecture,
  ArchitectureName,
  AttentionConfig,
  ChatMessage,
  ChatOptions,
  ChatTemplate,
  DownloadOptions,
  EncodeOptions,
  TokenEncoding,
  FileBlob,
  ModelConfig,
  OpenOptions,
  RenderedChat,
  RopeConfig,
  StreamDecoder,
  Tokenizer,
  Weights,
} from '@kv/checkpoints';
export {
  Sequence,
  createPrefixStore,
  decode,
  freeObservations,
  generate,
  greedy,
  hostRuntime,
  loadCache,
  sampler,
  saveCache,
  slotScores,
} from '@kv/engine';
export type {
  Bytes,
  Chunk,
  DecodeOptions,
  SamplingRule,
  EventResult,
  Finish,
  GenerateOptions,
  GenerateResult,
  Generation,
  HostEngine,
  HostModel,
  HostOptions,
  RunningHostModel,
  LoadCacheOptions,
  Memory,
  MemoryOptions,
  Model,
  ModelParts,
  ModelSource,
  ObservedRow,
  Observer,
  PrefillOptions,
  PrefillPartsOptions,
  PrefixOptions,
  PrefixStore,
  Report,
  RunningModel,
  Runtime,
  SamplerOptions,
  SequenceOptions,
} from '@kv/engine';
export { slotsOf } from '@kv/core';
export type { Budget } from '@kv/core';
export { cpuRuntime } from './cpu-runtime.ts';
export type { CpuOptions } from './options.ts';
export { onnxRuntime } from './onnx-runtime.ts';
export { loadModel } from './load-model.ts';
export type { LoadOptions, RuntimeOptions } from './load-model.ts';
