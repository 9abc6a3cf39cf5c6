import { slotHeads } from '@kv/checkpoints';
import type { ModelConfig } from '@kv/checkpoints';
import { sumOf } from '@kv/core/shared';
import type { Budget, BudgetPlan } from '@kv/core';
import { allowanceOf, planBudgets } from '@kv/core/engine';
import type { CompiledPolicy } from '@kv/core/engine';
import { slotBytes, tokenBytes } from '../cache/form.ts';
import type { CacheForm } from '../cache/form.ts';
import { expectLevelsFit, policySizes } from '../cache/slot-sizes.ts';
import { slotModel } from '../decoder/keeps.ts';
import { waits } from './policy-schedule.ts';
import { peakOfEvents } from '../memory/event-groups.ts';

/** What a policy makes of the cache of a prompt. */
export interface CachePrediction {
  /** Slots allowed per layer and KV head on average. */
  readonly budget: number;
  /** Slots of every layer and KV head after the event. */
  readonly budgets: readonly (readonly number[])[];
  readonly plan: BudgetPlan | undefined;
  /** Whether an event runs: some slot leaves or may be demoted. */
  readonly events: boolean;
  readonly before: number;
  /** Under levels the most that it can be: what is no whole number of slots goes to the coarser level. */
  readonly after: number;
  readonly peak: number;
}

/**
 * Predicts the slots and bytes of keys and values of a prompt in caches of this form.
 *
 * @param at what errors call the budget. @defaultValue 'budget'
 * @throws KvError for a budget below what the policy forces, and for levels that the heads do not fit
 */
export function predictCache(
  policy: CompiledPolicy,
  model: ModelConfig,
  length: number,
  given: Budget,
  form: CacheForm,
  at?: string,
): CachePrediction {
  const config = slotModel(model);
  expectLevelsFit(policy, config);
  const { layers: L, attention } = config,
    heads = slotHeads(config),
    held = Array.from({ length: L }, (_, l) => Math.min(length, attention.windows[l] ?? Infinity)),
    lengths = held.map((slots, l) => Array.from({ length: heads[l].kvHeads }, () => slots)),
    sizes = policySizes(config, form, policy),
    inOwnLayers = policySizes(config, form, { ...policy, steps: [] }),
    allowance = allowanceOf(policy, given, length, { at, sizes }),
    plan = policy.evicts ? planBudgets(policy, allowance, lengths) : undefined,
    budgets = plan?.budgets ?? lengths,
    events = policy.evicts && (policy.levels !== undefined || budgets.some((of, l) => of.some((b) => b < held[l])));
  const slots = heads.map(({ headDim }) => slotBytes(form, headDim)), // of one slot before it is demoted
    fixed = events ? (sizes.fixedBytes ?? 0) : 0,
    share = events ? inOwnLayers.bytesPerSlot / tokenBytes(form, config) : 1,
    left = budgets.map((of, l) => sumOf(of) * slots[l] * share),
    whole = heads.map(({ kvHeads }, l) => kvHeads * length * slots[l]); // a layer with a window holds the whole prompt until its event
  const seen = heads.map(({ kvHeads }, l) => kvHeads * held[l] * slots[l]),
    within = events && !waits(policy), // events follow the layers
    peak = peakOfEvents(model, { whole, left: within ? left : seen }, length, form, within);
  return {
    budget: allowance.slots,
    budgets,
    plan,
    events,
    before: sumOf(seen),
    after: Math.ceil(sumOf(left)) + fixed,
    peak: Math.ceil(peak) + fixed,
  };
}
