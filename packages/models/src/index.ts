export { architectures } from './architectures.ts';
export type { Architecture, ArchitectureName } from './architectures.ts';
export { attend, lastAttention, windowAttention } from './attention.ts';
export type { Attend, AttendOptions, AttentionStats, WindowOptions } from './attention.ts';
export { blockRows } from './attention/block-rows.ts';
export { defaultEngine } from './attention/engine.ts';
export type { RowEngine, ScoreRows } from './attention/row-engine.ts';
export { layerAttention } from './attention/layer-attention.ts';
export type { LayerAttention } from './attention/layer-attention.ts';
export { plainEngine } from './attention/plain.ts';
export { simdEngine } from './attention/simd.ts';
export { countBelow } from './cache/count-below.ts';
export type { Visible } from './attention/visible.ts';
export type { Observer, ObservedRow } from './sequence/observer.ts';
export { watchLayers } from './host/watch-layers.ts';
export type { LayerWatch } from './host/watch-layers.ts';
export { LayerCache } from './cache.ts';
export type { CacheView } from './cache.ts';
export { chatTemplate, readChatTemplate } from './chat-template.ts';
export type { ChatMessage, ChatOptions, ChatTemplate, ChatTemplateSources } from './chat-template.ts';
export { parseConfig } from './checkpoint/config.ts';
export type { AttentionConfig, ModelConfig } from './checkpoint/config.ts';
export { configFromGguf } from './checkpoint/gguf-config.ts';
export { openCheckpoint } from './checkpoint/load.ts';
export type { Checkpoint, OpenOptions } from './checkpoint/load.ts';
export type { DownloadOptions } from './checkpoint/download.ts';
export { parseJson } from './checkpoint/json.ts';
export { readGguf } from './checkpoint/gguf.ts';
export type { GgufFile } from './checkpoint/gguf.ts';
export type { GgufMetadata, GgufValue } from './checkpoint/gguf-metadata.ts';
export { openGguf } from './checkpoint/gguf-shards.ts';
export { readSafetensors } from './checkpoint/safetensors.ts';
export { openSafetensors } from './checkpoint/safetensors-shards.ts';
export type { OpenFile } from './checkpoint/safetensors-shards.ts';
export { bytesSource, fileSource, urlSource } from './checkpoint/source.ts';
export type { Source } from './checkpoint/source.ts';
export type { TensorEntry, TensorFile } from './checkpoint/tensor-file.ts';
export { floatRows, notFinite, tensorTypes, toFloat32, weightType } from './checkpoint/tensor-types.ts';
export type { TensorLayout, TensorType } from './checkpoint/tensor-types.ts';
export { dense, matrixOf } from './checkpoint/matrix.ts';
export type { Matrix, MatrixPart } from './checkpoint/matrix.ts';
export type { RopeConfig } from './checkpoint/rope-config.ts';
export { checkpointWeights } from './checkpoint/weights.ts';
export type { CheckpointFormat, FinishWeights, ProjectWeights, Weights } from './checkpoint/weights.ts';
export { Ledger } from './ledger.ts';
export type { LedgerEntry, LedgerPhase } from './ledger.ts';
export { slotsOf } from '@kv/core';
export type { Budget } from '@kv/core';
export { decode, generate } from './host/generate.ts';
export type { Generated, Generation } from './host/generate.ts';
export type { Chunk, DecodeOptions, Finish, GenerateOptions } from './host/options.ts';
export { createPrefixStore } from './host/prefix.ts';
export { StopText } from './host/stop-text.ts';
export type { PrefixOptions, PrefixStore } from './host/prefix.ts';
export { sidecarFile } from './checkpoint/sidecar.ts';
export { hostDecoder } from './host/decoder.ts';
export type { HostDecoder, HostEngine, HostRunnable, Projection } from './host/decoder.ts';
export { hostRunning, hostRuntime } from './host/runtime.ts';
export type { HostOptions, HostRunning } from './host/runtime.ts';
export { report } from './host/report.ts';
export type { Report } from './host/report.ts';
export { Sequence, waits } from './host/sequence.ts';
export type { Bytes, PrefillingOptions, PrefillOptions, SequenceOptions } from './host/sequence.ts';
export { stepTogether } from './host/step-together.ts';
export type { Step } from './host/step-together.ts';
export type { Course, EventResult, EventTimes } from './sequence/course.ts';
export type {
  Ahead,
  BatchGroup,
  BatchPlace,
  PendingId,
  AttentionCounters,
  FeedResult,
  FeedOptions,
  Memory,
  Observing,
  Output,
} from './sequence/memory.ts';
export { makeRoom } from './sequence/room.ts';
export { embeddingsOf } from './sequence/runtime.ts';
export type { MemoryOptions, Model, ModelParts, ModelSource, Running, Runtime } from './sequence/runtime.ts';
export { SequenceMemory } from './sequence/sequence-memory.ts';
export type { MemoryModel, Place } from './sequence/sequence-memory.ts';
export type { LayerSnapshot, Snapshot, StoredState, SumRows } from './sequence/snapshot.ts';
export { asksSeen } from './attention/window-statistic.ts';
export { notRemembered, statisticOf, sumRows, watchOf, windowOf } from './host/watch.ts';
export type { Watch } from './host/watch.ts';
export { defaultLinear } from './linear/default.ts';
export type { Linear, LinearFactory } from './linear/linear.ts';
export { referenceLinear } from './linear/reference.ts';
export { simdLinear } from './linear/simd.ts';
export { createDecoder, expectIds } from './decoder/decoder.ts';
export type { Decoder, DecoderLayer, RowCounts } from './decoder/decoder.ts';
export { linearEngine } from './decoder/linear-engine.ts';
export type { Angles, Engine, Instruction, Program, Rows, Runnable } from './decoder/program.ts';
export { cpuRuntime } from './cpu-runtime.ts';
export type { CpuOptions } from './cpu-runtime.ts';
export { loadModel } from './load-model.ts';
export type { HostModel, LoadOptions, RuntimeOptions } from './load-model.ts';
export { loadCache } from './saved/load.ts';
export type { LoadCacheOptions } from './saved/load.ts';
export { saveCache } from './saved/save.ts';
export { exportOnnx } from './onnx/export/export.ts';
export type { ExportForm, ExportOptions } from './onnx/export/export.ts';
export { onnxEngine } from './onnx/engine.ts';
export type { OnnxEngineOptions } from './onnx/engine.ts';
export { exactRuntime } from './onnx/exact-runtime.ts';
export type { Onnx, OnnxSession, OnnxTensor } from './onnx/runtime.ts';
export { greedy, sampler } from './sampling.ts';
export type { Draw, SamplerOptions } from './sampling.ts';
export { hasSimd } from './simd/kernel.ts';
export { createTokenizer } from './tokenizer.ts';
export type { EncodeOptions, Encoded, StreamDecoder, Tokenizer } from './tokenizer/interface.ts';
export { ggufTokenizer } from './tokenizer/gguf.ts';
