/** Exports for experiments defined outside this package. */

export { askFiles } from './ask-files.ts';
export { MATCHED } from './cells/rebudget.ts';
export { digest } from './jobs/store.ts';
export { surprise } from './log-likelihood.ts';
export { mean, percent, sum } from './numbers.ts';
export { policyOf } from './policies.ts';
export { greedy, keptTokens, retainedShare, slotsNow, using } from './sequences.ts';
export { filesOf } from './sidecar-files.ts';
