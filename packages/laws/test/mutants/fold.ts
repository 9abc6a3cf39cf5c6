import { biases, keys, onAttend, onEvict, state, values } from '@kv/core';
import type { Ops, Tensor } from '@kv/core';
import { folding } from '../../src/fold.ts';
import { field } from './field.ts';
import type { Field } from './field.ts';

interface Folded {
  readonly ops: Ops;
  /** Weights of the slots that leave, 0 for others, `[G, n]`. */
  readonly w: Tensor;
  readonly n: Tensor;
  readonly count: Tensor;
  readonly key: Tensor;
  readonly value: Tensor;
}
const own = { kind: 'sequence', rows: 'kv' } as const,
  count = state('count', own),
  key = state('key', { ...own, width: 0, perChannel: 1 }),
  value = state('value', { ...own, width: 0, perChannel: 1 });

/** One slot that stands for all that left: their count, mean key and mean value. */
const mean = (
  name: string,
  {
    weight = (w) => w,
    joined = (x) => x,
    bias = (x) => x,
  }: {
    weight?(w: Tensor, ops: Ops): Tensor;
    joined?(total: Tensor, of: Folded): Tensor;
    bias?(mass: Tensor, ops: Ops, rows: number): Tensor;
  } = {},
) =>
  onEvict(
    name,
    {
      needs: [keys, values, biases, count, key, value],
      hooks: () => [
        onAttend(name, { needs: [count, key, value] }, ({ ops, at, queries: q, count: n, key: k, value: v }) => {
          const [H = 1, m = 1, d = 1] = q.shape,
            by = at.scale ?? 1 / Math.sqrt(d),
            each = (x: Tensor): Tensor => ops.broadcast(ops.broadcast(x, H), H * m),
            flat = ops.reshape(q, [H * m, d]),
            cap = at.softcap ?? 0,
            plain = ops.mul(ops.sum(ops.mul(flat, each(k))), by),
            half = ops.exp(ops.mul(plain, cap && 2 / cap)),
            logit = cap ? ops.mul(cap, ops.sub(1, ops.div(2, ops.add(half, 1)))) : plain,
            masses = ops.where(ops.less(0, each(n)), ops.add(logit, ops.log(ops.max(each(n), 1e-30))), -1e30);
          return {
            masses: bias(ops.reshape(masses, [H, m]), ops, H),
            values: ops.reshape(each(v), [H, m, d]),
          };
        })(),
      ],
    },
    ({ ops, keys: k, values: v, biases: b, kept, count: n, key: was, value: held }) => {
      const w = weight(ops.mul(ops.sub(1, ops.mark(kept, b)), ops.exp(b)), ops),
        total = joined(ops.add(n, ops.sum(w)), { ops, w, n, count: n, key: was, value: held }),
        over = (x: Tensor, before: Tensor): Tensor =>
          ops.div(ops.add(ops.matmul(w, x), ops.mul(before, n)), ops.max(total, 1e-30));
      return { count: total, key: over(k, was), value: over(v, held) };
    },
  )();

export const folds: Field = field('fold', folding, {
  good: mean('one mean'),
  mutants: {
    nothing: mean('begins with a slot', { joined: (total, { ops }) => ops.max(total, 1e-6) }),
    single: mean('counts a slot twice', { bias: (mass, ops) => ops.add(mass, Math.log(2)) }),
    joined: mean('loses a tenth with every later event', {
      joined: (total, { ops, w, n }) =>
        ops.where(ops.mul(ops.less(0, n), ops.less(0, ops.sum(w))), ops.mul(total, 0.9), total),
    }),
    // less than the other laws allow for rounding
    heads: mean('looks at other heads', {
      weight: (w, ops) => ops.add(w, ops.mul(w, ops.mul(5e-6, ops.reduce('sum', ops.sum(w), 'rows')))),
    }),
  },
});
