import { KvError } from '@kv/core';
import type { WindowStatistic } from '@kv/core';
import { blockRows } from './attention/block-rows.ts';
import { defaultEngine } from './attention/engine.ts';
import type { RowEngine, ScoreRows } from './attention/row-engine.ts';
import { countBelow, hider, type Visible } from './attention/visible.ts';
import { weighs, type Weigh } from './attention/window-statistic.ts';
import type { CacheView } from './cache.ts';
import type { AttentionCounters } from './sequence/memory.ts';

/** Column statistics to add to, each `[H, stride]`: slot j of query head h at h * stride + j. */
export interface AttentionStats {
  readonly stride: number;
  /**
   * += the probability that each slot receives, over the queries (summed in f64 within a call); of `[G, stride]` a row
   * takes all its query heads.
   */
  readonly columnSum?: Float32Array;
  /** = the largest probability that each slot received. */
  readonly columnMax?: Float32Array;
}

/** `attend`, wherever it runs. */
export type Attend = (options: AttendOptions) => Float32Array | Promise<Float32Array>;

interface Common {
  readonly cache: CacheView;
  /** Original positions of the queries `[m]`. */
  readonly queryPositions: Uint32Array;
  /** Multiplies q·k. @defaultValue 1 / sqrt(d) */
  readonly scale?: number;
  /** Scores become `cap * tanh(score / cap)` before anything is hidden (Gemma 2, arXiv 2408.00118, section 2). */
  readonly softcap?: number;
  /** Several views hide what any of them hides. */
  readonly visible?: Visible | readonly Visible[];
  readonly counters?: AttentionCounters;
  /** What computes. @defaultValue SIMD, or plain loops where it is missing */
  readonly engine?: RowEngine;
}

export interface AttendOptions extends Common {
  /** `[H, m, d]` f32, turned by their position. */
  readonly q: Float32Array;
  readonly stats?: AttentionStats;
}

export interface WindowOptions extends Common {
  /** The last w queries `[H, w, d]` f32, turned by their position. */
  readonly queries: Float32Array;
  /** The largest weight, or the mean of what this makes of the weights. @defaultValue the mean of the weights */
  readonly of?: 'max' | WindowStatistic;
}

/**
 * Causal softmax attention, `[m, H * d]` f32: query head h reads KV head floor(h / (H / G)), a query sees slots of at
 * most its position,
 * scores are q·k / sqrt(d) unless `scale` or `softcap` say otherwise. A query that sees nothing gets zeros. O(m n d)
 * for each head.
 * @throws KvError if the arrays do not fit the cache.
 */
export function attend(options: AttendOptions): Float32Array {
  const { q, queryPositions, cache, counters, stats } = options;
  if (counters !== undefined) {
    counters.fused++;
    if (stats !== undefined) counters.statistics++;
  }
  const heads = headCount(q, queryPositions.length, cache, 'attend');
  const out = new Float32Array(queryPositions.length * heads * cache.headDim);
  rows(options, q, heads, { out, ...(stats === undefined ? {} : { stats }) });
  return out;
}

/**
 * The mean over the last w queries of the causal softmax over all slots of the cache that are visible, or another
 * statistic of it, `[H, n]` f32, n the longest head's slots; 0 beyond a head's length.
 * Sums in f64. O(w n d) for each head.
 */
export function windowAttention(options: WindowOptions): Float32Array {
  const { queries, queryPositions, cache, counters, of } = options;
  if (counters !== undefined) counters.statistics++;
  const heads = headCount(queries, queryPositions.length, cache, 'windowAttention');
  const stride = cache.lengths.reduce((a, b) => Math.max(a, b), 0);
  const columns = new Float32Array(heads * stride);
  rows(
    options,
    queries,
    heads,
    of === 'max'
      ? { stats: { stride, columnMax: columns } }
      : { stats: { stride, columnSum: columns }, ...(of && { weigh: weighs[of] }) },
  );
  return of === 'max' ? columns : columns.map((sum) => sum / queryPositions.length);
}

