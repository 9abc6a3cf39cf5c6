export { applyOn } from './host/apply.ts';
export { sidecar } from './piece/sidecar.ts';
export type { Sidecar } from './piece/sidecar.ts';
export type { ApplyResult, ApplyResultOf, AttendResult, Inputs } from './host/apply.ts';
export type {
  AttendHook,
  AttendingQueries,
  AttentionTerm,
  AttentionTerms,
  LayerContext,
  Atom,
  StepInput,
  DraftSelection,
  ForcedEnds,
  FreezeHook,
  PositionSpan,
  Replacement,
  BudgetPlan,
  Step,
  Units,
  ViewChoice,
  ViewHook,
  ViewBounds,
} from './piece/atoms.ts';
export { slotsOf } from './piece/budget.ts';
export type { Budget, BudgetBytes, BudgetShare, FormName, SlotBytes } from './piece/budget.ts';
export { compose, id } from './compose/compose.ts';
export { isFactory, method, partOf } from './piece/declare.ts';
export type { DeclarationFields, AnyFactory, Description, Factory, OptionPart } from './piece/declare.ts';
export { freeze, hide, onAttend, onCompact, onEvict, onStep, rerotate, cadence, wrapSelect } from './event/hooks.ts';
export type { ViewLoopState, ViewLoop } from './piece/view-loop.ts';
export { protect } from './event/protect.ts';
export { kernel } from './tensor/kernel.ts';
export type { Kernel, Products, WasmMemory } from './tensor/kernel.ts';
export {
  allocator,
  demotion,
  normaliser,
  scoreAllocator,
  scorer,
  selector,
  scoreTransform,
  transform,
  unit,
  unitSelector,
  unitTransform,
  weightAllocator,
  weightScorer,
  weightSelector,
  weightTransform,
} from './piece/kinds.ts';
export type {
  AllocatorOutput,
  NewNotes,
  Note,
  DemotionContext,
  UnitCut,
  StepContext,
  SignalReaders,
  Scores,
  SelectorContext,
  UnitScores,
  WithRows,
  WithScores,
  WithUnits,
} from './piece/piece-declaration.ts';
export { LEVELS, meanSlotBytes } from './piece/levels.ts';
export type { Level, LevelShares } from './piece/levels.ts';
export { HIGHEST } from './tensor/maths.ts';
export type { Mask, Ops } from './tensor/maths.ts';
export { allocatorBy, max, sum, weighted } from './compose/nested.ts';
export type { AnyScorer } from './compose/nested.ts';
export {
  callback,
  count,
  flag,
  list,
  maybe,
  number,
  object,
  odd,
  oneOf,
  part,
  required,
  sameAs,
  share,
  shareOrCount,
  text,
  texts,
  value,
  whole,
  withDefault,
} from './piece/option.ts';
export type { OptionValues, OptionForm, LabelledPart, Option, Options, ResolvedOptions } from './piece/option.ts';
export { parsePolicy } from './text/parse-policy.ts';
export { entries, lookUp, registry } from './text/registry.ts';
export type { RegistryEntry, Registry } from './text/registry.ts';
export { KvError } from './tensor/errors.ts';
export type { Backend } from './tensor/backend.ts';
export { PROTOCOL } from './piece/piece.ts';
export type {
  Allocator,
  AnyPiece,
  Demotion,
  HookPiece,
  IdentityPiece,
  Normaliser,
  Phase,
  Piece,
  Policy,
  ScoreAllocator,
  ScorePhase,
  Scorer,
  Selector,
  ScoreTransform,
  Transform,
  Unit,
  UnitTransform,
  ViewPiece,
  WeightScorer,
  WeightTransform,
} from './piece/piece.ts';
export {
  as,
  attentionAccumulated,
  attentionAccumulatedKv,
  attentionBlock,
  attentionLast,
  attentionMax,
  attentionWindow,
  biases,
  embeddings,
  keys,
  outputLengths,
  outputNorms,
  positions,
  queries,
  layerInput,
  rope,
  tokens,
  values,
} from './piece/signals.ts';
export type {
  AnySignal,
  Embeddings,
  FoldedQueryRange,
  SignalProvider,
  PlacedQueries,
  ProviderEngine,
  Rope,
  Signal,
  QueryRange,
  Tokens,
  WindowStatistic,
} from './piece/signals.ts';
export { inputSignal } from './piece/input-signal.ts';
export type { InputContext, InputSignal } from './piece/input-signal.ts';
export { state } from './piece/state.ts';
export type { State, StateSpec } from './piece/state.ts';
export { readTensorFile, tensorFile, tensorNames } from './tensor/tensor-file.ts';
export type { FileTensor, TensorFile } from './tensor/tensor-file.ts';
export { LOWEST } from './tensor/tensor.ts';
export type { DType, DenseArray, HostArray, Tensor } from './tensor/tensor.ts';
export {
  layerMean,
  log1p,
  mandatory,
  meanByPosition,
  minMax,
  normalize,
  perLayer,
  perModel,
  pool,
  reduceHeads,
  softmax,
  zScore,
} from './piece/transforms.ts';
export { advanceOn, retainOn } from './host/retain.ts';
export type { Cache, CacheLayer, RetainOptions, RetainResult, RetainState } from './host/retain.ts';
export { view } from './compose/view.ts';
export type { Axis, Binary, Operand, PoolOptions, Primitives, Reduction, Unary } from './tensor/ops.ts';
