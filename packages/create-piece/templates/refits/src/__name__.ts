import { biases, count, keys, onCompact, positions, queries } from '@kv/core';
import type { Ops, Tensor } from '@kv/core';
import { causalDot } from '@kv/core/shared';

/** Logits capped where the model caps them, cap tanh(x / cap); those of slots that a query does not see stay lowest. */
const capped = (ops: Ops, x: Tensor, cap: number | undefined): Tensor =>
  cap === undefined
    ? x
    : ops.where(
        ops.less(-1e30, x),
        ops.mul(cap, ops.sub(1, ops.div(2, ops.add(ops.exp(ops.min(ops.mul(x, 2 / cap), 80)), 1)))),
        x,
      );

/**
 * One bias for all kept slots of a head: with it the last queries give them the mass that they gave all slots, as nearly
 * as one number can. Sliding windows, and what an earlier fold adds to attention, are not counted.
 *
 * @remarks Source: authors, year, identifier, equation. Biases `[G, n]`; keys and values stay. O(queries n d) a head.
 */
export const __camel__ = onCompact(
  '__camel__',
  {
    source: 'authors, year, identifier, equation',
    says: 'Gives kept slots the mass of all, by one bias a head.',
    options: { queries: count(16, 'queries', 'Last queries that are matched.') },
    needs: ({ queries: w }) => [keys, positions, biases, queries(w)],
    biases: () => true,
  },
  ({ ops, at, keys: k, positions: p, biases: b, queries: q, kept }) => {
    const [H = 1, w = 1, d = 1] = q.shape,
      { scale = 1 / Math.sqrt(d), softcap } = at;
    const dots = ops.kernel(
      causalDot,
      { q: ops.reshape(ops.mul(q, scale), [H * w, d]), k, p },
      { block: w, first: at.length - w },
    ); // [H w, n]
    const logits = ops.add(capped(ops, dots, softcap), b);
    const e = ops.mul(ops.exp(ops.sub(logits, ops.reduce('max', logits, 'slots'))), ops.less(-1e30, dots));
    const [all, held] = [ops.sum(e), ops.sum(ops.mul(e, ops.mark(kept, b)))]; // [H w, 1]
    const over = (x: Tensor): Tensor => ops.groupRows('sum', x, at.kvHeads);
    const squares = over(ops.mul(held, held));
    // B minimises Σ (B held - all)², and is at least 1, as all >= held
    const B = ops.max(ops.div(over(ops.mul(held, all)), ops.max(squares, 1e-30)), 1);
    return { biases: ops.add(b, ops.where(ops.less(0, squares), ops.log(B), 0)) };
  },
);
