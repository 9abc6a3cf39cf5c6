import { KvError } from '@kv/core';
import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { countsVisible } from '@kv/engine';
import { dispatch } from '@kv/gpu';
import { accumulate } from './kernels/accumulate.wgsl.ts';
import { attention, mostRows, type AttentionKind } from './kernels/attention.wgsl.ts';
import { columnSums, COLUMN_SLOTS, type ColumnOf } from './kernels/columns.wgsl.ts';
import { join } from './kernels/join.wgsl.ts';
import { visibleCounts } from './kernels/visible-counts.wgsl.ts';
import { encodeSlots, firstSlots } from './operations.ts';
import { deviceForms, type DeviceForm } from './wgsl/stored-rows.ts';
import type { scoreScalars } from './wgsl/visible.ts';

/**
 * Queries over a cache on the device. Positions of slots and of queries ascend; slots beyond a head's length are never
 * read.
 */
export interface DeviceAttention {
  readonly m: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** `[H, m, d]` */
  readonly q: Tensor;
  /** How keys and values are stored. @defaultValue 'f32' */
  readonly form?: DeviceForm;
  /** Rows `[G, capacity, words]`: in f32 `[G, capacity, d]`; records are keys and values both. */
  readonly keys: Tensor;
  readonly values: Tensor;
  /** u32 `[G, capacity]` */
  readonly positions: Tensor;
  /** u32 `[G]` */
  readonly lengths: Tensor;
  readonly capacity: number;
  /** Slots of the longest head. */
  readonly slots: number;
  /** u32 `[m, 1 + 2 * views]`: each query's position, then pairs (from, below) of positions that it does not see. */
  readonly rows: Tensor;
  readonly views: number;
  /** Positions that a query sees, its own included. @defaultValue all */
  readonly window?: number;
  /** 0 where a slot is hidden, of f32 or u32: `[1, G or H, at least slots]`. */
  readonly mask?: Tensor;
  /**
   * Most slots of a KV head that `rows` leave its queries, and of these that the mask leaves them: what is dispatched,
   * and counted as read, follows them, never what is seen.
   *
   * @defaultValue all
   */
  readonly ranged?: number;
  readonly shown?: number;
  readonly scale: number;
  /** Positive. */
  readonly softcap?: number;
  /** f32 `[H]`: a learned score of each query head that takes part in its softmax and belongs to no slot. */
  readonly sinks?: Tensor | undefined;
  /** f32 `[G, at least slots]`: what each slot adds to its score, after any cap. */
  readonly biases?: Tensor | undefined;
}

/** The results of attention on the device. */
export interface AttentionResult {
  /** `[m, H * d]`; the same buffer holds, from `lseAt` on, log-sum-exp `[H, last]` of the last queries. */
  readonly out: Tensor;
  readonly lseAt: number;
  readonly last: number;
  /** Scores `[m, H, stride]` from `at` on, the lowest f32 where a slot is not seen. */
  readonly scores?: { readonly tensor: Tensor; readonly at: number; readonly stride: number };
}

export interface AttentionOptions {
  /** Number of last queries to keep the log-sum-exp of; that of all is kept where slots are split. @defaultValue 0 */
  readonly last?: number;
  /** Whether to keep the scores, for `encodeAccumulate`: for few queries. */
  readonly scores?: boolean;
  /**
   * Adds the probabilities of the previous query, which `past` holds at `pastAt`, to the running sums
   * `[H or G, stride]` in the same kernel: no scores are stored, and keys are read once for both. For one query, at
   * position `own`, from which only causality and the window hide slots.
   */
  readonly add?: { readonly past: Tensor; readonly pastAt: number; readonly own: number; readonly sums: Tensor };
  /** Filled with the `past` of a later query: this query, `[H * d]`, then its log-sum-exp `[H]`. For one query. */
  readonly leave?: Tensor;
  /** Workgroups that share the slots of a KV head. @defaultValue by the shape */
  readonly splits?: number;
}

/** Limits what a kernel over scores reads: positions and the mask, keys and values. */
const read = (a: DeviceAttention, slots = a.slots, shown = slots): DeviceAttention => ({
  ...a,
  keys: firstSlots(a.keys, shown),
  values: firstSlots(a.values, shown),
  positions: firstSlots(a.positions, slots),
  ...(a.mask && !a.biases && { mask: firstSlots(a.mask, slots) }),
});

/**
 * Returns attention whose mask holds the biases too, after what it had, where slots have them: kernels have no buffer to
 * spare. The second is what is to be freed.
 */
