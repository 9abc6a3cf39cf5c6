import { normaliser, onStep } from '@kv/core';
import type { Normaliser, Ops, Tensor, Scores, Step } from '@kv/core';
import { transform } from '../../src/transform.ts';
import { field, memory, peek, withPadding } from './field.ts';
import type { Field } from './field.ts';

const made = (name: string, run: (ops: Ops, scores: Tensor) => Scores): Normaliser =>
  normaliser(name, { monotone: true }, ({ ops, scores }) => run(ops, scores))();
const good = made('soft', (ops, s) => ops.softmax(s));
const known = memory(),
  hook = onStep('twice', {}, () => ({}))().atoms[0];
const step = good.atoms[0] as Step;
const runs = new WeakMap<object, number>();
const run = (at: object): number => {
  runs.set(at, (runs.get(at) ?? 0) + 1);
  return runs.get(at)!; // it was set just now
};
/** Squares from the fourth run over the same layer on: no other law runs it that often. */
const peeking: Step = {
  ...step,
  run: (cells) =>
    step
      .run(cells)
      .map((d, i) => (run(cells[i].at) < 4 ? d : { ...d, scores: cells[i].ops.mul(d.scores!, d.scores!) })),
};
export const transforms: Field = field('transform', transform, {
  good,
  mutants: {
    shape: made('one column', (ops, s) => ops.reduce('mean', ops.softmax(s), 'slots')),
    finite: made('divides by 0', (ops, s) => ops.div(1, ops.sub(ops.reduce('max', s, 'slots'), s))),
    pure: made('remembers', (ops, s) => ops.mul(ops.softmax(s), known(s) ? 2 : 1)),
    traced: made('reads', (ops, s) => ops.mul(ops.softmax(s), peek(s) > 0 ? 1 : 2)),
    padding: made('sees padding', (ops, s) => ops.mul(ops.softmax(s), ops.add(1, withPadding(ops, ops.mul(s, s))))),
    floor: made('forces without a floor', (ops, s) => ({ scores: ops.softmax(s), forced: ops.lastSlots(s, 1) })),
    unit: { ...good, atoms: [...good.atoms, hook, hook] },
    associative: { ...good, atoms: [peeking] },
    weights: made('negative', (ops, s) => ops.sub(ops.softmax(s), 1)),
    monotone: made('pools', (ops, s) => ops.pool(ops.softmax(s), { kernel: 3, kind: 'mean' })),
  },
});
