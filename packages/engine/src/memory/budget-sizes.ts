import { allowanceOf } from '@kv/core/engine';
import type { SlotBytes } from '@kv/core';
import type { CacheForm } from '../cache/form.ts';
import { movesTogether, policySizes } from '../cache/slot-sizes.ts';
import type { ActivePolicy, EventBudget } from './active-policy.ts';
import type { SequenceCaches } from './caches.ts';

/**
 * Returns the bytes of a sequence's slots at this number of tokens: kept slots are moved together, which costs a
 * rotation each, once the tokens exceed the window or the policy says so. What was folded before, biases, and words
 * of demoted slots go on to take theirs.
 * @param stored how the cache is stored @defaultValue as it is
 */
export function sizesAt(
  { context: { model, form, window, progress }, slots }: SequenceCaches,
  { policy, attends }: Pick<ActivePolicy, 'policy' | 'attends'>,
  tokens: number,
  stored: CacheForm = form,
): SlotBytes {
  const moved = progress.shift > 0 || tokens > window || movesTogether(policy);
  return policySizes(model.config, stored, policy, moved, { attends, ...slots.traits });
}

/** Returns the active policy for an event at this number of tokens: bytes, and a share that follows, are slots again. */
export function atLength(active: ActivePolicy, tokens: number, caches: SequenceCaches): ActivePolicy {
  const { policy, budget } = active,
    given = budget?.bytes === undefined ? budget?.follows && budget.share : { bytes: budget.bytes };
  if (!given) return active;
  const next = allowanceOf(policy, given, tokens, { sizes: sizesAt(caches, active, tokens) });
  return { ...active, budget: { ...next, ...(budget?.follows && { follows: true }) } };
}

/** Returns a budget where slots have other sizes than before: a share of the bytes in a form is as many bytes. */
export function resize(budget: EventBudget, before: SlotBytes, after: SlotBytes): EventBudget {
  const { share, slots, requested = slots } = budget,
    [held, holds] = [before.fixedBytes ?? 0, after.fixedBytes ?? 0];
  if (!share?.includes('of') || (before.bytesPerSlot === after.bytesPerSlot && held === holds)) return budget;
  const asked = (requested * before.bytesPerSlot + held - holds) / after.bytesPerSlot;
  return { ...budget, requested: asked, slots: Math.max(1, Math.floor(asked + 1e-9)) };
}