function withBiases(commands: Commands, a: DeviceAttention): readonly [with_: DeviceAttention, spent?: Tensor] {
  const { mask, biases } = a;
  if (!biases || !mask) return [biases ? { ...a, mask: biases } : a];
  const flat = (x: Tensor): Tensor => ({ ...x, shape: [1, x.shape.reduce((p, n) => p * n, 1)] }),
    parts = [flat(mask), flat(biases)],
    [before = 0, after = 0] = parts.map(({ shape }) => shape[1]),
    both = commands.make([1, before + after], 'u32');
  for (const [i, part] of parts.entries()) encodeSlots(commands, part, both, part.shape[1], 0, i * before);
  return [{ ...a, mask: both }, both];
}

/**
 * Returns whether attention of one query can add to running sums with this many rows. Rows of KV heads need a group
 * that fits one workgroup.
 */
export const addsTo = (rows: number, heads: number, kvHeads: number, headDim: number): boolean =>
  rows === heads || heads / kvHeads <= mostRows(headDim);

/** Workgroups that fill an adapter, slots below which none are split, and slots that a workgroup takes at a time. */
const ENOUGH = 64,
  SPAN = 256,
  TILE = 32;

/** Scalars of every kernel over scores. */
export function common({
  m,
  heads,
  kvHeads: kv_heads,
  capacity,
  views,
  window = 0xffff_ffff,
  mask,
  scale,
  softcap: cap = 0,
  biases,
}: DeviceAttention): Readonly<Record<keyof typeof scoreScalars, number>> {
  return {
    m,
    heads,
    kv_heads,
    capacity,
    views,
    window,
    mask_rows: mask?.shape[0] ?? 0,
    mask_step: mask?.shape[1] ?? 0,
    scale,
    cap,
    bias_at: biases && mask ? mask.shape.reduce((product, n) => product * n, 1) : 0,
    bias_step: biases?.shape[1] ?? 0,
  };
}

/**
 * Records softmax attention: whole where tiles of queries fill the adapter, otherwise split over slots and joined. Sinks
 * enter where parts are joined.
 */
export function encodeAttention(
  commands: Commands,
  a: DeviceAttention,
  { last = 0, scores = false, splits: wanted, add, leave }: AttentionOptions = {},
): AttentionResult {
  const { m, heads, kvHeads, headDim: d, slots, mask, sinks, biases } = a,
    count = (m * heads) / kvHeads;
  const rows = Math.min(mostRows(d), count <= 4 ? 4 : count <= 8 ? 8 : 16) as AttentionKind['rows'],
    groups = kvHeads * Math.ceil(count / rows);
  const ranged = scores ? slots : Math.min(slots, a.ranged ?? slots, (a.window ?? Infinity) + m - 1),
    shown = scores ? slots : Math.min(ranged, a.shown ?? ranged);
  const most = wanted ?? (groups < ENOUGH ? Math.min(ENOUGH, Math.ceil(ranged / SPAN)) : 1),
    splits = Math.max(1, Math.min(most, Math.ceil(ranged / TILE)));
  const adds = add && (add.sums.shape[0] === heads ? 'heads' : 'kvHeads'),
    past = add && { own: add.own, past_at: add.pastAt, sums_stride: add.sums.shape[1] };
  if ((add || leave) && m !== 1)
    throw new KvError('attention', `expected one query where sums wait for the next, got ${m}`);
  if (add && (mask || a.views > 0 || biases))
    throw new KvError('attention', 'expected no mask, hidden ranges or biases where the query before is added');
  if (add && !addsTo(add.sums.shape[0], heads, kvHeads, d))
    throw new KvError(
      'attention',
      `expected at most ${rows} query heads a KV head of ${d} numbers for sums of KV heads, got ${count}`,
    );
  const split = scores || leave !== undefined || sinks !== undefined || splits > 1,
    kind: AttentionKind = {
      headDim: d,
      ...deviceForms[a.form ?? 'f32'],
      rows,
      split,
      scores,
      masked: mask !== undefined,
      ...(biases && { biased: true }),
      ...(adds && { adds, single: true }),
    };
  const whole = m * heads * d,
    meta_at = split ? whole * splits : whole,
    scores_at = meta_at + 2 * m * heads * splits;
  const [given, spent] = withBiases(commands, a);
  const record = (out: Tensor, lasts: number): void => {
    dispatch(
      commands,
      attention(kind),
      { ...read(given, ranged, shown), past: add?.past, sums: add && firstSlots(add.sums, slots), out },
      {
        ...common(a),
        own: 0,
        past_at: 0,
        sums_stride: 0,
        ...past,
        splits,
        last: lasts,
        meta_at,
        scores_at,
        score_stride: slots,
      },
      groups * splits,
      { again: add ? 4 * add.sums.shape[0] * slots : 0 },
    );
    if (spent) commands.free(spent);
  };
  if (!split) {
    const out = commands.make([whole + heads * last]);
    record(out, last);
    return { out, lseAt: whole, last };
  }
  const parts = commands.make([scores_at + (scores ? m * heads * slots : 0)]),
    out = commands.make([whole + heads * m]);
  record(parts, 0);
  dispatch(
    commands,
    join({ leaves: leave !== undefined, sinks: sinks !== undefined }),
    { parts: { ...parts, shape: [scores_at] }, out, q: a.q, past: leave, sinks },
    { m, heads, size: d, splits, meta_at, lse_at: whole },
    m * heads,
  );
  if (!scores) commands.free(parts);
  return { out, lseAt: whole, last: m, ...(scores && { scores: { tensor: parts, at: scores_at, stride: slots } }) };
}

