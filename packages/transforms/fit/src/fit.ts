import { biases, count, flag, keys, number, onCompact, oneOf, positions, queries, rope, values } from '@kv/core';
import { range, turnAhead } from '@kv/core/shared';
import { repeatedQueries } from './repeated-queries.ts';
import type {
  AttendingQueries,
  AttentionTerm,
  AttentionTerms,
  LayerContext,
  Ops,
  PlacedQueries,
  Rope,
  StepContext,
  Tensor,
} from '@kv/core';
import { dualEquations, intoSlots, referenceLogits, solved, spread, UNSEEN } from './kernels.ts';

/** What the reference queries see of all slots and of the kept ones. */
interface Reference {
  readonly ops: Ops;
  /** e^(logit - the query's largest) of kept slots, `[H w, t]`. */
  readonly e: Tensor;
  /** What Σ e over kept slots should be: a query's mass over all slots, less what its term gains in the event, `[H w, 1]`. */
  readonly y: Tensor;
  /** A number of each kept slot, `[G, t]`. */
  readonly like: Tensor;
}

/** Xᵀ (X Xᵀ + λ)⁻¹ r: the smallest change of the kept slots' numbers that gives x's queries what is missing, `[G, t, c]`. */
function smallestChange({ ops, like }: Reference, x: Tensor, r: Tensor, ridge: number): Tensor {
  const a = ops.kernel(dualEquations, { x, r }, { heads: like.shape[0] });
  return ops.kernel(spread, { x, alpha: ops.kernel(solved, { a }, { ridge }), like });
}

/** Σ x² over each row, and over the rows of each KV head, `[G, 1]`. */
const squaresOf = (ops: Ops, x: Tensor, G: number): Tensor => ops.groupRows('sum', ops.sum(ops.mul(x, x)), G);

/** Projected gradient steps after the closed form. */
const STEPS = 2;

/**
 * B >= 0 that minimises |E B - y|² within [e^-bound, e^bound]: how many slots each kept slot stands for, `[G, t]`; 1 in a
 * head where that is no better.
 */
function masses(reference: Reference, ridge: number, bound: number): Tensor {
  const { ops, e, y, like } = reference,
    [G = 1] = like.shape,
    error = (b: Tensor): Tensor => ops.sub(ops.sum(ops.mul(e, b)), y),
    within = (b: Tensor): Tensor => ops.max(ops.min(b, Math.exp(bound)), Math.exp(-bound)),
    one = ops.fill(like, 1),
    plain = error(one);
  const change = ops.reduce('sum', smallestChange(reference, e, ops.mul(plain, -1), ridge), 'channels');
  // no eigenvalue of EᵀE is above its largest row sum
  const steepest = ops.max(ops.reduce('max', ops.groupRows('sum', ops.mul(e, ops.sum(e)), G), 'slots'), 1e-30);
  let b = within(ops.add(one, change));
  for (let step = 0; step < STEPS; step++)
    b = within(ops.sub(b, ops.div(ops.groupRows('sum', ops.mul(e, error(b)), G), steepest)));
  return ops.where(ops.atLeast(squaresOf(ops, plain, G), squaresOf(ops, error(b), G)), b, one);
}

type Context = StepContext & { readonly terms: ((rows: AttendingQueries) => AttentionTerms) | undefined };
/** The term in the attention of queries: e^(ln mass - their largest logit) `[H w, 1]`, and a value `[H w, d]`. */
interface Term {
  readonly e: Tensor;
  readonly value: Tensor;
}
/** Exponentials of reference queries: of slots `[H w, n]`, of their sinks, and of a term before and after the event. */
interface Exponentials {
  readonly all: Tensor;
  readonly sink: Tensor | 0;
  readonly before: Term | undefined;
  readonly after: Term | undefined;
}

/** Returns e^(logit - its largest) of all that reference queries attend to. */
function exponentials({ ops, at, terms }: Context, placed: AttendingQueries, logits: Tensor): Exponentials {
  const { learnedSinks: sinks } = at,
    [, , d = 1] = placed.queries.shape,
    rows = logits.shape[0],
    most = ops.reduce('max', logits, 'slots'),
    own =
      sinks &&
      ops.from({
        data: Float32Array.from({ length: rows }, (_, row) => sinks[Math.floor((row * sinks.length) / rows)]),
        shape: [rows, 1],
      }),
    { before, after } = terms?.(placed) ?? {},
    mass = (term: AttentionTerm): Tensor => ops.reshape(term.masses, [rows, 1]),
    masses = [own ?? [], before ? mass(before) : [], after ? mass(after) : []].flat(),
    // of a query that sees nothing, all are 0
    top = ops.max(
      masses.reduce((a, b) => ops.max(a, b), most),
      UNSEEN / 10,
    );
  const of = (x: Tensor): Tensor => ops.exp(ops.sub(x, top)),
    termOf = (term: AttentionTerm): Term => ({ e: of(mass(term)), value: ops.reshape(term.values, [rows, d]) });
  return { all: of(logits), sink: own ? of(own) : 0, before: before && termOf(before), after: after && termOf(after) };
}

