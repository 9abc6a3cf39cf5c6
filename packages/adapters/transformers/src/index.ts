export { withPolicy } from './with-policy.ts';
export type { PolicyModel, Stats, WithPolicyOptions } from './with-policy.ts';
export type { Source } from './source.ts';
