import { biases, count, flag, keys, KvError, number, onCompact, positions, queries, values } from '@kv/core';
import type { LayerContext, Ops, Tensor } from '@kv/core';
import { dualEquations, referenceLogits, solved, spread, UNSEEN } from './kernels.ts';

/** What the reference queries see of all slots and of the kept ones. */
interface Reference {
  readonly ops: Ops;
  /** e^(logit - the query's largest), `[H w, n]`. */
  readonly e: Tensor;
  /** The same of kept slots, 0 for others. */
  readonly kept: Tensor;
  /** Σ e over all slots: the mass of a query, `[H w, 1]`. */
  readonly y: Tensor;
  /** e^(sink - the query's largest), 0 without sinks, `[H w, 1]`. */
  readonly sink: Tensor | 0;
  /** 1 for kept slots, `[G, n]`. */
  readonly stays: Tensor;
}

/** Xᵀ (X Xᵀ + λ)⁻¹ r: the smallest change of the kept slots' numbers that gives x's queries what is missing, `[G, n, c]`. */
const smallestChange = ({ ops, stays }: Reference, x: Tensor, r: Tensor, ridge: number): Tensor =>
  ops.kernel(spread, {
    x,
    stays,
    alpha: ops.kernel(solved, { a: ops.kernel(dualEquations, { x, stays, r }) }, { ridge }),
  });

/** Σ x² over each row, and over the rows of each KV head, `[G, 1]`. */
const squaresOf = (ops: Ops, x: Tensor, G: number): Tensor => ops.groupRows('sum', ops.sum(ops.mul(x, x)), G);

/** Projected gradient steps after the closed form. */
const STEPS = 2;

/**
 * B >= 0 that minimises |E B - y|² within [e^-bound, e^bound]: how many slots each kept slot stands for, `[G, n]`; 1 in a
 * head where that is no better.
 */
function masses(reference: Reference, ridge: number, bound: number): Tensor {
  const { ops, kept, y, stays } = reference,
    [G = 1] = stays.shape,
    error = (b: Tensor): Tensor => ops.sub(ops.sum(ops.mul(kept, b)), y),
    squares = (b: Tensor): Tensor => squaresOf(ops, error(b), G),
    within = (b: Tensor): Tensor => ops.max(ops.min(b, Math.exp(bound)), Math.exp(-bound)),
    one = ops.fill(stays, 1),
    missing = ops.mul(error(one), -1),
    change = ops.reduce('sum', smallestChange(reference, kept, missing, ridge), 'channels');
  // no eigenvalue of EᵀE is above its largest row sum
  const steepest = ops.reduce('max', ops.groupRows('sum', ops.mul(kept, ops.sum(kept)), G), 'slots');
  let b = within(ops.add(one, change));
  for (let step = 0; step < STEPS; step++) {
    const gradient = ops.groupRows('sum', ops.mul(kept, error(b)), G);
    b = within(ops.sub(b, ops.div(gradient, ops.max(steepest, 1e-30))));
  }
  return ops.where(ops.mul(stays, ops.atLeast(squares(one), squares(b))), b, 1);
}

/** Returns what the reference queries see, their weights from the logits that the model attends with. */
function referenceOf(
  { ops, at }: { readonly ops: Ops; readonly at: LayerContext },
  logits: Tensor,
  stays: Tensor,
  count: number,
): Reference {
  const { learnedSinks: sinks } = at,
    own =
      sinks &&
      ops.from({
        data: Float32Array.from({ length: sinks.length * count }, (_, row) => sinks[Math.floor(row / count)]),
        shape: [sinks.length * count, 1],
      }),
    most = ops.reduce('max', logits, 'slots'),
    // of a query that sees nothing, all are 0
    top = ops.max(own ? ops.max(most, own) : most, UNSEEN / 10),
    e = ops.exp(ops.sub(logits, top));
  return { ops, e, kept: ops.mul(e, stays), y: ops.sum(e), sink: own ? ops.exp(ops.sub(own, top)) : 0, stays };
}

/**
 * Attention Matching: gives each kept slot a bias, so that the kept slots have the mass of all on reference queries, and a
 * value, so that attention over them answers as attention over all did.
 *
 * @remarks Zweiger et al. 2026 (Attention Matching, arXiv:2602.16284), its closed forms behind any selection. With E = e^logit of the last `queries` queries of all heads of a group and y its row sums, over all slots:
 * B >= 0 minimises |E_S B - y|² over the kept slots S, beta = ln B joins their logits; with X the weights of S that B gives
 * and Y the outputs over all slots, C minimises |X C - Y|² and replaces V_S. Both are solved for the smallest change from
 * B = 1 and C = V_S, with a ridge: where all is kept nothing changes, and fewer queries than slots are no trouble. On the
 * reference queries neither the error of the mass nor that of the output is above that of the kept slots as they are; a
 * head where it would be stays as it is. Biases that slots had are part of what is matched. Keys and kept slots stay. O(m²
 * (kept + m)) a KV head, m = `queries` times the heads of a group.
 */
export const fit = onCompact(
  'fit',
  {
    source: 'Zweiger et al. 2026, arXiv:2602.16284',
    says: 'Refits mass and values of kept slots so that they answer as all slots did.',
    options: {
      queries: count(64, 'queries', 'Last queries that the fit matches.'),
      ridge: number(1e-3, 'What a change costs, in mean squared weights of the queries.', { above: 0 }),
      bound: number(3, 'Largest bias that an event gives or takes, in nats.', { least: 0, most: 20 }),
      mass: flag(true, 'Whether slots get biases.'),
      values: flag(true, 'Whether values are refitted.'),
    },
    needs: ({ queries: w }) => [keys, values, positions, biases, queries(w)],
    biases: ({ mass }) => mass,
  },
  (ctx, { ridge, bound, mass, values: refits }) => {
    const { ops, at, keys: k, values: v, positions: p, biases: before, queries: q, kept } = ctx,
      [, w = 1, d = 1] = q.shape,
      G = k.shape[0],
      { scale = 1 / Math.sqrt(d), softcap: cap = 0, window = 0 } = at;
    const logits = ops.kernel(referenceLogits, { q, k, p, b: before }, { scale, cap, window, first: at.length - w });
    const reference = referenceOf(ctx, logits, ops.mark(kept, before), w),
      { e, sink, stays } = reference;
    /** Weights from exponentials, `[H w, n]`. */
    const weights = (of: Tensor): Tensor => ops.div(of, ops.max(ops.add(ops.sum(of), sink), 1e-30));
    const b = mass ? masses(reference, ridge, bound) : ops.fill(stays, 1);
    const beta = ops.log(b);
    const x = weights(ops.mul(reference.kept, b));
    const outputs = ops.matmul(weights(e), v);
    const missing = ops.sub(outputs, ops.matmul(x, v));
    const change = refits ? smallestChange(reference, x, missing, ridge) : ops.fill(v, 0);
    const left = ops.sub(missing, ops.matmul(x, change));
    const plain = ops.sub(outputs, ops.matmul(weights(reference.kept), v));
    const better = ops.atLeast(squaresOf(ops, plain, G), squaresOf(ops, left, G)); // [G, 1]
    return {
      ...(mass && { biases: ops.add(before, ops.where(better, beta, 0)) }),
      ...(refits && { values: ops.add(v, ops.where(better, change, 0)) }),
    };
  },
);
