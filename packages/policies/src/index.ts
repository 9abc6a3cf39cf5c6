export { catalogue, parsePolicy, policy, policyNames } from './catalogue.ts';
export * from './methods/index.ts';
export { recommendedPolicies, type RecommendedPolicy } from './recommended.ts';
