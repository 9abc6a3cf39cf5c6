export { commonHeads, headDims, headsOf, slotHeads, slotRows } from '@kv/checkpoints';
export type { Heads, KvHeads } from '@kv/checkpoints';
export { addColumns, attend, headCount, lastAttention, windowAttention } from './attention/attention.ts';
export type { Attend, AttendOptions, AttentionStats, WindowColumns } from './attention/attention.ts';
export { blockRows } from './attention/block-rows.ts';
export { layerAttention } from './attention/layer-attention.ts';
export { plainEngine } from './attention/plain.ts';
export type { RowEngine } from './attention/row-engine.ts';
export { hider, listShown } from './attention/visible.ts';
export type { SlotMasker, SlotVisibility } from './attention/visible.ts';
export { countsVisible } from './attention/window-statistic.ts';
export { LayerCache } from './cache/layer-cache.ts';
export type { CacheView } from './cache/layer-cache.ts';
export { hostStore, inForm, planesOf, storageOfRecords } from './cache/storage.ts';
export type { Storage, StorageShape, Store } from './cache/storage.ts';
export { LEVEL_SHIFT } from './cache/record-rows.ts';
export {
  levelOf,
  levelsOf,
  MOST_RECORD_BYTES,
  recordBytes,
  recordsOf,
  storeRecords,
} from './cache/records.ts';
export { plainRows } from './cache/cache-rows.ts';
export { roundingAfter } from './cache/rounding.ts';
export type { CachePart, CacheRows, Records } from './cache/cache-rows.ts';
export { CACHE } from './options.ts';
export {
  expectLevelsFit,
  foldedBytes,
  givesBiases,
  movesTogether,
  policySizes,
  slotSizes,
} from './cache/slot-sizes.ts';
export {
  cacheForms,
  movedForm,
  storedForms,
  expectLevels,
  fitsHeads,
  formOf,
  keyValueBytes,
  levelsIn,
  rowBytes,
  slotBytes,
  tokenBytes,
} from './cache/form.ts';
export type { CacheForm, RowForm, StorageForm } from './cache/form.ts';
export { createRows, decodeRows, encodeRows, floats, fromHalf, roundingBound, toHalf } from './cache/encode.ts';
export type { Rows } from './cache/encode.ts';
export { rotator } from './cache/rotate.ts';
export { Chat } from './chat/chat.ts';
export type { ChatAnswer, ChatRetention } from './chat/chat.ts';
export type { ChatSettings, ChatRetainOptions, SendOptions } from './chat/chat-options.ts';
export { afterAnswer, lineTurns, templateTurns } from './chat/turns.ts';
export type { ChatTurns } from './chat/turns.ts';
export { angleFrequencies, createAngles } from './decoder/angles.ts';
export { createDecoder, layerInputs } from './decoder/decoder.ts';
export { expectKept } from './generate/policies.ts';
export { expectIds, expectModel } from './expect-given.ts';
export type { Decoder, DecoderLayer } from './decoder/decoder.ts';
export { gateRows, gatherRows, routeRows, rowsByExpert } from './decoder/experts.ts';
export type { ChosenExperts, ExpertNumbers, ExpertRows } from './decoder/experts.ts';
export { toHeads, turnRows } from './decoder/heads.ts';
export { joinHeads, pickHeads, readersOf } from './decoder/joined-heads.ts';
export { joinedHeads, keptLayers, slotModel, stateBytes } from './decoder/keeps.ts';
export type { Keeps, KeptLayers, SlotReader } from './decoder/keeps.ts';
export { referenceEngine } from './decoder/linear-engine.ts';
export { valuesRead } from './decoder/program.ts';
export type {
  Angles,
  Engine,
  HeadLayout,
  Instruction,
  PreparedProgram,
  Program,
  RowsValue,
  Runnable,
} from './decoder/program.ts';
export { finishProgram, headProgram, projectProgram } from './decoder/programs.ts';
export { rmsNorm } from './decoder/rows.ts';
export { deltaRule, gatedDelta } from './decoder/gated-delta.ts';
export type { DeltaRule } from './decoder/gated-delta.ts';
export { gateOutputs } from './decoder/output-gate.ts';
export { shortConvolution } from './decoder/short-convolution.ts';
export { spaceRule, stateSpace } from './decoder/state-space.ts';
export type { SpaceRule } from './decoder/state-space.ts';
export type { ConvolutionKernel } from './decoder/short-convolution.ts';
export { decodeTogether } from './generate/decode-together.ts';
export type { Continuation } from './generate/decode-together.ts';
export { decode, generate } from './generate/generate.ts';
export type { GenerateResult } from './generate/generate.ts';
export { answerGrammar } from './generate/answer-grammar.ts';
export type { Constraint, Grammar } from './generate/constraint.ts';
export type { AnswerForm } from '@kv/grammars';
export type { Generation } from './generate/generation.ts';
export { decodingPolicy } from './generate/policies.ts';
export { createPrefixStore, forkPrefix, isLong, longestPrefix, snapshotsOfPrefix } from './generate/prefix-store.ts';
export type { PrefixOptions, PrefixStore } from './generate/prefix-store.ts';
export { isPlace, missingParts, placesOf, PROTECT, protectedSpans, textOfProtected } from './generate/protect.ts';
export type { ProtectedPart, ProtectedPrompt } from './generate/protect.ts';
export { report } from './generate/report.ts';
export type { Report } from './generate/report.ts';
export { StopText } from './generate/stop-text.ts';
export { hostDecoder } from './host/decoder.ts';
export type { HostDecoder, HostEngine, HostRunnable, Projection } from './host/decoder.ts';
export { HiddenNumbers } from './host/hidden.ts';
export { HostCaches, layerPasses } from './host/host-caches.ts';
export type { TokenPasses } from './host/host-caches.ts';
export type { HostState } from './host/host-state.ts';
export { LayerMemory } from './host/layer.ts';
export { LayerStates } from './host/layer-states.ts';
export { outputNormOf, outputNorms } from './host/output-norms.ts';
export type { OutputNorm } from './host/output-norms.ts';
export { frozenRows } from './host/frozen.ts';
export { appendLayer } from './host/pass.ts';
export { recordInputs } from './host/record-inputs.ts';
export { readTerm } from './host/terms.ts';
export { readsLayerInput, viewsActing, withLayerInput } from './host/visibility.ts';
export { countViews } from './memory/feed.ts';
export { predictViews } from './memory/predict-views.ts';
export type { ViewReads } from './memory/predict-views.ts';
export type { PassOptions } from './host/pass.ts';
export { hostRunning, hostRuntime } from './host/runtime.ts';
export type { HostModel, RunningHostModel } from './host/runtime.ts';
export { watchLayers } from './host/watch-layers.ts';
export { Ledger } from './ledger.ts';
export type { Bytes } from './ledger.ts';
export { activePolicyOf, joinEvents, termOf } from './memory/active-policy.ts';
export type { ActivePolicy, EventResult, EventTimes } from './memory/active-policy.ts';
export { layersTogether, peakOfEvents } from './memory/event-groups.ts';
export { BatchBarrier, BatchSlot } from './memory/batch-barrier.ts';
export { spread } from './memory/carried-states.ts';
export type { CarriedStates } from './memory/carried-states.ts';
export type {
  EventRequest,
  LayerEviction,
  SequenceCaches,
  SpeculativeSteps,
} from './memory/caches.ts';
export { sequenceContext } from './memory/context.ts';
export type { SequenceContext } from './memory/context.ts';
export type { AttentionCounters, BatchGroup, FeedOptions, FeedResult, Output } from './memory/feed.ts';
export type { ObservedRow, Observer } from './memory/observer.ts';
export { dropInputEntries, InputRecording, inputSignalsOf } from './memory/input-recording.ts';
export { makeRoom } from './memory/make-room.ts';
export { Memory } from './memory/memory.ts';
export type { CacheUsage } from './memory/memory.ts';
export { embeddingsOf } from './memory/runtime.ts';
export { endModel } from './memory/model-parts.ts';
export type { MemoryModel, MemoryOptions, ModelParts } from './memory/model-parts.ts';
export type { Model, ModelSource, RunningModel, Runtime } from './memory/runtime.ts';
export { TokenProgress } from './memory/progress.ts';
export { runProviders } from './memory/providers.ts';
export type { Observing, ProviderRequest } from './memory/providers.ts';
export { SlotCounts } from './memory/slot-counts.ts';
export type { LayerSlots } from './memory/slot-counts.ts';
export type { CacheSnapshot, LayerSnapshot, StoredState } from './memory/snapshot.ts';
export { TokenText } from './memory/text.ts';
export { heldOf, heldPlaces, heldShares, heldSpans } from './memory/held.ts';
export type { CacheHoldings, HeldPlace, HeldSpan } from './memory/held.ts';
export { notRemembered, statisticOf, sumRows, observationPlan, windowOf } from './memory/observation-plan.ts';
export type { ObservationPlan } from './memory/observation-plan.ts';
export * as schemas from './schemas.ts';
export type {
  Chunk,
  DecodeOptions,
  HostOptions,
  Finish,
  GenerateOptions,
  PrefillOptions,
  PrefillPartsOptions,
} from './options.ts';
export { fateText, fates, recorder, traceFile } from './recorder.ts';
export type { Fate, RecordedEvent } from './recorder.ts';
export { editLogits, expectAny, expectBias, expectBiased, isAllowed } from './sampling/edits.ts';
export type { LogitEdits } from './sampling/edits.ts';
export { greedy } from './sampling/greedy.ts';
export { samplingOf } from './sampling/options.ts';
export type { LogitBias, SamplerOptions } from './sampling/options.ts';
export { Sampler } from './sampling/sampler.ts';
export type { SamplerContext, SamplingRule } from './sampling/sampler.ts';
export { headerOf, layoutOf } from './saved/layout.ts';
export { loadCache } from './saved/load.ts';
export type { LoadCacheOptions } from './saved/load.ts';
export { parseManifest } from './saved/manifest.ts';
export { saveCache } from './saved/save.ts';
export { freeObservations } from './sequence/free-observations.ts';
export { waits } from './sequence/policy-schedule.ts';
export { predictCache } from './sequence/predict-cache.ts';
export type { CachePrediction } from './sequence/predict-cache.ts';
export { allSlotScores, slotScores } from './sequence/scores.ts';
export { Sequence } from './sequence/sequence.ts';
export type { SequenceOptions } from './sequence/sequence.ts';
export type { SequenceStats } from './sequence/stats.ts';
export { stepTogether } from './sequence/step-together.ts';
export { YIELD_AFTER, pauser } from './yield-to-events.ts';
