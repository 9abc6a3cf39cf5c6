import { positions, tokens, weigher } from '@kv/core';
import type { Weigher } from '@kv/core';
import { counts } from './counts.ts';

/**
 * Von Restorff rarity, U = 1 / (1 + ln(1 + c)), c the occurrences of a slot's token id in the present context.
 *
 * @remarks CrystalCache, eq. 20 and 21. Weights in (0, 1/(1 + ln 2)] on KV rows `[G, n]`; needs ids only, O(N). The context is
 * everything seen so far: the paper counts over all n input ids, so evicted tokens count too.
 */
export const rarity = (): Weigher<'rarity'> => weigher('rarity', [tokens, positions], ({ ops, at, tokens: { ids }, positions: p }) => {
  const c = ops.take(ops.from(counts(ids, at.length)), p); // [G, n]
  return ops.div(1, ops.add(1, ops.map('log1p', c)));
});
