import { keys, weightScorer } from '@kv/core';
import type { Ops, Tensor } from '@kv/core';
import { scorer } from '../../src/scorer.ts';
import { field, memory, peek, withPadding } from './field.ts';
import type { Field } from './field.ts';

const near = (ops: Ops, k: Tensor): Tensor => ops.div(1, ops.add(1, ops.norm(k)));
const known = memory();
export const scorers: Field = field('scorer', scorer, {
  good: weightScorer('near', { needs: [keys] }, ({ ops, keys: k }) => near(ops, k))(),
  mutants: {
    shape: weightScorer('one column', { needs: [keys] }, ({ ops, keys: k }) =>
      ops.reduce('mean', near(ops, k), 'slots'),
    )(),
    finite: weightScorer('divides by 0', { needs: [keys] }, ({ ops, keys: k }) => ops.div(1, ops.norm(k)))(),
    pure: weightScorer('remembers', { needs: [keys] }, ({ ops, keys: k }) => ops.add(near(ops, k), known(k) ? 1 : 0))(),
    traced: weightScorer('reads', { needs: [keys] }, ({ ops, keys: k }) =>
      ops.add(near(ops, k), peek(k) > 0 ? 1 : 0),
    )(),
    padding: weightScorer('sees padding', { needs: [keys] }, ({ ops, keys: k }) =>
      ops.add(near(ops, k), withPadding(ops, near(ops, k))),
    )(),
    floor: weightScorer('forces without a floor', { needs: [keys] }, ({ ops, keys: k }) => ({
      scores: near(ops, k),
      forced: ops.lastSlots(near(ops, k), 1),
    }))(),
    equivariant: weightScorer('likes the last', { needs: [keys] }, ({ ops, keys: k }) =>
      ops.add(near(ops, k), ops.lastSlots(near(ops, k), 1)),
    )(),
    weights: weightScorer('negative', { needs: [keys] }, ({ ops, keys: k }) => ops.sub(0, near(ops, k)))(),
  },
});