/** What a fit reads of queries: with the model's rotation, where the last ones are to be turned ahead. */
interface Queries {
  readonly ops: Ops;
  readonly at: LayerContext;
  readonly queries?: Tensor | undefined;
  readonly rope?: Rope | undefined;
  readonly repeated?: PlacedQueries | undefined;
}
/** Returns the queries that are matched, and where they stand. */
function matched({ ops, at: { length }, queries: last, rope: model, repeated }: Queries): PlacedQueries {
  if (repeated) return repeated;
  const w = last!.shape[1]; // without a repetition the last ones are read
  return model
    ? { queries: turnAhead(ops, last!, model, length), positions: range(length, w) }
    : { queries: last!, positions: range(length - w, w) };
}

/**
 * Attention Matching: gives each kept slot a bias, so that the kept slots have the mass of all on reference queries, and a
 * value, so that attention over them answers as attention over all did.
 *
 * @remarks Zweiger et al. 2026 (Attention Matching, arXiv:2602.16284), its closed forms after any selection. With E = e^logit of `queries` queries of all heads of a group and y its row sums, over all slots:
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
      queries: count(32, 'queries', 'Queries that the fit matches.'),
      from: oneOf(
        ['window', 'future', 'repeat'],
        'window',
        "Which ones: the last ones, the same at the answer's positions, or some while the model repeats the context.",
      ),
      ridge: number(0.1, 'What a change costs, in mean squared weights of the queries.', { above: 0 }),
      bound: number(3, 'Largest bias that an event gives or takes, in nats.', { least: 0, most: 20 }),
      mass: flag(true, 'Whether slots get biases.'),
      values: flag(true, 'Whether values are refitted.'),
    },
    needs: ({ queries: w, from }) =>
      from === 'repeat'
        ? [keys, values, positions, biases, repeatedQueries(w)]
        : from === 'future'
          ? [keys, values, positions, biases, queries(w), rope]
          : [keys, values, positions, biases, queries(w)],
    biases: ({ mass }) => mass,
  },
  (ctx, { ridge, bound, mass, values: refits }) => {
    const { ops, at, keys: k, values: v, positions: p, biases: biased, kept } = ctx,
      { queries: q, positions: times } = matched(ctx),
      [, w = 1, d = 1] = q.shape,
      G = k.shape[0],
      t = ops.from({ data: times, shape: [1, w] }, 'u32'),
      { scale = 1 / Math.sqrt(d), softcap: cap = 0, window = 0 } = at;
    const logits = ops.kernel(referenceLogits, { q, t, k, p, b: biased }, { scale, cap, window });
    const { all, sink, before: was, after: term } = exponentials(ctx, { queries: q, positions: t }, logits);
    /** Weights of slots from exponentials, and what the term adds to outputs. */
    const attended = (e: Tensor, term: Term | undefined) => {
      const sum = ops.add(ops.sum(e), term ? ops.add(term.e, sink) : sink),
        share = (x: Tensor): Tensor => ops.div(x, ops.max(sum, 1e-30));
      return { x: share(e), more: term ? ops.mul(share(term.e), term.value) : 0 };
    };
    const [like, own] = [ops.take(biased, kept), ops.take(v, kept)]; // [G, t], [G, t, d]
    const y = ops.add(ops.sum(all), was && term ? ops.sub(was.e, term.e) : 0);
    const reference = { ops, e: ops.take(all, kept), y, like };

    const b = mass ? masses(reference, ridge, bound) : ops.fill(like, 1);
    const beta = ops.log(b);
    const of = attended(all, was);
    const outputs = ops.add(ops.matmul(of.x, v), of.more);
    /** What attention over the kept slots lacks, with these weights. */
    const lacking = ({ x, more }: ReturnType<typeof attended>): Tensor =>
      ops.sub(outputs, ops.add(ops.matmul(x, own), more));
    const fitted = attended(ops.mul(reference.e, b), term);
    const { x } = fitted;
    const missing = lacking(fitted);
    const change = refits ? smallestChange(reference, x, missing, ridge) : ops.fill(own, 0);
    const left = ops.sub(missing, ops.matmul(x, change));
    const plain = lacking(attended(reference.e, term));
    const better = ops.atLeast(squaresOf(ops, plain, G), squaresOf(ops, left, G)); // [G, 1]

    const counts = ops.sum(ops.fill(like, 1)); // [G, 1]
    const inPlace = (of: Tensor): Tensor =>
      ops.kernel(intoSlots, { x: ops.where(better, of, 0), kept, counts, like: biased });
    return {
      ...(mass && { biases: ops.add(biased, inPlace(beta)) }),
      ...(refits && { values: ops.add(v, inPlace(change)) }),
    };
  },
);
