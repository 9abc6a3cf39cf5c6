import { KvError } from '@kv/core';
import { compile, expectBudget } from '@kv/core/engine';
import type { Policy } from '@kv/core';
import type { Budget } from '@kv/models';
import { resolvePolicy } from '../policy/resolve-policy.ts';

interface Given {
  readonly decodePolicy?: string;
  readonly decodeBudget?: Budget;
  readonly budget?: Budget;
  readonly cadence?: number;
}

/**
 * What tokens are generated under, where it is not what the prompt is read under. @throws KvError for a policy that
 * never would evict, or has no budget to keep.
 */
export async function decodingUnder(
  policy: Policy,
  { decodePolicy: text, decodeBudget, budget, cadence }: Given,
  cwd: string,
): Promise<{ readonly decodePolicy?: Policy; readonly decodeBudget?: Budget }> {
  if (text === undefined && decodeBudget === undefined) return {};
  const decodePolicy = text === undefined ? policy : await resolvePolicy(text, { cwd }),
    compiled = compile(decodePolicy),
    { evicts, sizes, label, hooks } = compiled;
  if (text === undefined && !evicts)
    throw new KvError('--decode-budget', 'expected a policy that evicts beside it, got none');
  if (evicts && (cadence ?? hooks('cadence')[0]?.every) === undefined)
    throw new KvError(
      '--cadence',
      `expected a number of tokens between two evictions, since '${label}' evicts while tokens are generated, got none`,
    );
  if (evicts && !sizes && (decodeBudget ?? budget) === undefined)
    throw new KvError(
      '--decode-budget',
      `expected a number of slots or a share such as 25%, since '${label}' evicts, got none`,
    );
  const kept = decodeBudget ?? budget;
  if (kept !== undefined) expectBudget(compiled, kept, decodeBudget === undefined ? '--budget' : '--decode-budget');
  return { decodePolicy, ...(decodeBudget !== undefined && { decodeBudget }) };
}
