import { headDims, slotHeads } from '@kv/checkpoints';
import { id, KvError } from '@kv/core';
import { sumOf } from '@kv/core/shared';
import type { Budget, BudgetPlan } from '@kv/core';
import { allowanceOf, compile, formNames, planBudgets } from '@kv/core/engine';
import type { CompiledPolicy } from '@kv/core/engine';
import {
  expectLevelsFit,
  fitsHeads,
  peakOfEvents,
  policySizes,
  slotBytes,
  slotModel,
  tokenBytes,
  waits,
} from '@kv/engine';
import type { CacheForm, ModelConfig } from '@kv/models';

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
 * @throws KvError for a budget below what the policy forces, and for levels that the heads do not fit
 */
export function predictCache(
  policy: CompiledPolicy,
  model: ModelConfig,
  length: number,
  given: Budget,
  form: CacheForm,
): CachePrediction {
  const config = slotModel(model);
  expectLevelsFit(policy, config);
  const { layers: L, attention } = config,
    heads = slotHeads(config),
    held = Array.from({ length: L }, (_, l) => Math.min(length, attention.windows[l] ?? Infinity)),
    lengths = held.map((slots, l) => Array.from({ length: heads[l].kvHeads }, () => slots)),
    sizes = policySizes(config, form, policy),
    allowance = allowanceOf(policy, given, length, { at: '--budget', sizes }),
    plan = policy.evicts ? planBudgets(policy, allowance, lengths) : undefined,
    budgets = plan?.budgets ?? lengths,
    events = policy.evicts && (policy.levels !== undefined || budgets.some((of, l) => of.some((b) => b < held[l])));
  const slots = heads.map(({ headDim }) => slotBytes(form, headDim)), // of one slot before it is demoted
    share = events ? sizes.bytesPerSlot / tokenBytes(form, config) : 1,
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
    after: Math.ceil(sumOf(left)),
    peak: Math.ceil(peak),
  };
}

/** Bytes in another form. */
export interface OtherForm extends Pick<CachePrediction, 'before'> {
  readonly form: CacheForm;
  /** Null where the budget holds fewer slots in it than the policy forces. */
  readonly after: number | null;
}

/** Predicts the bytes in every other form that the model's heads fit. */
export const otherForms = (
  policy: CompiledPolicy,
  config: ModelConfig,
  length: number,
  given: Budget,
  form: CacheForm,
): readonly OtherForm[] =>
  formNames
    .filter((other) => other !== form && fitsHeads(other, headDims(config)))
    .map((other) => {
      const { before } = predictCache(compile(id), config, length, '100%', other);
      try {
        return { form: other, before, after: predictCache(policy, config, length, given, other).after };
      } catch (error) {
        if (!KvError.is(error)) throw error;
        return { form: other, before, after: null };
      }
    });
