import { KvError } from '@kv/core';
import { budgetText, compile, expectBudget } from '@kv/core/engine';
import type { Budget, Policy, SlotBytes } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';

/** The policies that a prompt is read under and tokens are generated under. */
export interface Policies {
  readonly policy?: Policy | undefined;
  readonly budget?: Budget | undefined;
  readonly decodePolicy?: Policy | undefined;
  readonly decodeBudget?: Budget | undefined;
  readonly every?: number | undefined;
}

/** Returns the policy's cadence: generated tokens between two events. */
export const everyOf = ({ hooks }: Pick<CompiledPolicy, 'hooks'>): number | undefined => hooks('cadence')[0]?.every;

/**
 * Returns the policy that tokens are generated under, if it differs from the one that the prompt is read under.
 *
 * @param sizes the sizes of slots, by policy
 * @throws KvError, before anything runs, for a policy that evicts without a budget, or would never evict
 */
export function decodingPolicy(
  { policy, budget, decodePolicy = policy, decodeBudget, every }: Policies,
  sizes?: (policy: CompiledPolicy) => SlotBytes,
): Policy | undefined {
  if (policy) expectBudget(compile(policy), budget, { sizes: sizes?.(compile(policy)) });
  if (decodePolicy === policy && decodeBudget === undefined) return undefined;
  const compiled = decodePolicy && compile(decodePolicy);
  if (!compiled || (decodePolicy === policy && !compiled.evicts))
    throw new KvError('decodeBudget', 'expected a policy that evicts, got none');
  if (compiled.evicts && (every ?? everyOf(compiled)) === undefined)
    throw new KvError(
      'every',
      `'${compiled.methodName}' evicts while tokens are generated, so a number of tokens between two events is expected`,
    );
  const at = decodeBudget === undefined && budget !== undefined ? 'budget' : 'decodeBudget';
  expectBudget(compiled, decodeBudget ?? budget, { at, sizes: sizes?.(compiled) });
  return decodePolicy;
}

/** Returns the note on a budget of a policy that evicts nothing. */
export const noEffect = (policy: Policy | undefined, budget: Budget): string =>
  `'${policy?.label ?? 'full'}' evicts nothing: its budget of ${budgetText(budget)} has no effect`;

/** @throws KvError for a budget that nothing keeps: without a policy, or with one that only scores */
export function expectKept(policy: Policy | undefined, budget: Budget): void {
  if (policy === undefined)
    throw new KvError(
      'policy',
      `expected the policy that keeps a budget of ${budgetText(budget)}, such as 'outstandingSentences', got none`,
    );
  if (['scores', 'weights', 'units'].includes(policy.to))
    throw new KvError(
      'policy',
      `'${policy.label}' scores and chooses no slots, so a budget of ${budgetText(budget)} would drop nothing: compose it with a selector such as topK()`,
    );
}
