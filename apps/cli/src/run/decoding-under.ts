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
 * What tokens are generated under, where it is not what the prompt is read under. @throws KvError for a policy that
 * never would evict, or has no budget to keep.
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
