import { biases, keys, onAttend, onEvict, state, values } from '@kv/core';
import type { Ops, Tensor } from '@kv/core';

/** What is kept of a head's slots that left: how many, and their mean key and value, `[G, 1]` and `[G, d]`. */
const count = { ...state('count', { kind: 'sequence', rows: 'kv' }), id: 'state.__camel__.count' },
  key = { ...state('key', { kind: 'sequence', rows: 'kv', width: 0, perChannel: 1 }), id: 'state.__camel__.key' },
  value = { ...state('value', { kind: 'sequence', rows: 'kv', width: 0, perChannel: 1 }), id: 'state.__camel__.value' };

/** Logits of x `[r, 1]`, capped where the model caps them: cap tanh(x / cap). */
const capped = (ops: Ops, x: Tensor, cap: number | undefined): Tensor =>
  cap === undefined
    ? x
    : ops.mul(cap, ops.sub(1, ops.div(2, ops.add(ops.exp(ops.mul(x, 2 / cap)), 1))));

const read = onAttend(
  '__camel__',
  {
    source: 'authors, year, identifier, equation',
    says: 'Reads the mean of the slots that left.',
    needs: [count, key, value],
  },
  ({ ops, at, queries: q, count: n, key: k, value: v }) => {
    const [H = 1, m = 1, d = 1] = q.shape,
      { scale = 1 / Math.sqrt(d), softcap } = at,
      each = (x: Tensor): Tensor => ops.broadcast(ops.broadcast(x, H), H * m);
    const dots = ops.sum(ops.mul(ops.reshape(q, [H * m, d]), each(k)));
    const logits = capped(ops, ops.mul(dots, scale), softcap); // [H m, 1]
    const masses = ops.where(ops.less(0, each(n)), ops.add(logits, ops.log(ops.max(each(n), 1e-30))), -1e30);
    return { masses: ops.reshape(masses, [H, m]), values: ops.reshape(each(v), [H, m, d]) };
  },
);

/**
 * Keeps count, mean key and mean value of the slots that leave a head, and attends to them as to one more slot.
 *
 * @remarks Source: authors, year, identifier, equation. A query adds a term of mass n e^(q·k / √d) and of value v to its
 * softmax. A slot with a bias b counts e^b times. O(G n d) an event, O(H d) a query.
 */
export const __camel__ = onEvict(
  '__camel__',
  {
    source: 'authors, year, identifier, equation',
    says: 'Keeps the mean of the slots that leave, which attention goes on reading.',
    needs: [keys, values, biases, count, key, value],
    hooks: () => [read()],
  },
  ({ ops, keys: k, values: v, biases: b, kept, count: n, key: before, value: held }) => {
    const w = ops.mul(ops.sub(1, ops.mark(kept, b)), ops.exp(b)); // of slots that leave, [G, slots]
    const total = ops.add(n, ops.sum(w));
    const mean = (x: Tensor, was: Tensor): Tensor =>
      ops.div(ops.add(ops.matmul(w, x), ops.mul(was, n)), ops.max(total, 1e-30));
    return { count: total, key: mean(k, before), value: mean(v, held) };
  },
);
