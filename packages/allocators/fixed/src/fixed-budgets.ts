import { allocator, KvError } from '@kv/core';
import { apportion, sumOf } from '@kv/core/shared';
import { numbers, rowsOf } from './numbers.ts';

/**
 * Budgets by hand: distributes the requested slots to layers, or to their KV heads, in proportion to `shares`.
 *
 * @remarks kvpress' PerLayerCompressionPress, with an exact sum: largest remainders, ties to the earlier head. No head
 * gets fewer slots than are forced in it or more than it holds; the difference is distributed to the others in equal
 * parts.
 * @throws KvError, when planned, if the shares have other layers or heads than the model.
 */
export const fixedBudgets = allocator(
  'fixedBudgets',
  {
    source: 'by hand',
    says: 'Budgets of layers or heads in proportions set by hand.',
    options: {
      shares: numbers(
        '1',
        'What each layer, or each KV head of it, gets against the others: shares or slots; one number stands for all.',
      ),
    },
    check: ({ shares }) =>
      rowsOf(shares)
        .flat()
        .every((x) => x === 0) && `shares must have one above 0, got ${String(shares).slice(0, 120)}`,
  },
  (plan, { shares }) => {
    const { budgets, lengths, floor } = plan;
    const rows = rowsOf(shares);
    const weights = budgets.flatMap((heads, l) => {
      const row = (rows.length === 1 ? rows[0] : rows[l]) ?? [];
      if ((rows.length > 1 && rows.length !== budgets.length) || (row.length !== 1 && row.length !== heads.length))
        throw new KvError(
          'fixedBudgets',
          `shares must be of 1 or ${budgets.length} layers with 1 or ${heads.length} heads each, got ${rows.length} layers with ${row.length} in layer ${l}`,
        );
      return heads.map((_, g) => (row.length === 1 ? row[0] : row[g]));
    });
    const total = sumOf(budgets.flat());
    const least = Math.min(floor, Math.floor(total / Math.max(1, weights.length)));
    const all = sumOf(weights);
    const wanted = weights.map((w) => (w / all) * total);
    const slots = apportion(wanted, total, least, lengths.flat());
    let at = 0;
    return { ...plan, budgets: budgets.map((heads) => heads.map(() => slots[at++])) };
  },
);
