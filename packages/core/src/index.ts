export { apply, applyOn } from './apply.ts';
export { apportion } from './apportion.ts';
export { besideModel } from './beside-model.ts';
export type { BesideModel } from './beside-model.ts';
export type { Applied, Inputs, Plain } from './apply.ts';
export type {
  At,
  Atom,
  CadenceHook,
  Cell,
  CompactHook,
  Draft,
  FreezeHook,
  Hook,
  Inner,
  Kind,
  Plan,
  Reach,
  Step,
  StepHook,
  Units,
  ViewHook,
  Visible,
  WrapSelectHook,
} from './atoms.ts';
export {
  allocator,
  label,
  modelAllocator,
  modelScorer,
  modelSelector,
  modelTransform,
  modelUnitTransform,
  normaliser,
  scoreAllocator,
  scorer,
  selector,
  shaper,
  transform,
  unit,
  unitTransform,
  weigher,
  weightTransform,
} from './author.ts';
export type { Allocation, Common, Head, Options, ScoreResult, Selection, Spec, UnitResult } from './author.ts';
export { allocatorBy, max, sum, weighted } from './combine.ts';
export { compose, id } from './compose.ts';
export { cpu, readCpu } from './cpu/cpu.ts';
export { inner, LOWEST, plainProducts } from './cpu/reduce.ts';
export { dotWith } from './dot-with.ts';
export { checkNumber, checkWord, isCount, isPositiveInteger, KvError } from './errors.ts';
export { cadence, freeze, hide, onCompact, onStep, rerotate, wrapSelect } from './hooks.ts';
export type { Axis, Backend, Binary, Kernel, Operand, Ops, PoolOptions, Products, Reduction, Unary } from './ops.ts';
export { isPiece } from './piece.ts';
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
  View,
  Weigher,
  WeightTransform,
} from './piece.ts';
export { compile, emptyDraft, planBudgets, runEvent, runSteps, settle, union } from './run.ts';
export type { Compiled, EventLayer, Settled } from './run.ts';
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
  outputNorms,
  positions,
  queries,
  rope,
  sameSignal,
  signalKey,
  tokens,
  values,
} from './signals.ts';
export type {
  AnySignal,
  Args,
  Cost,
  Embeddings,
  FoldedStretch,
  Provider,
  ProviderEngine,
  Rope,
  Signal,
  Stretch,
  Tokens,
  Values,
  WindowStatistic,
} from './signals.ts';
export { gram, inverse, quadratic } from './matrices.ts';
export { isState, state } from './state.ts';
export type { State, StateSpec } from './state.ts';
export { turn, turned } from './turn.ts';
export { placeInUnit } from './place-in-unit.ts';
export { uniformHash } from './uniform-hash.ts';
export { readTensorFile, tensorFile } from './tensor-file.ts';
export type { FileTensor, TensorFile } from './tensor-file.ts';
export { rowMajor, sizeOf, takesLengths } from './tensor.ts';
export type { DenseArray, DType, HostArray, Tensor } from './tensor.ts';
export { traceOps } from './trace.ts';
export type { Trace } from './trace.ts';
export {
  layerMean,
  log1p,
  mandatory,
  meanByPosition,
  minMax,
  normalize,
  perLayer,
  pool,
  reduceHeads,
  softmax,
  zScore,
} from './transforms.ts';
export { view } from './view.ts';
export { blockAttention, causalDot, overWindow } from './window-blocks.ts';
export type { WindowBlock } from './window-blocks.ts';
export type { ViewOptions } from './view.ts';
