export { applyOn } from './apply.ts';
export { sidecar } from './sidecar.ts';
export type { Sidecar } from './sidecar.ts';
export type { Applied, AppliedBy, Inputs } from './apply.ts';
export type { At, Atom, Cell, Draft, Ends, FreezeHook, Plan, Step, Units, ViewHook, Visible } from './atoms.ts';
export { slotsOf } from './budget.ts';
export type { Budget, Share } from './budget.ts';
export { compose, id } from './compose.ts';
export { isFactory, method, partOf } from './declare.ts';
export type { About, AnyFactory, Description, Factory, Part } from './declare.ts';
export { freeze, hide, onCompact, onStep, rerotate, cadence, wrapSelect } from './hooks.ts';
export { kernel } from './kernel.ts';
export type { Kernel, Products, WasmMemory } from './kernel.ts';
export {
  allocator,
  normaliser,
  scoreAllocator,
  scorer,
  selector,
  shaper,
  transform,
  unit,
  unitSelector,
  unitTransform,
  weightAllocator,
  weigher,
  weightSelector,
  weightTransform,
} from './kinds.ts';
export type {
  Allotted,
  Cut,
  Place,
  Reads,
  Scores,
  Selecting,
  UnitScores,
  WithRows,
  WithScores,
  WithUnits,
} from './kinds.ts';
export { HIGHEST } from './maths.ts';
export type { Mask, Ops } from './maths.ts';
export { allocatorBy, max, sum, weighted } from './nested.ts';
export type { AnyScorer } from './nested.ts';
export {
  count,
  flag,
  maybe,
  number,
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
} from './option.ts';
export type { Chosen, Form, Made, Option, Options, Settled } from './option.ts';
export { parsePolicy } from './parse-policy.ts';
export { entries, lookUp, registry } from './registry.ts';
export type { Entry, Registry } from './registry.ts';
export { KvError } from './errors.ts';
export type { Backend } from './backend.ts';
export { PROTOCOL } from './piece.ts';
export type {
  Allocator,
  AnyPiece,
  Hooked,
  Id,
  Normaliser,
  Phase,
  Piece,
  Policy,
  ScoreAllocator,
  Scored,
  Scorer,
  Selector,
  Shaper,
  Transform,
  Unit,
  UnitTransform,
  Weigher,
  WeightTransform,
} from './piece.ts';
export {
  as,
  attentionAccumulated,
  attentionAccumulatedKv,
  attentionBlock,
  attentionLast,
  attentionMax,
  attentionWindow,
  embeddings,
  keys,
  outputLengths,
  outputNorms,
  positions,
  queries,
  rope,
  tokens,
  values,
} from './signals.ts';
export type {
  AnySignal,
  Embeddings,
  FoldedStretch,
  Provider,
  ProviderEngine,
  Rope,
  Signal,
  Stretch,
  Tokens,
  WindowStatistic,
} from './signals.ts';
export { state } from './state.ts';
export type { State, StateSpec } from './state.ts';
export { readTensorFile, tensorFile } from './tensor-file.ts';
export type { FileTensor, TensorFile } from './tensor-file.ts';
export { LOWEST } from './tensor.ts';
export type { DType, DenseArray, HostArray, Tensor } from './tensor.ts';
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
} from './transforms.ts';
export { advanceOn, retainOn } from './retain.ts';
export type { Cache, CacheLayer, RetainOptions, Retained, RetainedState } from './retain.ts';
export { view } from './view.ts';
export type { Axis, Binary, Operand, PoolOptions, Primitives, Reduction, Unary } from './ops.ts';
