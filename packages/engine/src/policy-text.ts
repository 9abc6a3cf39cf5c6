import type { Policy } from '@kv/core';
import { expectPiece } from '@kv/core/engine';

/**
 * The policy that a text stands for. The catalogue is loaded where text is given, and nowhere else. @throws KvError for
 * what is neither
 */
export async function policyOf(policy: Policy | string): Promise<Policy> {
  if (typeof policy === 'string') return (await import('@kv/policies')).policy(policy);
  expectPiece(policy); // a promise would be waited for
  return policy;
}
