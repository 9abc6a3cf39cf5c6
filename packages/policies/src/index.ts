export { catalogue, parsePolicy, policy, policyNames } from './catalogue.ts';
export * from './methods/index.ts';
