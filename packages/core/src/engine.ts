/** Entry for code that runs or inspects policies: engines, laws, tools. */

export { allowanceOf, expectBudget, mostKept, raisedNote } from './event/allowance.ts';
export type { Allowance, BudgetPlace } from './event/allowance.ts';
export { recordApply, recordAttend } from './host/apply.ts';
export { expectObject, runGuarded } from './event/boundary.ts';
export { expectBackend } from './tensor/backend.ts';
export { outOfMemory } from './tensor/out-of-memory.ts';
export {
  MOST_BIAS,
  recordEvent,
  runAttend,
  runFreeze,
  runProvider,
  runStepHook,
  runView,
} from './event/hook-boundary.ts';
export type { EventRecord, HookPlace, ReplacementCache } from './event/hook-boundary.ts';
export {
  copyRowMajor,
  dims,
  hostTensor,
  isDense,
  noteBad,
  rowMajorNumbers,
  staysWithin,
  strides,
} from './tensor/host-tensor.ts';
export type { HostTensor } from './tensor/host-tensor.ts';
export { withLabel } from './piece/with-label.ts';
export { limitOperations } from './piece/limited.ts';
export { primitivesOf, withMaths } from './tensor/maths.ts';
export { didYouMean, editDistance } from './piece/nearest.ts';
export { budgetOption, budgetText, exactSlotsOf, formNames, isShare, parseBudget } from './piece/budget.ts';
export { expectOptions, fitValue, settleOwn, showValue } from './piece/option.ts';
export { policyOption } from './piece/policy-option.ts';
export { excerpt, policyCalls, printCalls } from './text/policy-calls.ts';
export type { Arg, PolicyCall } from './text/policy-calls.ts';
export { isPiece, otherProtocol } from './piece/piece.ts';
export { isOverwritten } from './event/read-only.ts';
export { StepCache } from './event/step-cache.ts';
export { compile, expectPiece, planBudgets, runEvent, union, withoutProtected, withProtected } from './event/run.ts';
export { expectPromises, readDecisions } from './event/read-decisions.ts';
export type { CompiledPolicy } from './event/run.ts';
export type { EventDecision } from './event/read-decisions.ts';
export { emptyDraft, finish, runSteps } from './event/steps.ts';
export type { EventLayer, PacedSteps } from './event/steps.ts';
export { areSpans, joinedSpans, slotsIn } from './piece/spans.ts';
export { signalKey } from './piece/signals.ts';
export { isInputSignal, isInputState, slotState } from './piece/input-signal.ts';
export { filesOf, runInputSignal } from './event/input-numbers.ts';
export type { InputPlace } from './event/input-numbers.ts';
export { isState, stateColumns } from './piece/state.ts';
export { stateArray } from './host/host-signals.ts';
export { rowMajor, sizeOf, takesLengths } from './tensor/tensor.ts';
export { countedOps, namedCalls, traceOps } from './tensor/trace.ts';
export type { OperationCount } from './tensor/trace.ts';
