import { allowanceOf } from '@kv/core/engine';
import type { SlotBytes } from '@kv/core';
import { movesTogether, policySizes } from '../cache/slot-sizes.ts';
import type { ActivePolicy } from './active-policy.ts';
import type { SequenceCaches } from './caches.ts';

/**
 * Returns the bytes of a sequence's slots at this number of tokens: kept slots are moved together, which costs a
 * rotation each, once the tokens exceed the window or the policy says so. What was folded before, biases, and words
 * of demoted slots go on to take theirs.
 */
export function sizesAt(
  { context: { model, form, window, progress }, slots }: SequenceCaches,
  { policy, attends }: Pick<ActivePolicy, 'policy' | 'attends'>,
  tokens: number,
): SlotBytes {
  const moved = progress.shift > 0 || tokens > window || movesTogether(policy);
  return policySizes(model.config, form, policy, moved, { attends, ...slots.traits });
}

/** Returns the active policy for an event at this number of tokens: bytes, and a share that follows, are slots again. */
export function atLength(active: ActivePolicy, tokens: number, caches: SequenceCaches): ActivePolicy {
  const { policy, budget } = active,
    given = budget?.bytes === undefined ? budget?.follows && budget.share : { bytes: budget.bytes };
  if (!given) return active;
  const next = allowanceOf(policy, given, tokens, { sizes: sizesAt(caches, active, tokens) });
  return { ...active, budget: { ...next, ...(budget?.follows && { follows: true }) } };
}
