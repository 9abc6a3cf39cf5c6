/** For what runs models or looks inside one: engines, runtimes, memories, servers, tools. */

export { notJson, parseJson } from './checkpoint/json.ts';
export { attend, lastAttention, windowAttention } from './attention.ts';
export type { Attend, AttendOptions, AttentionStats, WindowOptions } from './attention.ts';
export type { RowEngine, ScoreRows } from './attention/row-engine.ts';
export { layerAttention } from './attention/layer-attention.ts';
export type { LayerAttention } from './attention/layer-attention.ts';
export { plainEngine } from './attention/plain.ts';
export { simdEngine } from './attention/simd.ts';
export type { Visible } from './attention/visible.ts';
export { watchLayers } from './host/watch-layers.ts';
export type { LayerWatch } from './host/watch-layers.ts';
export { LayerCache } from './cache.ts';
export type { CacheView } from './cache.ts';
export { parseConfig } from './checkpoint/config.ts';
export { openCheckpoint } from './checkpoint/load.ts';
export type { Checkpoint } from './checkpoint/load.ts';
export { tensorTypes, toFloat32 } from './checkpoint/tensor-types.ts';
export type { TensorLayout, TensorType } from './checkpoint/tensor-types.ts';
export { dense, matrixOf } from './checkpoint/matrix.ts';
export type { Matrix, MatrixPart } from './checkpoint/matrix.ts';
export { Ledger } from './ledger.ts';
export type { LedgerEntry, LedgerPhase } from './ledger.ts';
export { StopText } from './host/stop-text.ts';
export { sidecarFile } from './checkpoint/sidecar.ts';
export { expectNamed } from './fingerprint.ts';
export { joined } from './joined.ts';
export { Meeting, Seat } from './host/meeting.ts';
export { hostDecoder } from './host/decoder.ts';
export type { HostDecoder, HostRunnable, Projection } from './host/decoder.ts';
export { hostRunning } from './host/runtime.ts';
export { waits } from './host/sequence.ts';
export { stepTogether } from './host/step-together.ts';
export type { Step } from './host/step-together.ts';
export { joinEvents } from './sequence/course.ts';
export type { Course, EventTimes } from './sequence/course.ts';
export type {
  Ahead,
  BatchGroup,
  BatchPlace,
  PendingId,
  AttentionCounters,
  FeedResult,
  FeedOptions,
  Observing,
  Output,
} from './sequence/memory.ts';
export { makeRoom } from './sequence/room.ts';
export { embeddingsOf } from './sequence/runtime.ts';
export { TokenText } from './sequence/text.ts';
export { SequenceMemory } from './sequence/sequence-memory.ts';
export type { MemoryModel, Place } from './sequence/sequence-memory.ts';
export type { LayerSnapshot, Snapshot, StoredState, SumRows } from './sequence/snapshot.ts';
export { asksSeen } from './attention/window-statistic.ts';
export { layersTogether } from './sequence/event-groups.ts';
export { outputNormOf, outputNorms } from './host/output-norms.ts';
export type { OutputNorm } from './host/output-norms.ts';
export { notRemembered, statisticOf, sumRows, watchOf, windowOf } from './host/watch.ts';
export type { Watch } from './host/watch.ts';
export type { Linear, LinearFactory } from './linear/linear.ts';
export { referenceLinear } from './linear/reference.ts';
export { simdLinear } from './linear/simd.ts';
export { shapeWeights } from './checkpoint/weights.ts';
export { createDecoder, expectIds } from './decoder/decoder.ts';
export type { Decoder, DecoderLayer, RowCounts } from './decoder/decoder.ts';
export { linearEngine } from './decoder/linear-engine.ts';
export type { Angles, Engine, Instruction, Program, Rows, Runnable } from './decoder/program.ts';
export { hasSimd } from './simd/kernel.ts';
export { createTokenizer } from './tokenizer.ts';
export { fates, fateText, recorder, traceFile } from './recorder.ts';
export type { Fate, RecordedEvent, Recorder } from './recorder.ts';
