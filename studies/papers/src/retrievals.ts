import { slotHeads } from '@kv/checkpoints';
import type { Sequence } from '@kv/models';
import { mean, sum } from '@kv/evaluation/shared';
import type { Numbers } from './types.ts';

/** State in which pieces that share sets between queries count their retrievals, f32 [query heads, 1] per layer. */
const COUNTED = /^state\.\w+\.retrievals$/;

/**
 * Returns the retrieval ratio of a policy that shares sets, from its cache's states, and what it read per token as a
 * share of all keys and values: what choosing read, and keys and values of the slots that heads attended to, both as the
 * engine counted them; where it counts none, keys where it retrieved and the `seen` slots. Nothing for other policies.
 *
 * @param seen mean slots that a head attended to, if they were observed
 * @param slots mean slots of the cache
 */
export async function retrievalsOf(
  sequence: Sequence,
  seen: number | undefined,
  steps: number,
  slots: number,
): Promise<Numbers> {
  const { model, active, memory } = sequence;
  if (active.policy.hooks('view').length === 0) return {};
  const { layers, queryHeads } = model.config,
    channels = mean(slotHeads(model.config).map(({ headDim }) => headDim)),
    rows = layers * queryHeads * steps,
    held = await memory.snapshot(),
    { shownSlots, viewReads } = memory.caches.context.counters,
    counts = held.layers.flatMap(({ states }) => states.flatMap(({ id, data }) => (COUNTED.test(id) ? [...data] : [])));
  if (counts.length === 0) return {};
  const retrievals = sum(counts) / rows,
    shown = shownSlots ? shownSlots / rows : seen,
    keys = viewReads ? viewReads / channels / rows : retrievals * slots; // a watched view chooses where nothing is counted
  return { retrievals, ...(shown !== undefined && { keyBytes: (keys + 2 * shown) / (2 * slots) }) };
}
