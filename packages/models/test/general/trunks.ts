import { positions, selector, tokens, unit } from '@kv/core';
import type { Selector, Unit } from '@kv/core';

/** Sentences as units: a token whose text ends in . ! ? or holds a newline ends the sentence it belongs to. Score: the mean of the tokens'. */
export const sentences = (): Unit<'sentences'> => unit('sentences', [tokens, positions], ({ ops, at, scores, tokens: { text, offsets }, positions: p }) => {
  let sentence = 0;
  const table = Uint32Array.from({ length: at.length }, (_, i) => (/[.!?]\s*$|\n/.test(text.slice(...(offsets[i] ?? [0, 0]))) ? sentence++ : sentence));
  const of = ops.take(ops.from({ data: table, shape: [1, at.length] }), p);
  return { units: { of, count: sentence + 1 }, scores: ops.groupSlots('mean', scores, of, sentence + 1) };
});

/** Whole units from the best down; of the unit that no longer fits, its best tokens (branch dissolution's two levels). */
export const twoLevel = (): Selector<'twoLevel'> => selector('twoLevel', [], ({ ops, at, scores, units, unitScores, budgets, ...masks }) => {
  const place = ops.take(ops.rank(unitScores!, 'row'), units!.of);
  return ops.select(ops.sub(ops.mul(place, -at.slots), ops.rank(scores, 'row')), budgets, masks);
});
