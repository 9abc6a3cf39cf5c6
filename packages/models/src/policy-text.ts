import type { Policy } from '@kv/core';

/** The policy that a text stands for. The catalogue is loaded where text is given, and nowhere else. */
export const policyOf = async (policy: Policy | string): Promise<Policy> =>
  typeof policy === 'string' ? (await import('@kv/policies')).policy(policy) : policy;
