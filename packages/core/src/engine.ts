/** For what runs policies or reads them: engines, laws, tools. */

export { allowanceOf, expectBudget, mostKept, raisedNote } from './allowance.ts';
export type { Allowance } from './allowance.ts';
export { recordApply } from './apply.ts';
export { expectObject, guarded } from './boundary.ts';
export { outOfMemory } from './out-of-memory.ts';
export { recordEvent, runFreeze, runProvider, runStepHook, runView } from './hook-boundary.ts';
export type { RecordedEvent, Replaced } from './hook-boundary.ts';
export {
  copyRowMajor,
  dims,
  hostTensor,
  isDense,
  noteBad,
  rowMajorNumbers,
  staysWithin,
  strides,
} from './host-tensor.ts';
export type { HostTensor } from './host-tensor.ts';
export { labelled } from './labelled.ts';
export { limited } from './limited.ts';
export { primitivesOf, withMaths } from './maths.ts';
export { didYouMean } from './nearest.ts';
export { budgetOption } from './budget.ts';
export { expectOptions, fitted, settleOwn } from './option.ts';
export { excerpt, policyCalls, printCalls } from './policy-calls.ts';
export type { Arg, Call } from './policy-calls.ts';
export { isPiece, otherProtocol } from './piece.ts';
export { isOverwritten } from './read-only.ts';
export { StepCache } from './alike.ts';
export { compile, expectPiece, planBudgets, runEvent, union } from './run.ts';
export { expectPromises, settle } from './settle.ts';
export type { Compiled } from './run.ts';
export type { Settled as SettledEvent } from './settle.ts';
export { emptyDraft, finish, runSteps } from './steps.ts';
export type { EventLayer, Paced } from './steps.ts';
export { signalKey } from './signals.ts';
export { isState } from './state.ts';
export { rowMajor, sizeOf, takesLengths } from './tensor.ts';
export { countedOps, namedCalls, traceOps } from './trace.ts';
export type { Work } from './trace.ts';
