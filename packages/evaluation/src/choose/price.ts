import { allowanceOf, compile, isShare } from '@kv/core/engine';
import { KvError } from '@kv/core';
import type { AnySignal } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import { policySizes, predictCache, slotSizes, windowOf } from '@kv/engine';
import type { CacheForm } from '@kv/engine';
import type { ModelConfig } from '@kv/models';
import { policy as policyOf } from '@kv/policies';
import type { FileBudget } from '../cells/types.ts';
import { mean } from '../numbers.ts';
import type { Candidate } from './candidate.ts';

/** An event's cost, in prefills of its prompt: as measured on SmolLM2 (docs/evidence.md). */
const EVENT = 0.05;
/** The cost of a hook that refits slots to queries, likewise: .29 at 4,096 tokens, .55 at 1,024 (bench/results/events-2026-11-27.md). */
const REFIT = 0.4;
/** Prompts of different lengths for which bytes are predicted. */
const MOST_LENGTHS = 16;

/**
 * Returns a policy at a budget with its predicted bytes and cost, as `kv explain` predicts them, means over prompts of
 * these lengths. A share is one of memory: where slots are stored in fewer bytes than usual it holds more of them, and
 * fewer where a policy holds states too. Undefined where the budget holds fewer slots than the policy forces, or as many as the prompt has and nothing is
 * demoted.
 */
export function priceOf(
  text: string,
  given: FileBudget,
  model: ModelConfig,
  lengths: readonly number[],
  form: CacheForm,
): Candidate | undefined {
  const policy = compile(policyOf(text)),
    sizes = policySizes(model, form, policy),
    usual = sizes.bytesPerSlot === slotSizes(model, form).bytesPerSlot && !sizes.fixedBytes,
    budget = usual ? given : ofMemory(given, form);
  try {
    const each = someOf(lengths).map((length) => {
      const allowance = allowanceOf(policy, budget, length, { sizes }),
        asked = Math.max(1, Math.floor(allowance.requested ?? allowance.slots)),
        { after, events } = predictCache(policy, model, length, budget, form);
      return { length, after, events, slots: allowance.slots, fits: policy.least(length, asked) <= asked };
    });
    if (each.some(({ fits }) => !fits) || !each.some(({ events }) => events)) return undefined;
    return {
      policy: text,
      budget,
      share: mean(each.map(({ slots, length }) => Math.min(1, slots / length))),
      bytes: mean(each.map(({ after }) => after)),
      cost: mean(each.map(({ length }) => costOf(policy, length))),
    };
  } catch (cause) {
    if (KvError.is(cause)) return undefined;
    throw cause;
  }
}

/** Returns a share of slots as the same share of bytes; all slots stay all. */
const ofMemory = (budget: FileBudget, form: CacheForm): FileBudget =>
  isShare(budget) && !budget.includes('of') && budget !== '100%' ? (`${budget} of ${form}` as FileBudget) : budget;

/** Returns the cost of an event in prefills: further passes over the prompt, and the attention of its last queries. */
function costOf({ needs, hooks }: CompiledPolicy, length: number): number {
  const window = Math.max(0, ...needs.map(windowOf)),
    refits = hooks('compact').filter(({ givesBiases }) => givesBiases).length;
  return EVENT + REFIT * refits + needs.filter(isPass).length + Math.min(1, window / length);
}
const isPass = ({ cost, provide }: AnySignal): boolean => cost === 'pass' && provide !== undefined;

/** Returns lengths from the shortest to the longest, at most `MOST_LENGTHS`. */
function someOf(lengths: readonly number[]): readonly number[] {
  const all = [...new Set(lengths)].sort((a, b) => a - b);
  return all.length <= MOST_LENGTHS
    ? all
    : Array.from({ length: MOST_LENGTHS }, (_, i) => all[Math.round((i * (all.length - 1)) / (MOST_LENGTHS - 1))]);
}
