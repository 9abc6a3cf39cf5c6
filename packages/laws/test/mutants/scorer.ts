import { keys, weigher } from '@kv/core';
import type { Ops, Tensor } from '@kv/core';
import { scorer } from '../../src/scorer.ts';
import { field, memory, peek, withPadding } from './field.ts';
import type { Field } from './field.ts';

const near = (ops: Ops, k: Tensor): Tensor => ops.div(1, ops.add(1, ops.norm(k)));
const known = memory();
export const scorers: Field = field('scorer', scorer, {
  good: weigher('near', { needs: [keys] }, ({ ops, keys: k }) => near(ops, k))(),
  mutants: {
    shape: weigher('one column', { needs: [keys] }, ({ ops, keys: k }) => ops.reduce('mean', near(ops, k), 'slots'))(),
    finite: weigher('divides by 0', { needs: [keys] }, ({ ops, keys: k }) => ops.div(1, ops.norm(k)))(),
    pure: weigher('remembers', { needs: [keys] }, ({ ops, keys: k }) => ops.add(near(ops, k), known(k) ? 1 : 0))(),
    traced: weigher('reads', { needs: [keys] }, ({ ops, keys: k }) => ops.add(near(ops, k), peek(k) > 0 ? 1 : 0))(),
    padding: weigher('sees padding', { needs: [keys] }, ({ ops, keys: k }) =>
      ops.add(near(ops, k), withPadding(ops, near(ops, k))),
    )(),
    floor: weigher('forces without a floor', { needs: [keys] }, ({ ops, keys: k }) => ({
      scores: near(ops, k),
      forced: ops.lastSlots(near(ops, k), 1),
    }))(),
    equivariant: weigher('likes the last', { needs: [keys] }, ({ ops, keys: k }) =>
      ops.add(near(ops, k), ops.lastSlots(near(ops, k), 1)),
    )(),
    weights: weigher('negative', { needs: [keys] }, ({ ops, keys: k }) => ops.sub(0, near(ops, k)))(),
  },
});
