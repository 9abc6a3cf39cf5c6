import type { Policy } from '@kv/core';
import { expectPiece } from '@kv/core/engine';

/**
 * Returns the policy that a text names. The catalogue is loaded only for text. @throws KvError for anything but a
 * policy or a text
 */
export async function policyOf(policy: Policy | string): Promise<Policy> {
  if (typeof policy === 'string') return (await import('@kv/policies')).policy(policy);
  expectPiece(policy); // a promise would be waited for
  return policy;
}
