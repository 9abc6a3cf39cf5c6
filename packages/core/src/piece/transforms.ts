import { LOWEST } from '../tensor/tensor.ts';
import { kernel } from '../tensor/kernel.ts';
import { normaliser, scoreTransform, transform, weightTransform } from './kinds.ts';
import type { StepContext } from './piece-declaration.ts';
import type { Factory } from './declare.ts';
import { flag, odd, oneOf, whole } from './option.ts';
import { positions } from './signals.ts';
import type { Tensor } from '../tensor/tensor.ts';
import type { Normaliser, ScoreTransform, Transform, WeightTransform } from './piece.ts';

const source = '@kv/core';

const pooling = {
  kernel: odd(5, 'Width in slots.'),
  kind: oneOf(['mean', 'max'], 'mean', 'What stands for a neighbourhood.'),
  except: whole(0, 'slots', 'Last slots that stay as they are.'),
};
/** Pools scores in 1-D along slots, stride 1, same length, with the zero padding counted in the mean. */
export const pool: Factory<typeof pooling, ScoreTransform<'pool'>> = scoreTransform(
  'pool',
  { source, says: 'Pools scores over neighbouring slots.', options: pooling },
  ({ ops, scores }, options) => ops.pool(scores, options),
);

/** s / Σ s per row: a simplex. Needs weights: a negative sum would reverse the order. */
export const normalize: Factory<{}, WeightTransform<'normalize'>> = weightTransform(
  'normalize',
  { source, says: 'Divides weights by the sum of their row.', monotone: true },
  ({ ops, scores }) => ops.simplex(scores),
);
/** (s - min) / (max - min + 1e-8) per row. */
export const minMax: Factory<{}, Normaliser<'minMax'>> = normaliser(
  'minMax',
  { source, says: 'Brings each row of scores to 0..1.', monotone: true },
  ({ ops, scores }) => {
    const low = ops.reduce('min', scores, 'slots');
    const high = ops.reduce('max', scores, 'slots');
    return ops.max(0, ops.div(ops.sub(scores, low), ops.add(ops.sub(high, low), 1e-8)));
  },
);

const scaling = { over: oneOf(['row', 'layer'], 'row', 'Rows by themselves, or all rows of the layer together.') };
/** (s - mean) / max(std, 1e-8), population std: per row, or over the layer, so that its heads stay comparable. */
export const zScore: Factory<typeof scaling, Transform<'zScore'>> = transform(
  'zScore',
  { source, says: 'Scores in standard deviations from their mean.', options: scaling, monotone: true },
  ({ ops, scores }, { over }) => {
    const sum = (x: Tensor): Tensor => (over === 'row' ? ops.sum(x) : ops.reduce('sum', ops.sum(x), 'rows'));
    if (over === 'row')
      return ops.div(
        ops.sub(scores, ops.reduce('mean', scores, 'slots')),
        ops.max(ops.reduce('std', scores, 'slots'), 1e-8),
      );
    const count = sum(ops.fill(scores, 1));
    const off = ops.sub(scores, ops.div(sum(scores), count));
    return ops.div(off, ops.max(ops.map('sqrt', ops.div(sum(ops.mul(off, off)), count)), 1e-8));
  },
);
/** Softmax of each row, which turns any scores into weights. */
export const softmax: Factory<{}, Normaliser<'softmax'>> = normaliser(
  'softmax',
  { source, says: 'Softmax of each row.', monotone: true },
  ({ ops, scores }) => ops.softmax(scores),
);
/** ln(1 + s). Needs weights: it is undefined below -1. */
export const log1p: Factory<{}, WeightTransform<'log1p'>> = weightTransform(
  'log1p',
  { source, says: 'ln(1 + s).', monotone: true },
  ({ ops, scores }) => ops.map('log1p', scores),
);

const grouping = { kind: oneOf(['mean', 'max', 'sum'], 'mean', 'What stands for the heads of a group.') };
/**
 * Reduces query rows to KV rows over each GQA group here and by `kind`, instead of by the mean where a later piece
 * needs it.
 */
export const reduceHeads: Factory<typeof grouping, ScoreTransform<'reduceHeads'>> = scoreTransform(
  'reduceHeads',
  { source, says: 'Joins the query heads of each GQA group.', options: grouping },
  ({ ops, at, scores }, { kind }) => ops.reduceRows(kind, scores, at.kvHeads),
);

/** One row per layer: the mean over its heads, aligned by position if heads hold different tokens. */
export const perLayer: Factory<{}, ScoreTransform<'perLayer'>> = scoreTransform(
  'perLayer',
  { source, says: 'One row of scores for all heads of a layer.', needs: [positions] },
  (ctx) => layerMean(ctx, ctx.scores),
);

const joining = { kind: oneOf(['max', 'mean'], 'max', 'What stands for the rows of all layers.') };
/**
 * One score per token for the whole model, over all layers and rows that hold its position. If every layer holds the
 * same tokens, all keep the same ones.
 *
 * @remarks If some rows hold every token and others only a window of them, only the complete rows score: a statistic
 * over 18 rows cannot be compared with one over 3.
 */
