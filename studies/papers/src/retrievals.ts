import type { Sequence } from '@kv/models';
import { sum } from '@kv/evaluation/shared';
import type { Numbers } from './types.ts';

/**
 * Pieces that share sets between queries count their retrievals in a state of this name, f32 [query heads, 1] a layer.
 */
const COUNTED = /^state\.\w+\.retrievals$/;

/**
 * Retrieval ratio of a policy that shares, from the states that its cache holds, and what it read a token: keys
 * where it retrieved, keys and values of what it saw,
 * at most `seen` with neighbours of its strongest third. Nothing for others.
 */
export async function retrievalsOf(
  sequence: Sequence,
  seen: number | undefined,
  steps: number,
  slots: number,
): Promise<Numbers> {
  if (seen === undefined || sequence.policy.hooks('view').length === 0) return {};
  const { layers, queryHeads } = sequence.model.config,
    held = await sequence.memory.saved(),
    counts = held.layers.flatMap(({ states }) => states.flatMap(({ id, data }) => (COUNTED.test(id) ? [...data] : [])));
  if (counts.length === 0) return {};
  const retrievals = sum(counts) / (layers * queryHeads * steps);
  return { retrievals, keyBytes: (retrievals * slots + 2 * (seen + 2 * Math.floor(seen / 3))) / (2 * slots) };
}
