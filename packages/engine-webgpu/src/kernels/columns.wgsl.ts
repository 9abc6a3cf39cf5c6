import type { WindowStatistic } from '@kv/core';
import { countsVisible } from '@kv/engine';
import { variants } from '../variants.ts';
import type { GpuKernel } from '@kv/gpu';
import { products, QUERIES, SLOTS, STAGES } from '../wgsl/products.ts';
import { readsRows, rowFunctions, rowType, type DeviceRowForm } from '../wgsl/stored-rows.ts';
import { scoreBuffers, scoreScalars, visibilitySource, type ScoreBuffer, type ScoreKind } from '../wgsl/visible.ts';

export const COLUMN_SLOTS: number = SLOTS;

/** The statistic of a column: the sum of what a slot receives, the largest, or the sum of a window statistic. */
export type ColumnOf = 'sum' | 'max' | WindowStatistic;
export type ColumnKind = ScoreKind & {
  readonly headDim: number;
  /** How keys are stored. */
  readonly keys: DeviceRowForm;
  readonly of: ColumnOf;
};

/**
 * Margin above the mean from which a weight counts as a vote. A weight equal to the mean up to rounding is none: equal
 * keys, and a slot that is seen alone, whose score may have been rounded differently for the log-sum-exp.
 */
const MORE = 1 + 2 ** -18;
/** The term that is summed, or maximised, as a function of the difference of a score and its query's log-sum-exp. */
const TERM: Readonly<Record<ColumnOf, string>> = {
  sum: 'exp(log_weight)',
  max: 'exp(log_weight)',
  squares: 'exp(log_weight) * exp(log_weight)',
  normalized: 'exp(log_weight) * (count - 1.0)',
  entropy: 'exp(log_weight) * max(-log_weight, 0.0)',
  votes: `select(0.0, 1.0, count > 1.0 && exp(log_weight) * count > ${MORE})`,
};

/**
 * One workgroup: for 64 slots of one query head, or of `fold` query heads of a KV head, what `of` makes of the
 * probabilities exp(score - lse) that they receive from the last `last` of m queries; a thread owns a slot, so that the
 * order is fixed and nothing is atomic. To `columns [rows, stride]`, row r of H / fold to row `r / group * step + r % group +
 * at`: instead of what is there, 0 for slots that do
 * not exist, or (`join` 1) joined with it; divided by `over`. q `[H, m, d]`; lse `[H, last]` from `lse_at` on, as
 * attention leaves it, and after it the slots that each query sees where `of` asks. Positions of slots and of queries
 * ascend.
 */
export const columnSums: (
  kind: ColumnKind,
) => GpuKernel<
  'q' | 'keys' | ScoreBuffer | 'lse' | 'columns',
  | keyof typeof scoreScalars
  | 'last'
  | 'lse_at'
  | 'fold'
  | 'slots'
  | 'stride'
  | 'group'
  | 'step'
  | 'at'
  | 'join'
  | 'over'
> = variants((kind) => {
  const { headDim: d, keys: form, of } = kind;
  return {
    id: `model:columns:${of}:${d}:${form}:${kind.masked}:${kind.biased ?? false}`,
    buffers: { q: 'f32', keys: rowType(form), ...scoreBuffers(kind), lse: 'f32', columns: ['f32', 'write'] },
    scalars: {
      ...scoreScalars,
      last: 'u32',
      lse_at: 'u32',
      fold: 'u32',
      slots: 'u32',
      stride: 'u32',
      group: 'u32',
      step: 'u32',
      at: 'u32',
      join: 'u32',
      over: 'f32',
    },
    threads: SLOTS,
    per: 'group',
    operations: ({ heads, last, slots }) => heads * last * slots * (2 * d + (of === 'sum' || of === 'max' ? 4 : 6)),
    source: /* wgsl */ `
${visibilitySource(kind)}
${STAGES}
${rowFunctions(form)}${readsRows({ name: 'keys', form, d })}
fn both(a: f32, b: f32) -> f32 { return ${of === 'max' ? 'max(a, b)' : 'a + b'}; }
fn run(group: u32, lane: u32) {
  let tiles = (params.slots + ${SLOTS - 1}u) / ${SLOTS}u;
  let row = group / tiles;
  let g = row * params.fold / (params.heads / params.kv_heads);
  let first = group % tiles * ${SLOTS}u;
  let end = lengths[g];
  let j = first + lane;
  var all = 0.0;
  for (var h = row * params.fold; h < (row + 1u) * params.fold; h++) { for (var start = params.m - params.last; start < params.m && first < end; start += ${QUERIES}u) {
    let stop = min(start + ${QUERIES}u, params.m);
    if (positions[g * params.capacity + first] > position_of(stop - 1u)) { continue; }
${products({ form, d }, 'first')}
    var some = 0.0;
    for (var i = 0u; i < ${QUERIES}u; i++) {
      let r = start + i;
      if (r < stop && j < end && is_seen(r, h, g, j)) {
        let at = params.lse_at + h * params.last + r - (params.m - params.last);
        let log_weight = score_of(products[i], g, j) - lse[at];${countsVisible(of) ? '\n        let count = lse[at + params.heads * params.last];' : ''}
        some = both(some, ${TERM[of]});
      }
    }
    all = both(all, some);
  } }
  all /= params.over;
  if (j < params.slots) {
    let at = (row / params.group * params.step + row % params.group + params.at) * params.stride + j;
    if (params.join == 1u) { columns[at] = both(columns[at], all); } else { columns[at] = all; }
  }
}`,
  };
});