/**
 * Where rows of query heads are among those of all layers that read the same slots: `group` of them lie together, each
 * group `step` rows after the one before, the first at row `at`. Rows of KV heads are the same for all.
 */
export interface HeadPlaces {
  readonly group: number;
  readonly step: number;
  readonly at: number;
}

/** Returns the places of the rows of these heads among `count`, and how many query heads each sums. */
function placesOf(
  { heads, kvHeads }: Pick<DeviceAttention, 'heads' | 'kvHeads'>,
  count: number,
  among: HeadPlaces | undefined,
): { readonly rows: number; readonly fold: number; readonly places: HeadPlaces } {
  if (among && count !== kvHeads) return { rows: heads, fold: 1, places: among };
  return { rows: count, fold: heads / count, places: { group: count, step: count, at: 0 } };
}

/**
 * Records what every slot receives from the queries whose log-sum-exp is kept: the sum, the largest, or the sum of
 * statistic `of` of each weight, divided by `over`. Writes `columns [H or G, stride]`, or those of these heads `among`
 * others, replacing their contents or joined with them. Rows of KV heads sum what all their query heads give.
 */
export function encodeColumns(
  commands: Commands,
  a: DeviceAttention,
  attended: AttentionResult,
  columns: Tensor,
  {
    of = 'sum',
    join = false,
    over = 1,
    among,
  }: {
    readonly of?: ColumnOf;
    readonly join?: boolean;
    readonly over?: number;
    readonly among?: HeadPlaces | undefined;
  } = {},
): void {
  const { heads, headDim, slots, mask, biases } = a,
    { last } = attended,
    [count = 1, stride = 1] = columns.shape,
    { rows, fold, places } = placesOf(a, count, among),
    kind = { masked: mask !== undefined };
  const lse = { ...attended.out, shape: [heads, last] },
    counted = countsVisible(of) ? commands.make([2, heads, last]) : undefined;
  if (counted)
    dispatch(
      commands,
      visibleCounts(kind),
      { ...read(a), lse, out: counted },
      { ...common(a), last, lse_at: attended.lseAt },
      heads * last,
    );
  const [given, spent] = withBiases(commands, a);
  dispatch(
    commands,
    columnSums({ ...kind, ...(biases && { biased: true }), headDim, keys: deviceForms[a.form ?? 'f32'].keys, of }),
    { ...read(given), lse: counted ?? lse, columns: { ...columns, shape: [rows, slots] } },
    {
      ...common(a),
      last,
      lse_at: counted ? 0 : attended.lseAt,
      fold,
      slots,
      stride,
      ...places,
      join: join ? 1 : 0,
      over,
    },
    rows * Math.ceil(slots / COLUMN_SLOTS),
    { again: join ? 4 * rows * slots : 0 },
  );
  if (counted) commands.free(counted);
  if (spent) commands.free(spent);
}

/**
 * Records the addition of decoded queries' probabilities, from kept scores, to running sums `[H or G, stride]`, or those of
 * these heads `among` others. Rows of KV heads sum those of all their query heads.
 */
export function encodeAccumulate(
  commands: Commands,
  { m, heads, kvHeads, slots }: DeviceAttention,
  { out: lse, lseAt: lse_at, scores }: AttentionResult & Required<Pick<AttentionResult, 'scores'>>,
  sums: Tensor,
  among?: HeadPlaces,
): void {
  const [count = 1, stride = 1] = sums.shape,
    { rows, fold, places } = placesOf({ heads, kvHeads }, count, among);
  dispatch(
    commands,
    accumulate,
    {
      scores: { ...scores.tensor, shape: [m, heads, slots] },
      lse: { ...lse, shape: [heads, m] },
      sums: { ...sums, shape: [rows, slots] },
    },
    {
      scores_at: scores.at,
      score_stride: scores.stride,
      lse_at,
      m,
      heads,
      fold,
      slots,
      stride,
      group: places.group,
      step: places.step,
      first: places.at,
    },
    rows * slots,
    { again: 4 * rows * slots },
  );
}
