export { withPolicy } from './with-policy.ts';
export type { WithPolicyOptions } from './options.ts';
export type { PolicyModel, Stats } from './policy-model.ts';
export type { GraphSource } from './source.ts';
