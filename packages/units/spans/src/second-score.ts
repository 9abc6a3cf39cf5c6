import { number, oneOf, PROTOCOL } from '@kv/core';
import { factory, inside, mergeMasks } from '@kv/core/shared';
import type { AnyScorer, DraftSelection, Factory, Piece, Step, StepInput } from '@kv/core';
import { score } from './spans.ts';

const options = {
  join: oneOf(['max', 'sum'], 'max', 'The larger of the two unit scores, or their sum.'),
  weight: number(1, "What the second scorer's unit scores are multiplied by."),
  score,
};

/**
 * Joins unit scores with those of a second scorer: u <- max(u, w s) or u + w s, where s is the mean, maximum or sum of
 * the second scorer's scores over the unit's slots. A unit stays for either reason, or for both together.
 *
 * @remarks The max is CrystalCache's (eq. 29) for any two scorers. It is not the same as joining scores before the unit
 * is cut: the larger of two means is not the mean of the larger. A weighted sum of means is, with `weighted()`. Over
 * units that share one row the second scores are a mean over the rows. What the second scorer forces or bans does not
 * count: budgets are shared out by then. Unit scores `[rows, units]`. O(rows n) in addition to the scorer.
 * @example
 * ```ts
 * compose(snapkv(), spans(), secondScore(h2o(), { join: 'max' }), wholeUnits())
 * ```
 */
export const secondScore: Factory<typeof options, Piece<'units', 'units', 'secondScore'>, [by: AnyScorer]> = factory(
  'secondScore',
  {
    source: 'CrystalCache, eq. 29',
    says: 'Units by a second scorer too: the larger of the two unit scores, or a weighted sum.',
    options,
  },
  { kind: 'unit', takes: 'scorer', from: ['units'], to: 'units' },
  (o, label, by) => {
    const { hooks, run, needs, needsFullPrompt, reach } = inside('secondScore', [by]);
    const joined = (
      cell: StepInput,
      { forced: _, banned: __, forcedBy: ___, ...second }: DraftSelection,
    ): DraftSelection => {
      const { ops, draft } = cell,
        { units, unitScores: first } = draft;
      if (!units || !first || !second.scores) throw new Error('expected units of a piece before it, got none');
      const each = ops.groupSlots(o.score, second.scores, units.of, units.count),
        alike = ops.mul(ops.reduceRows('mean', each, first.shape[0]), o.weight);
      return {
        ...mergeMasks(cell, second),
        unitScores: o.join === 'max' ? ops.max(first, alike) : ops.add(first, alike),
      };
    };
    const step: Step = {
      at: 'event',
      kind: 'unit',
      name: 'secondScore',
      label,
      needs,
      needsFullPrompt,
      reach,
      run(cells) {
        const [drafts] = run(cells);
        return cells.map((cell, i) => joined(cell, drafts[i]));
      },
    };
    return { protocol: PROTOCOL, from: ['units'], to: 'units', name: 'secondScore', label, atoms: [step, ...hooks] };
  },
);
