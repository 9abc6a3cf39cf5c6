import { allowanceOf } from '@kv/core/engine';
import type { SlotBytes } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import { movesTogether, policySizes } from '../cache/slot-sizes.ts';
import type { ActivePolicy } from './active-policy.ts';
import type { SequenceContext } from './context.ts';

/**
 * Returns the bytes of a sequence's slots at this number of tokens: kept slots are moved together, which costs a
 * rotation each, once the tokens exceed the window or the policy says so.
 */
export const sizesAt = (
  { model, form, window, progress }: SequenceContext,
  policy: CompiledPolicy,
  tokens: number,
): SlotBytes => policySizes(model.config, form, policy, progress.shift > 0 || tokens > window || movesTogether(policy));

/** Returns the active policy for an event at this number of tokens: bytes, and a share that follows, are slots again. */
export function atLength(active: ActivePolicy, tokens: number, context: SequenceContext): ActivePolicy {
  const { policy, budget } = active,
    given = budget?.bytes === undefined ? budget?.follows && budget.share : { bytes: budget.bytes };
  if (!given) return active;
  const next = allowanceOf(policy, given, tokens, { sizes: sizesAt(context, policy, tokens) });
  return { ...active, budget: { ...next, ...(budget?.follows && { follows: true }) } };
}
