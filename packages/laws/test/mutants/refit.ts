import { biases, keys, onCompact, positions, queries, values } from '@kv/core';
import type { Ops, Replacement, Tensor } from '@kv/core';
import { causalDot } from '@kv/core/shared';
import { refitting } from '../../src/refit.ts';
import { field } from './field.ts';
import type { Field } from './field.ts';

interface Seen {
  readonly ops: Ops;
  readonly keys: Tensor;
  readonly values: Tensor;
  readonly biases: Tensor;
  readonly stays: Tensor;
  /** 1 where a head keeps all of its slots, `[G, 1]`. */
  readonly whole: Tensor;
}
type Spoil = (seen: Seen, mass: Tensor) => Replacement;

/** One bias for all kept slots of a head: they have the mass of all slots, as well as one number can give it. */
const uniform = (name: string, spoil: Spoil = ({ ops, biases: b }, mass) => ({ biases: ops.add(b, mass) })) =>
  onCompact(
    name,
    { needs: [keys, values, positions, biases, queries(4)], biases: () => true },
    ({ ops, at, keys: k, values: v, positions: p, biases: b, queries: q, kept }) => {
      const [H = 1, w = 1, d = 1] = q.shape,
        stays = ops.mark(kept, b),
        dots = ops.kernel(
          causalDot,
          { q: ops.reshape(ops.mul(q, 1 / Math.sqrt(d)), [H * w, d]), k, p },
          { block: w, first: at.length - w },
        ),
        logits = ops.add(dots, b),
        e = ops.mul(ops.exp(ops.sub(logits, ops.reduce('max', logits, 'slots'))), ops.less(-1e30, dots)),
        [y, z] = [ops.sum(e), ops.sum(ops.mul(e, stays))],
        over = (x: Tensor): Tensor => ops.groupRows('sum', x, at.kvHeads),
        held = over(ops.mul(z, z)),
        mass = ops.where(ops.less(0, held), ops.log(ops.max(ops.div(over(ops.mul(z, y)), ops.max(held, 1e-30)), 1)), 0),
        whole = ops.zip('equal', ops.sum(stays), ops.sum(ops.fill(stays, 1)));
      return spoil({ ops, keys: k, values: v, biases: b, stays, whole }, mass);
    },
  )();
/** The largest number of all heads, `[1, 1]`. */
const most = (ops: Ops, x: Tensor): Tensor => ops.reduce('max', ops.reduce('max', x, 'slots'), 'rows');
/** More than two biases of one slot may differ by, and less than an error may grow by. */
const SLIGHT = 3e-5;

const good = uniform('one mass');
export const refits: Field = field('refit', refitting, {
  good,
  mutants: {
    // before any slot has a bias
    whole: uniform('shifts a whole cache', ({ ops, biases: b, whole }, mass) => ({
      biases: ops.add(b, ops.add(mass, ops.mul(whole, ops.mul(SLIGHT, ops.less(most(ops, ops.mul(b, b)), 1e-12))))),
    })),
    mass: uniform('gives half a nat more', ({ ops, biases: b, whole }, mass) => ({
      biases: ops.add(b, ops.add(mass, ops.mul(0.5, ops.sub(1, whole)))),
    })),
    output: uniform('makes values longer', ({ ops, values: v, biases: b, whole, stays }, mass) => ({
      biases: ops.add(b, mass),
      values: ops.scale(v, ops.add(ops.mul(0.5, ops.sub(1, whole)), ops.fill(stays, 1))),
    })),
    slots: uniform('moves keys', ({ ops, keys: k, biases: b }, mass) => ({
      keys: ops.add(k, 1e-3),
      biases: ops.add(b, mass),
    })),
    // random caches have no such biases, refitted ones do
    idempotent: uniform('goes on', ({ ops, biases: b, whole }, mass) => ({
      biases: ops.add(b, ops.add(mass, ops.mul(whole, ops.mul(SLIGHT, ops.less(1, most(ops, b)))))),
    })),
    order: uniform('looks at the last slot', ({ ops, biases: b, stays }, mass) => ({
      biases: ops.add(b, ops.mul(mass, ops.reduce('max', ops.mul(stays, ops.lastSlots(stays, 1)), 'slots'))),
    })),
  },
});
