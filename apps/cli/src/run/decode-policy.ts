import type { Policy } from '@kv/core';
import { decodingPolicy, policySizes } from '@kv/engine';
import type { Budget, Model } from '@kv/models';
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

/** Checks what budgets in bytes hold in a model's caches. @throws KvError for bytes that hold too few slots */
export const expectHeld = ({ config, cacheForm }: Model, policies: Parameters<typeof decodingPolicy>[0]): void =>
  void decodingPolicy(policies, (policy) => policySizes(config, cacheForm, policy));
