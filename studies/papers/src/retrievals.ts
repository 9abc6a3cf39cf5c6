import type { Sequence } from '@kv/models';
import { sum } from '@kv/evaluation/shared';
import type { Numbers } from './types.ts';

/** State in which pieces that share sets between queries count their retrievals, f32 [query heads, 1] per layer. */
const COUNTED = /^state\.\w+\.retrievals$/;

/**
 * Returns the retrieval ratio of a policy that shares sets, from its cache's states, and what it read per token as a
 * share of all keys and values: keys where it retrieved, keys and values of what it saw, at most `seen` with neighbours
 * of its strongest third. Nothing for other policies.
 */
export async function retrievalsOf(
  sequence: Sequence,
  seen: number | undefined,
  steps: number,
  slots: number,
): Promise<Numbers> {
  if (seen === undefined || sequence.active.policy.hooks('view').length === 0) return {};
  const { layers, queryHeads } = sequence.model.config,
    held = await sequence.memory.snapshot(),
    counts = held.layers.flatMap(({ states }) => states.flatMap(({ id, data }) => (COUNTED.test(id) ? [...data] : [])));
  if (counts.length === 0) return {};
  const retrievals = sum(counts) / (layers * queryHeads * steps);
  return { retrievals, keyBytes: (retrievals * slots + 2 * (seen + 2 * Math.floor(seen / 3))) / (2 * slots) };
}
