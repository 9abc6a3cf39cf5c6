import { checkNumber, checkWord, isCount } from './errors.ts';
import { normaliser, shaper, transform, weightTransform } from './author.ts';
import type { Common } from './author.ts';
import type { Kernel } from './ops.ts';
import { positions } from './signals.ts';
import type { Tensor } from './tensor.ts';
import type { Normaliser, Shaper, Transform, WeightTransform } from './piece.ts';

interface PoolOptions {
  /** Odd width in slots. @defaultValue 5 */ readonly kernel?: number /** @defaultValue 'mean' */;
  readonly kind?: 'mean' | 'max' /** Last slots left as they are. @defaultValue 0 */;
  readonly except?: number;
}
/** 1-D pooling along slots, stride 1, same length, zero padding counted in the mean. */
export function pool({ kernel = 5, kind = 'mean', except = 0 }: PoolOptions = {}): Shaper<'pool'> {
  checkNumber('pool', 'kernel', kernel, 'an odd whole number', (k) => Number.isInteger(k) && k > 0 && k % 2 === 1);
  checkNumber('pool', 'except', except, 'a whole number of slots', isCount);
  checkWord('pool', 'kind', kind, ['mean', 'max']);
  return shaper({ name: 'pool', options: { kernel, kind, except } }, [], ({ ops, scores }) =>
    ops.pool(scores, { kernel, kind, except }),
  );
}

/** s / Σ s per row: a simplex. Needs weights: a negative sum would turn the order round. */
export const normalize = (): WeightTransform<'normalize'> =>
  weightTransform({ name: 'normalize', monotone: true }, [], ({ ops, scores }) => ops.simplex(scores));
/** (s - min) / (max - min + 1e-8) per row. */
export const minMax = (): Normaliser<'minMax'> =>
  normaliser({ name: 'minMax', monotone: true }, [], ({ ops, scores }) => {
    const low = ops.reduce('min', scores, 'slots'),
      high = ops.reduce('max', scores, 'slots');
    return ops.max(0, ops.div(ops.sub(scores, low), ops.add(ops.sub(high, low), 1e-8)));
  });
/**
 * (s - mean) / max(std, 1e-8), population std: per row, or over all rows of the layer, so that its heads stay
 * comparable.
 */
export const zScore = ({
  over = 'row',
}: {
  /** @defaultValue 'row' */ readonly over?: 'row' | 'layer';
} = {}): Transform<'zScore'> => {
  checkWord('zScore', 'over', over, ['row', 'layer']);
  return transform(
    { name: 'zScore', options: { over: over === 'row' ? undefined : over }, monotone: true },
    [],
    ({ ops, scores }) => {
      if (over === 'row')
        return ops.div(
          ops.sub(scores, ops.reduce('mean', scores, 'slots')),
          ops.max(ops.reduce('std', scores, 'slots'), 1e-8),
        );
      const sum = (x: Tensor): Tensor => ops.reduce('sum', ops.reduce('sum', x, 'slots'), 'rows');
      const count = sum(ops.fill(scores, 1)),
        off = ops.sub(scores, ops.div(sum(scores), count));
      return ops.div(off, ops.max(ops.map('sqrt', ops.div(sum(ops.mul(off, off)), count)), 1e-8));
    },
  );
};
/** Softmax of each row: turns any scores into weights. */
export const softmax = (): Normaliser<'softmax'> =>
  normaliser({ name: 'softmax', monotone: true }, [], ({ ops, scores }) => ops.softmax(scores));
/** ln(1 + s). Needs weights: below -1 there is no logarithm. */
export const log1p = (): WeightTransform<'log1p'> =>
  weightTransform({ name: 'log1p', monotone: true }, [], ({ ops, scores }) => ops.map('log1p', scores));

/** Query rows to KV rows over each GQA group, where and how it is said instead of by the first consumer's mean. */
export const reduceHeads = (kind: 'mean' | 'max' | 'sum' = 'mean'): Shaper<'reduceHeads'> => {
  checkWord('reduceHeads', 'kind', kind, ['mean', 'max', 'sum']);
  return shaper({ name: 'reduceHeads', options: { kind } }, [], ({ ops, at, scores }) =>
    scores.shape[0] > at.kvHeads ? ops.groupRows(kind, scores, at.kvHeads) : scores,
  );
};

/** One row a layer: the mean over its heads, aligned by position where heads hold different tokens. */
export const perLayer = (): Shaper<'perLayer'> => shaper('perLayer', [positions], (ctx) => layerMean(ctx, ctx.scores));

/** Forces sinks (the first positions) and recents (the last positions), inside the budget. */
export function mandatory({
  sinks = 4,
  recent = 0,
}: {
  readonly sinks?: number;
  readonly recent?: number;
} = {}): Shaper<'mandatory'> {
  checkNumber('mandatory', 'sinks', sinks, 'a whole number of positions', isCount);
  checkNumber('mandatory', 'recent', recent, 'a whole number of positions', isCount);
  return shaper(
    { name: 'mandatory', options: { sinks, recent }, floor: (n) => Math.min(n, sinks + recent) },
    [positions],
    ({ ops, at, scores, positions: p }) => ({
      scores,
      forced: ops.max(ops.less(p, sinks), ops.atLeast(p, at.length - recent)),
    }),
  );
}

/**
 * Mean over all rows of `x [H | G, n]` of one layer: one row where its heads are aligned, else `[G, n]` with each
 * position's
 * mean over the heads that still hold it.
 */
export function layerMean({ ops, at, positions: p }: Common & { readonly positions: Tensor }, x: Tensor): Tensor {
  if (x.shape[0] === 1) return x;
  return at.aligned ? ops.reduce('mean', x, 'rows') : ops.kernel(meanByPosition, { x, positions: p });
}

/** For every slot: the mean of `x` over all rows that hold the slot's position. */
export const meanByPosition: Kernel = {
  id: 'mean-by-position',
  inputs: { x: 'f32', positions: 'u32' },
  params: {},
  ragged: 'positions',
  output: { dtype: 'f32', shape: ({ positions: p }) => p },
  per: 'element',
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
  ref({ x, positions: p }, _params, out, lengths) {
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
        const [sum, holders] = totals.get(p.data[g * slots + i])!;
        out[g * slots + i] = sum / holders;
      }
  },
};
