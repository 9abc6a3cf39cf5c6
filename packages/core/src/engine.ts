/** For what runs policies or reads them: engines, laws, tools. */

export { blockProducts, folds, rowsHeld, TOGETHER } from './cpu/block-products.ts';
export type { Fold } from './cpu/block-products.ts';
export { cpuWith } from './cpu/cpu.ts';
export { scratchBytes } from './cpu/fastest.ts';
export { exactSlotsOf } from './budget.ts';
export { expectObject, guarded } from './boundary.ts';
export { outOfMemory } from './out-of-memory.ts';
export { recordEvent, runFreeze, runProvider, runStepHook, runView } from './hook-boundary.ts';
export type { HookPlace, RecordedEvent, Replaced } from './hook-boundary.ts';
export { labelled } from './labelled.ts';
export { limited } from './limited.ts';
export { primitivesOf, withMaths } from './maths.ts';
export { didYouMean } from './nearest.ts';
export { expectOptions } from './option.ts';
export { excerpt, policyCalls, printCalls } from './policy-calls.ts';
export type { Arg, Call } from './policy-calls.ts';
export { isPiece, otherProtocol } from './piece.ts';
export { isOverwritten } from './read-only.ts';
export { Known } from './alike.ts';
export { compile, emptyDraft, expectPromises, finish, planBudgets, runEvent, runSteps, settle, union } from './run.ts';
export type { Compiled, EventLayer, Paced, Settled as SettledEvent } from './run.ts';
export { sameSignal, signalKey } from './signals.ts';
export { isState } from './state.ts';
export { sizeOf, takesLengths } from './tensor.ts';
export { countedOps, namedCalls, traceOps } from './trace.ts';
export type { Trace, Work } from './trace.ts';
