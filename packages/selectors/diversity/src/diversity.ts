import { number, oneOf, positions, sameAs, selector, share, values } from '@kv/core';
import type { LayerContext, StepContext, Tensor } from '@kv/core';
import { greedyOrder } from './greedy.ts';
import { ownSignatures, signatureTable } from './signatures.ts';
import type { LayerValues } from './signatures.ts';

interface DiversityOptions {
  readonly lambda: number;
  readonly last: number;
  readonly decay: number;
}
/** λ of one layer at one step. */
const lambdaAt = ({ layer, layers, step }: LayerContext, { lambda, last, decay }: DiversityOptions): number =>
  (lambda + (layers > 1 ? ((last - lambda) * layer) / (layers - 1) : 0)) * decay ** step;

/** Values and positions of the layer, which signatures are made of; undefined where λ is 0 throughout. */
const heldIn = ({
  ops,
  values: v,
  positions: p,
}: StepContext & { values?: Tensor; positions?: Tensor }): LayerValues | undefined =>
  v && p && { ops, values: v, positions: p };

/**
 * Set-conditioned diversity ("alpha"): picks slots one after the other, argmax of s_i - λ max(0, max over the kept j of
 * cos(v_i, v_j)), where the signature v of a token is its mean value vector over layers and heads, with unit length.
 *
 * @remarks Minimal-Intervention KV Retention via Set-Conditioned Diversity, eq. 1 to 3 and algorithm 1. Carries the
 * largest cosine of each slot instead of an n x n matrix: O(k n d) a row. λ = 0 is top-k, bit for bit, of the scores
 * as they come: `scale` 'deviations' picks what `zScore` before it would pick with λ, and needs none, whose rounding
 * and whose mean over a GQA group would change what λ = 0 keeps. Forced slots count as picked first. Ties to the lower slot; nested. Signatures per layer or head and a λ that changes with depth
 * or time are what the paper leaves open. Where heads hold different tokens a signature is the mean over the heads that
 * hold its token. `signature: 'model'` runs after prefill.
 */
export const diversity = selector(
  'diversity',
  {
    source: 'Minimal-Intervention KV Retention via Set-Conditioned Diversity, algorithm 1',
    says: 'The best slots by score less their likeness to what is already kept.',
    options: {
      lambda: number(0.5, 'Weight of the redundancy penalty; 0 is top-k.', { least: 0 }),
      scale: oneOf(
        ['scores', 'deviations'],
        'scores',
        'What λ is counted in: the scores as they are, or the standard deviation of the row that is chosen from.',
      ),
      signature: oneOf(
        ['model', 'layer', 'head'],
        'model',
        "Whose values make a token's signature: every layer and head, the layer's heads, or the head alone.",
      ),
      last: sameAs('lambda', number(0.5, "λ of the last layer, on a line to it from the first layer's.", { least: 0 })),
      decay: share(1, 'What is left of λ after every generated token.'),
    },
    needs: ({ lambda, last }) => (lambda === 0 && last === 0 ? [] : [values, positions]),
    reach: ({ lambda, last, signature }) => (signature === 'model' && lambda + last > 0 ? 'model' : 'layer'),
    acrossLayers: (layers, o) =>
      o.signature === 'model' && layers.some(({ at }) => lambdaAt(at, o) !== 0)
        ? signatureTable(
            layers.flatMap((layer) => heldIn(layer) ?? []),
            Math.max(...layers.map(({ at }) => at.length)),
          )
        : undefined,
  },
  ({ acrossLayers: table, ...layer }, o) => {
    const { ops, at, scores, budgets, active, forced, banned } = layer;
    const lambda = lambdaAt(at, o);
    const held = heldIn(layer);
    if (lambda === 0 || !held) return ops.select(scores, budgets, { forced, banned, active });
    const s = ops.broadcast(scores, budgets.shape[0]);
    const none = ops.fill(s, 0);
    const signatures =
      o.signature === 'head'
        ? ownSignatures(held)
        : ops.take(table ?? signatureTable([held], at.length), held.positions); // [G | 1, n, d]
    const [rows] = s.shape;
    const lambdas =
      o.scale === 'deviations'
        ? ops.mul(lambda, ops.max(ops.reduce('std', s, 'slots'), 1e-8))
        : ops.from({ data: new Float32Array(rows).fill(lambda), shape: [rows, 1] }); // [rows, 1]
    const order = ops.kernel(greedyOrder, {
      scores: s,
      signatures,
      budgets: active ? ops.mul(budgets, active) : budgets,
      forced: ops.max(none, forced),
      banned: ops.max(none, banned),
      lambdas,
    });
    return ops.select(order, budgets, { forced, banned, active });
  },
);
