import type { Policy } from '@kv/core';
import { decodingPolicy } from '@kv/engine';
import type { Budget } from '@kv/models';
import { resolvePolicy } from '../policy/resolve-policy.ts';

interface Given {
  readonly decodePolicy?: string | undefined;
  readonly decodeBudget?: Budget | undefined;
  readonly budget?: Budget | undefined;
  readonly every?: number | undefined;
}

/**
 * Returns the policy and budget of decoding, if they differ from those of the prompt. @throws KvError for a policy that
 * would never evict, or has no budget.
 */
export async function decodingUnder(
  policy: Policy,
  { decodePolicy: text, ...given }: Given,
  cwd: string,
): Promise<{ readonly decodePolicy?: Policy; readonly decodeBudget?: Budget }> {
  const named = text === undefined ? undefined : await resolvePolicy(text, { cwd }),
    { decodeBudget } = given,
    decodePolicy = decodingPolicy({ ...given, policy, decodePolicy: named });
  return decodePolicy ? { decodePolicy, ...(decodeBudget !== undefined && { decodeBudget }) } : {};
}
