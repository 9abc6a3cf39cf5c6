import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { dispatch } from './kernel.ts';
import { accumulate } from './kernels/accumulate.wgsl.ts';
import { attention, mostRows, type AttentionKind } from './kernels/attention.wgsl.ts';
import { columnSums, COLUMN_SLOTS } from './kernels/columns.wgsl.ts';
import { join } from './kernels/join.wgsl.ts';
import type { scoreScalars } from './wgsl/visible.ts';

/** Queries over a cache on the device. Positions of slots and of queries ascend; what lies beyond a head's length is never read. */
export interface DeviceAttention {
  readonly m: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** `[H, m, d]` */
  readonly q: Tensor;
  /** `[G, capacity, d]` */
  readonly keys: Tensor;
  readonly values: Tensor;
  /** u32 `[G, capacity]` */
  readonly positions: Tensor;
  /** u32 `[G]` */
  readonly lengths: Tensor;
  readonly capacity: number;
  /** No head has more. */
  readonly slots: number;
  /** u32 `[m, 1 + 2 * views]`: each query's position, then pairs (from, below) of positions that it does not see. */
  readonly rows: Tensor;
  readonly views: number;
  /** Positions that a query sees, its own included. @defaultValue all */
  readonly window?: number;
  /** 0 where a slot is hidden, of f32 or u32: `[1, G or H, at least slots]`. */
  readonly mask?: Tensor;
  readonly scale: number;
  /** Positive. */
  readonly softcap?: number;
}

/** What attention leaves on the device. */
export interface Attended {
  /** `[m, H * d]`; the same buffer holds, from `lseAt` on, log-sum-exp `[H, last]` of the last queries. */
  readonly out: Tensor;
  readonly lseAt: number;
  readonly last: number;
  /** Scores `[m, H, stride]` from `at` on, the lowest f32 where a slot is not seen. */
  readonly scores?: { readonly tensor: Tensor; readonly at: number; readonly stride: number };
}

export interface AttentionOptions {
  /** Queries whose log-sum-exp is wanted, from the last back; those of all where slots are split. @defaultValue 0 */
  readonly last?: number;
  /** Keeps the scores, for `encodeAccumulate`: for few queries. */
  readonly scores?: boolean;
  /** Workgroups that share the slots of a KV head. @defaultValue by the shape */
  readonly splits?: number;
}

/** Workgroups that fill an adapter, and slots below which none is split. */
const ENOUGH = 64, SPAN = 256;

function common({ m, heads, kvHeads: kv_heads, capacity, views, window = 0xffff_ffff, mask, scale, softcap: cap = 0 }: DeviceAttention): Readonly<Record<keyof typeof scoreScalars, number>> {
  return { m, heads, kv_heads, capacity, views, window, mask_rows: mask?.shape[0] ?? 0, mask_step: mask?.shape[1] ?? 0, scale, cap };
}

/** Records softmax attention: whole where tiles of queries fill the adapter, split over slots and joined where they do not. */
export function encodeAttention(commands: Commands, a: DeviceAttention, { last = 0, scores = false, splits: wanted }: AttentionOptions = {}): Attended {
  const { m, heads, kvHeads, headDim: d, slots, mask } = a, count = (m * heads) / kvHeads;
  const rows = Math.min(mostRows(d), count <= 4 ? 4 : count <= 8 ? 8 : 16) as AttentionKind['rows'], groups = kvHeads * Math.ceil(count / rows);
  const most = wanted ?? (groups < ENOUGH ? Math.min(ENOUGH, Math.ceil(slots / SPAN)) : 1), span = Math.max(32, 32 * Math.ceil(slots / most / 32)), splits = Math.max(1, Math.ceil(slots / span));
  const split = scores || splits > 1, kind: AttentionKind = { headDim: d, rows, split, scores, masked: mask !== undefined };
  const whole = m * heads * d, meta_at = split ? whole * splits : whole, scores_at = meta_at + 2 * m * heads * splits;
  const record = (out: Tensor, lasts: number): void => dispatch(commands, attention(kind), { ...a, out }, { ...common(a), splits, span, last: lasts, meta_at, scores_at, score_stride: slots }, groups * splits);
  if (!split) {
    const out = commands.make([whole + heads * last]);
    record(out, last);
    return { out, lseAt: whole, last };
  }
  const parts = commands.make([scores_at + (scores ? m * heads * slots : 0)]), out = commands.make([whole + heads * m]);
  record(parts, 0);
  dispatch(commands, join, { parts, out }, { m, heads, size: d, splits, meta_at, lse_at: whole }, m * heads);
  if (!scores) commands.free(parts);
  return { out, lseAt: whole, last: m, ...(scores && { scores: { tensor: parts, at: scores_at, stride: slots } }) };
}

/**
 * Records what every slot receives from the queries whose log-sum-exp is there, summed or the largest: to `columns [H, stride]`, in the place of what is there,
 * or joined with it.
 */
export function encodeColumns(commands: Commands, a: DeviceAttention, { out: lse, lseAt, last }: Attended, columns: Tensor, { of = 'sum', join = false }: { readonly of?: 'sum' | 'max'; readonly join?: boolean } = {}): void {
  const { heads, headDim, slots, mask } = a;
  dispatch(commands, columnSums({ headDim, masked: mask !== undefined }), { ...a, lse, columns },
    { ...common(a), last, lse_at: lseAt, slots, stride: columns.shape[1]!, join: join ? 1 : 0, largest: of === 'max' ? 1 : 0 }, heads * Math.ceil(slots / COLUMN_SLOTS));
}

/** Records the addition of decoded queries' probabilities, from kept scores, to running sums `[H or G, stride]`: rows of KV heads get those of all their query heads. */
export function encodeAccumulate(commands: Commands, { m, heads, slots }: DeviceAttention, { out: lse, lseAt: lse_at, scores }: Attended & Required<Pick<Attended, 'scores'>>, sums: Tensor): void {
  const [rows = 1, stride = 1] = sums.shape;
  dispatch(commands, accumulate, { scores: scores.tensor, lse, sums }, { scores_at: scores.at, score_stride: scores.stride, lse_at, m, heads, fold: heads / rows, slots, stride }, rows * slots);
}
