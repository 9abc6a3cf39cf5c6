import { biases, count, flag, keys, onAttend, onEvict, positions, state, values } from '@kv/core';
import type { State } from '@kv/core';
import { foldedMeans, foldedMoments, stretchLogits, stretchValues } from './kernels.ts';

interface Kept {
  readonly stretches: number;
  readonly cross: boolean;
  readonly spread: boolean;
}
/** Positions that a stretch is wide at first. */
const NARROWEST = 64;

/** Returns how many positions each of some stretches is wide where they cover a text of this length: a power of 2. */
const widthOf = (length: number, stretches: number): number =>
  NARROWEST * 2 ** Math.max(0, Math.ceil(Math.log2(length / (stretches * NARROWEST))));

/** Width, and count, means and covariances of each stretch, `[G, W]`. */
const folded = ({ stretches, cross, spread }: Kept): State<'folded'> => ({
  ...state('folded', {
    kind: 'sequence',
    rows: 'kv',
    width: 1 + stretches,
    perChannel: 2 * stretches,
    perPair: (Number(cross) + Number(spread)) * stretches,
  }),
  // states of other options are others
  id: `state.moments.${stretches}${cross ? '.cross' : ''}${spread ? '.spread' : ''}`,
});
const fields = ({ stretches, cross, spread }: Kept) => ({ stretches, cross: Number(cross), spread: Number(spread) });

const kept = {
  stretches: count(4, 'stretches', 'Stretches of positions that have moments of their own.', { most: 64 }),
  cross: flag(true, 'Whether the covariance of values with keys is kept.'),
  spread: flag(false, "Whether the keys' covariance is kept."),
};

/** The attention that slots which left still get, from their moments. */
const read = onAttend(
  'moments',
  {
    source: 'Li et al. 2026, arXiv:2606.01563',
    says: 'Reads the moments of slots that left.',
    options: kept,
    needs: (options) => [folded(options)],
  },
  ({ ops, at, queries: q, positions: p, folded: s }, options) => {
    const [H = 1, m = 1, d = 1] = q.shape,
      { scale = 1 / Math.sqrt(d), softcap: cap = 0, window = 0 } = at,
      with_ = { ...fields(options), scale, cap };
    const logits = ops.kernel(stretchLogits, { q, p, s }, { ...with_, window }); // [H m, stretches]
    const top = ops.reduce('max', logits, 'slots');
    const e = ops.exp(ops.sub(logits, top));
    const mass = ops.sum(e);
    return {
      masses: ops.reshape(ops.add(top, ops.log(mass)), [H, m]),
      values: ops.kernel(stretchValues, { share: ops.div(e, mass), q, s }, with_),
    };
  },
);

/**
 * Keeps count, mean key, mean value and their covariance of the slots that leave, by stretches of positions, and adds them to
 * every later attention.
 *
 * @remarks Li et al. 2026 (MomentKV, arXiv:2606.01563). Of the slots that left a stretch: n, the means k and v, C = mean (v_j
 * - v)(k_j - k)ᵀ and, if asked for, K = mean (k_j - k)(k_j - k)ᵀ. A query adds a term of mass n e^(z·k) (1 + zᵀK z / 2) and
 * of value (v + C z) / (1 + zᵀK z / 2) to its softmax, z = q / √d. Two folds are joined as counts and moments are: the
 * order of events does not count. Stretches are of equal width, a power of 2, and widen as the text grows, two
 * becoming one; the means of rotated keys of a longer stretch say less. A slot with a bias b counts e^b times.
 */
export const moments = onEvict(
  'moments',
  {
    source: 'Li et al. 2026, arXiv:2606.01563',
    says: 'Keeps count, means and covariance of slots that leave, which attention goes on reading.',
    options: kept,
    needs: (options) => [keys, values, positions, biases, folded(options)],
    hooks: (options) => [read(options)],
  },
  ({ ops, at, keys: k, values: v, positions: p, biases: b, folded: s, kept }, options) => {
    const leaves = ops.sub(1, ops.mark(kept, b));
    const w = at.biased ? ops.mul(leaves, ops.exp(b)) : leaves;
    const by = { ...fields(options), width: widthOf(at.length, options.stretches) };
    const m = ops.kernel(foldedMeans, { s, k, v, p, w }, by);
    return { folded: ops.kernel(foldedMoments, { s, k, v, p, w, m }, by) };
  },
);