/** The softmax row of the last of the w queries alone, `[H, n]` f32. */
export function lastAttention(options: WindowOptions): Float32Array {
  const { queries, queryPositions, cache } = options;
  const w = queryPositions.length;
  const d = cache.headDim;
  const heads = headCount(queries, w, cache, 'lastAttention');
  const last = new Float32Array(heads * d);
  for (let h = 0; h < heads; h++) last.set(queries.subarray((h * w + w - 1) * d, (h + 1) * w * d), h * d);
  return windowAttention({ ...options, queries: last, queryPositions: queryPositions.subarray(w - 1) });
}

interface Wanted {
  /** `[m, H * d]` */
  readonly out?: Float32Array;
  readonly stats?: AttentionStats;
  /** What statistics take in the place of each query's weights, which are not mixed then. */
  readonly weigh?: Weigh;
}

function rows(
  { cache, queryPositions, visible, softcap, scale = cache.headDim ** -0.5, engine = defaultEngine() }: Common,
  q: Float32Array,
  heads: number,
  { out, stats, weigh }: Wanted,
): void {
  const { headDim: d, capacity } = cache;
  const m = queryPositions.length;
  const group = heads / cache.heads;
  const hide = hider(visible, cache, heads);
  for (let g = 0; g < cache.heads; g++) {
    const n = cache.lengths[g];
    const from = g * capacity;
    const slice = (all: Float32Array): Float32Array => all.subarray(from * d, (from + n) * d);
    const positions = cache.positions.subarray(from, from + n);
    const seen = Uint32Array.from(queryPositions, (p) => countBelow(positions, p + 1));
    engine.open(slice(cache.keys), out && slice(cache.values), n, d, m);
    for (let h = g * group; h < (g + 1) * group; h++) {
      for (let b = 0; b < m; b += blockRows) {
        const count = Math.min(blockRows, m - b);
        const end = seen.subarray(b, b + count).reduce((x, y) => Math.max(x, y), 0);
        const scores = engine.score(q.subarray((h * m + b) * d, (h * m + b + count) * d), count, end, scale);
        if (softcap !== undefined) cap(scores, count, end, softcap);
        for (let r = 0; r < count; r++) {
          hide?.(scores, r, queryPositions[b + r], seen[b + r], h, g);
          const from = scores.at + r * scores.stride,
            row = weigh && scores.data.subarray(from, from + seen[b + r]),
            visible = row?.reduce((count, score) => count + Number(score > -Infinity), 0);
          engine.softmax(r, seen[b + r], end);
          if (row) weigh(row, visible!);
        }
        if (stats !== undefined) engine.addColumns(count, end, stats.columnMax !== undefined);
        if (out !== undefined) engine.mix(count, end, out, (b * heads + h) * d, heads * d);
      }
      if (stats !== undefined) {
        const { sum, max } = engine.takeColumns(n);
        addColumns(stats, heads, h, sum, max);
      }
    }
  }
}

function cap({ data, at, stride }: ScoreRows, rows: number, end: number, softcap: number): void {
  for (let r = 0; r < rows; r++)
    for (let j = at + r * stride; j < at + r * stride + end; j++) data[j] = softcap * Math.tanh(data[j] / softcap);
}

/** Adds columns of query head h of `heads`, from slot 0 on, to the statistics that are kept. */
export function addColumns(
  { stride, columnSum, columnMax }: AttentionStats,
  heads: number,
  h: number,
  sum: ArrayLike<number> | undefined,
  max: ArrayLike<number> | undefined,
): void {
  const at = h * stride,
    to = columnSum === undefined ? 0 : Math.floor((h * columnSum.length) / (heads * stride)) * stride;
  if (columnSum !== undefined && sum !== undefined)
    for (let j = 0; j < sum.length; j++) columnSum[to + j] = columnSum[to + j] + sum[j];
  if (columnMax !== undefined && max !== undefined)
    for (let j = 0; j < max.length; j++) columnMax[at + j] = Math.max(columnMax[at + j], max[j]);
}

/** Query heads of q `[H, m, d]`. @throws KvError unless they are a multiple of the cache's heads. */
export function headCount(q: Float32Array, m: number, cache: CacheView, at: string): number {
  const heads = q.length / (m * cache.headDim);
  if (m > 0 && Number.isInteger(heads) && heads > 0 && heads % cache.heads === 0) return heads;
  throw new KvError(
    at,
    `queries must be [H, ${m}, ${cache.headDim}] with H a multiple of ${cache.heads}, got ${q.length} numbers`,
  );
}
