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
  Check,
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
export { slotsOf } from './budget.ts';
export type { Budget } from './budget.ts';
export { compose, id } from './compose.ts';
export { factory, isFactory, method, partOf } from './declare.ts';
export type { About, AnyFactory, Description, Factory, Part, Takes } from './declare.ts';
export { freeze, hide, onCompact, onStep, rerotate, cadence, wrapSelect } from './hooks.ts';
export { expectObject, guarded } from './boundary.ts';
export { replacements, runFreeze, runProvider, runStepHook, runView } from './hook-boundary.ts';
export type { HookPlace, Replaced, Replacements } from './hook-boundary.ts';
export { kernel } from './kernel.ts';
export type { Kernel, Products } from './kernel.ts';
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
export { HIGHEST, primitivesOf, withMaths } from './maths.ts';
export type { Mask, Masks, Ops } from './maths.ts';
export { didYouMean } from './nearest.ts';
export { allocatorBy, max, sum, weighted } from './nested.ts';
export type { AnyScorer } from './nested.ts';
export {
  count,
  flag,
  isMade,
  maybe,
  number,
  odd,
  oneOf,
  orWord,
  part,
  print,
  sameAs,
  share,
  shareOrCount,
  shown,
  text,
  value,
  whole,
  withDefault,
} from './option.ts';
export type { Chosen, Form, Made, Option, Options, Settled } from './option.ts';
export { parsePolicy } from './parse-policy.ts';
export { excerpt, policyCalls, printCalls } from './policy-calls.ts';
export type { Arg, Call } from './policy-calls.ts';
export { entries, lookUp, registry } from './registry.ts';
export type { Entry, Registry } from './registry.ts';
export { cpu, readCpu } from './cpu/cpu.ts';
export { inner, LOWEST, plainProducts } from './cpu/reduce.ts';
export { dotWith } from './dot-with.ts';
export { checkNumber, checkWord, isCount, isPositiveInteger, KvError } from './errors.ts';
export type { Backend } from './backend.ts';
export type { Axis, Binary, Operand, PoolOptions, Primitives, Reduction, Unary } from './ops.ts';
export { isPiece, otherProtocol, PROTOCOL } from './piece.ts';
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
export { windowSignal } from './host-signals.ts';
export {
  compile,
  emptyDraft,
  expectPromises,
  planBudgets,
  runEvent,
  runSteps,
  settle,
  signalReader,
  union,
} from './run.ts';
export type { Compiled, EventLayer, Settled as SettledEvent } from './run.ts';
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
export { advance, retain } from './retain.ts';
export type { Cache, CacheLayer, CompactArray, Retained, RetainedState, RetainOptions } from './retain.ts';
export { view } from './view.ts';
export { blockAttention, causalDot, overWindow } from './window-blocks.ts';
export type { WindowBlock } from './window-blocks.ts';
