import { apportion, KvError } from '@kv/core';
import { allocator } from '@kv/core/old';
import type { Allocator } from '@kv/core';
import { numbersOf, shown } from './numbers.ts';
import type { Numbers } from './numbers.ts';

export interface GivenOptions {
  /**
   * What each layer, or each KV head of it, gets against the others: shares or slots; one number stands for all.
   * @defaultValue '1'
   */
  readonly shares?: Numbers;
}

/**
 * Budgets by hand: the slots asked for go to layers, or to their KV heads, in the proportions given.
 *
 * @remarks What kvpress' PerLayerCompressionPress takes, with an exact sum: largest remainders, ties to the earlier
 * head. No head gets fewer slots than are forced in it or more than it holds; what
 * that moves goes to the others in equal parts.
 * @throws KvError if `shares` are no numbers of at least 0, all 0, or, when planned, of other layers or heads than the
 * model's.
 */
export function given({ shares = '1' }: GivenOptions = {}): Allocator<'given'> {
  const rows = numbersOf('given', 'shares', shares);
  if (rows.flat().every((x) => x === 0))
    throw new KvError('given', `shares must have one above 0, got ${shown(rows).slice(0, 120)}`);
  return allocator({ name: 'given', options: { shares: shown(rows) } }, (plan) => {
    const { budgets, lengths, floor } = plan,
      weights = budgets.map((heads, l) =>
        heads.map((_, g) => {
          const row = rows.length === 1 ? rows[0] : rows[l],
            share = row?.length === 1 ? row[0] : row?.[g];
          if (
            share === undefined ||
            (rows.length > 1 && rows.length !== budgets.length) ||
            (row.length > 1 && row.length !== heads.length)
          )
            throw new KvError(
              'given',
              `shares must be of 1 or ${budgets.length} layers with 1 or ${heads.length} heads each, got ${rows.length} layers with ${row?.length ?? 0} in layer ${l}`,
            );
          return share;
        }),
      );
    const total = budgets.flat().reduce((a, b) => a + b, 0),
      least = Math.min(floor, Math.floor(total / Math.max(1, budgets.flat().length))),
      all = weights.flat().reduce((a, b) => a + b, 0);
    const made = apportion(
      weights.flat().map((w) => (w / all) * total),
      total,
      least,
      lengths.flat(),
    );
    let at = 0;
    return { ...plan, budgets: budgets.map((heads) => heads.map(() => made[at++])) };
  });
}