export const perModel: Factory<typeof joining, ScoreTransform<'perModel'>> = scoreTransform(
  'perModel',
  {
    source,
    says: 'One score a token for every layer and head.',
    options: joining,
    needs: [positions],
    acrossLayers: (layers, { kind }) => {
      const [{ ops }] = layers,
        count = Math.max(...layers.map(({ at }) => at.length));
      const byPosition = (rows: 'max' | 'sum'): readonly Tensor[] =>
          layers.map(({ scores, positions: p }) => ops.groupSlots(rows, scores, p, count)),
        most = (tables: readonly Tensor[]): Tensor =>
          tables.map((table) => ops.reduce('max', table, 'rows')).reduce((a, b) => ops.max(a, b)),
        total = (tables: readonly Tensor[]): Tensor =>
          tables.map((table) => ops.reduce('sum', table, 'rows')).reduce((a, b) => ops.add(a, b));
      const held = layers.map(({ scores, positions: p }) => ops.groupSlots('sum', ops.fill(scores, 1), p, count)),
        somewhere = most(held),
        complete = held.map((table) => ops.not(ops.reduce('max', ops.sub(somewhere, table), 'slots'))),
        none = ops.not(most(complete)),
        counted = held.map((table, i) => ops.mul(table, ops.max(complete[i], none)));
      if (kind === 'max') return most(byPosition('max').map((table, i) => ops.where(counted[i], table, LOWEST)));
      const sums = byPosition('sum').map((table, i) => ops.mul(table, counted[i]));
      return ops.div(total(sums), ops.max(total(counted), 1));
    },
  },
  ({ ops, at, positions: p, acrossLayers }) => {
    const rows = ops.take(acrossLayers, p);
    return at.aligned ? ops.reduce('max', rows, 'rows') : rows;
  },
);

const forcing = {
  sinks: whole(4, 'positions', 'First positions that always stay.'),
  recent: whole(0, 'positions', 'Last positions that always stay.'),
  prompt: flag(false, 'All of the prompt stays too: only generated tokens go.'),
};
/** Forces sinks (the first positions) and recents (the last positions), within the budget. */
export const mandatory: Factory<typeof forcing, ScoreTransform<'mandatory'>> = scoreTransform(
  'mandatory',
  {
    source,
    says: 'Forces the first and the last positions, inside the budget.',
    options: forcing,
    ends: ({ sinks, recent }) => ({ first: sinks, last: recent }),
    open: ({ prompt }) => prompt,
    needs: [positions],
    loop: ({ sinks, recent, prompt }) => (prompt ? undefined : { forces: { first: sinks, last: recent } }),
  },
  ({ ops, at, scores, positions: p }, { sinks, recent, prompt }) => ({
    scores,
    forced: ops.max(ops.less(p, prompt ? Math.max(sinks, at.promptLength) : sinks), ops.atLeast(p, at.length - recent)),
  }),
);

/**
 * Mean over all rows of `x [H | G, n]` of one layer: one row if its heads are aligned, else `[G, n]` with each
 * position's mean over the heads that still hold it.
 */
export function layerMean({ ops, at, positions: p }: StepContext & { readonly positions: Tensor }, x: Tensor): Tensor {
  if (x.shape[0] === 1) return x;
  return at.aligned ? ops.reduce('mean', x, 'rows') : ops.kernel(meanByPosition, { x, positions: p });
}

/** For every slot the mean of `x` over all rows that hold the slot's position. */
export const meanByPosition = kernel({
  id: 'mean-by-position',
  inputs: { x: 'f32', positions: 'u32' },
  ragged: 'positions',
  output: { shape: ({ positions: p }) => p },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let slots = positions_shape.y;
  let here = index / slots;
  if (index % slots >= positions_lengths[here]) { output[index] = 0.0; return; }
  let want = positions[index];
  let group = x_shape.x / positions_shape.x;
  var total = 0.0;
  var holders = 0.0;
  for (var g = 0u; g < positions_shape.x; g++) {
    var low = 0u;
    var high = positions_lengths[g];
    while (low < high) { let mid = (low + high) / 2u; if (positions[g * slots + mid] < want) { low = mid + 1u; } else { high = mid; } }
    if (low < positions_lengths[g] && positions[g * slots + low] == want) {
      for (var r = 0u; r < group; r++) { total += x[(g * group + r) * slots + low]; holders += 1.0; }
    }
  }
  output[index] = total / holders;
}`,
  ref({ x, positions: p }, _, out, lengths) {
    const [rows = 0, slots = 0] = p.shape,
      group = x.shape[0] / rows;
    const totals = new Map<number, [sum: number, holders: number]>();
    for (let g = 0; g < rows; g++)
      for (let i = 0; i < lengths[g]; i++) {
        const entry = totals.get(p.data[g * slots + i]) ?? [0, 0];
        for (let r = 0; r < group; r++) {
          entry[0] += x.data[(g * group + r) * slots + i];
          entry[1]++;
        }
        totals.set(p.data[g * slots + i], entry);
      }
    for (let g = 0; g < rows; g++)
      for (let i = 0; i < lengths[g]; i++) {
        const [sum, holders] = totals.get(p.data[g * slots + i])!; // put there by the loop above
        out[g * slots + i] = sum / holders;
      }
  },
});
