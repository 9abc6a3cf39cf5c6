import { checkNumber, checkWord, positions, values } from '@kv/core';
import { modelSelector, selector } from '@kv/core/old';
import type { At, Selector, Tensor } from '@kv/core';
import type { Common, Selection } from '@kv/core/old';
import { greedyOrder } from './greedy.ts';
import { ownSignatures, signatureTable } from './signatures.ts';

export interface DiversityOptions {
  /** Weight of the redundancy penalty; 0 is top-k. It assumes z-scored scores. @defaultValue 0.5 */
  readonly lambda?: number;
  /**
   * Whose values make a token's signature: every layer and head, the layer's heads, or the head alone. @defaultValue
   * 'model'
   */
  readonly signature?: 'model' | 'layer' | 'head';
  /** λ of the last layer, with a straight line to it from the first layer's. @defaultValue lambda */
  readonly last?: number;
  /** What is left of λ after every generated token. @defaultValue 1 */
  readonly decay?: number;
}

/** λ of one layer at one step. */
const weight = ({ layer, layers, step }: At, first: number, last: number, decay: number): number =>
  (first + (layers > 1 ? ((last - first) * layer) / (layers - 1) : 0)) * decay ** step;

/** Kept slots of one layer, given unit signatures `[G | 1, n, d]`. */
function diverse(
  { ops, scores, budgets, active, forced, banned }: Common & Selection,
  lambda: number,
  signatures: () => Tensor,
): Tensor {
  const masks = { forced, banned, active };
  if (lambda === 0) return ops.select(scores, budgets, masks);
  const rows = ops.add(scores, ops.mul(budgets, 0)),
    none = ops.fill(rows, 0); // a layer row for every row with a budget
  const order = ops.kernel(
    greedyOrder,
    {
      scores: rows,
      signatures: signatures(),
      budgets: active ? ops.mul(budgets, active) : budgets,
      forced: forced ? ops.max(none, forced) : none,
      banned: banned ? ops.max(none, banned) : none,
    },
    { lambda },
  );
  return ops.select(order, budgets, masks);
}

/**
 * Set-conditioned diversity ("alpha"): one slot after the other, argmax of s_i - λ max(0, max over the kept j of
 * cos(v_i, v_j)), v the
 * signature of a token: its mean value vector over layers and heads, with unit length.
 *
 * @remarks Minimal-Intervention KV Retention via Set-Conditioned Diversity, eq. 1 to 3 and algorithm 1, with the
 * largest cosine carried
 * along instead of an n x n matrix: O(k n d) a row. λ = 0 is top-k, bit for bit. Forced slots count as picked first.
 * Ties to the lower slot; nested.
 * Signatures per layer or head and a λ that changes with depth or time are what the paper leaves open. Where heads hold
 * different tokens a
 * signature is the mean over those that hold it. `signature: 'model'` runs after prefill.
 * @throws KvError if `lambda` or `last` is negative, `decay` outside [0, 1] or `signature` another word.
 */
export function diversity({
  lambda = 0.5,
  signature = 'model',
  last = lambda,
  decay = 1,
}: DiversityOptions = {}): Selector<'diversity'> {
  for (const [name, value] of Object.entries({ lambda, last }))
    checkNumber('diversity', name, value, 'a number of at least 0', (x) => x >= 0 && Number.isFinite(x));
  checkNumber('diversity', 'decay', decay, 'a number from 0 to 1', (x) => x >= 0 && x <= 1);
  checkWord('diversity', 'signature', signature, ['model', 'layer', 'head']);
  const head = {
    name: 'diversity',
    options: {
      lambda,
      signature: signature === 'model' ? undefined : signature,
      last: last === lambda ? undefined : last,
      decay: decay === 1 ? undefined : decay,
    },
  } as const;
  const at = (place: At): number => weight(place, lambda, last, decay);
  if (lambda === 0 && last === 0) return selector(head, [], (layer) => diverse(layer, 0, () => layer.scores));
  if (signature === 'head')
    return selector(head, [values, positions], (layer) => diverse(layer, at(layer.at), () => ownSignatures(layer)));
  if (signature === 'layer')
    return selector(head, [values, positions], (layer) =>
      diverse(layer, at(layer.at), () => layer.ops.take(signatureTable([layer], layer.at.length), layer.positions)),
    );
  return modelSelector(head, [values, positions], (layers) => {
    const table = layers.some((l) => at(l.at) !== 0)
      ? signatureTable(layers, Math.max(...layers.map((l) => l.at.length)))
      : undefined;
    return layers.map((layer) => diverse(layer, at(layer.at), () => layer.ops.take(table!, layer.positions)));
  });
}
