export { withPolicy } from './with-policy.ts';
export type { PolicyModel, Stats, WithPolicyOptions } from './with-policy.ts';
export type { GraphSource } from './source.ts';
