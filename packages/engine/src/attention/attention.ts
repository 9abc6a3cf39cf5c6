import { KvError } from '@kv/core';
import type { WindowStatistic } from '@kv/core';
import { blockRows } from './block-rows.ts';
import type { RowEngine, ScoreRows } from './row-engine.ts';
import { hider } from './visible.ts';
import type { SlotVisibility } from './visible.ts';
import { countBelow } from '@kv/core/shared';
import { countsVisible, weighs } from './window-statistic.ts';
import type { CacheView } from '../cache/layer-cache.ts';
import type { AttentionCounters } from '../memory/feed.ts';
import { plainEngine } from './plain.ts';

/** Column statistics to update, each `[H, stride]`: slot j of query head h at h * stride + j. */
export interface AttentionStats {
  readonly stride: number;
  /**
   * Where statistics are of the heads of several layers, of which one attends: the number of all heads, and the row of
   * each head that attends. @defaultValue the heads that attend, in order
   */
  readonly among?: HeadsAmong | undefined;
  /**
   * += the probability that each slot receives, over the queries (summed in f64 within a call). A row of `[G, stride]`
   * sums all of its query heads.
   */
  readonly columnSum?: Float32Array;
  /** = the largest probability that each slot received. */
  readonly columnMax?: Float32Array;
  /** Statistics of the last queries only, in addition to those of all queries. */
  readonly windows?: readonly WindowColumns[];
}

/** Some query heads among all that read a layer's slots. */
export interface HeadsAmong {
  /** All heads. */
  readonly all: number;
  /** The place of each of these heads. */
  readonly rows: Uint32Array;
}

/** A statistic of the last queries of a call. */
export interface WindowColumns {
  /** Number of last queries; all, if there are fewer. */
  readonly queries: number;
  /** The statistic of the weights. @defaultValue the weights themselves, summed */
  readonly of?: 'max' | WindowStatistic | undefined;
  /** `[H, stride]`: += the sum over these queries, or = the largest. */
  readonly columns: Float32Array;
}

/** An implementation of `attend`, on the host or elsewhere. */
export type Attend = (options: AttendOptions) => Float32Array | Promise<Float32Array>;

interface Common {
  readonly cache: CacheView;
  /** Original positions of the queries `[m]`. */
  readonly queryPositions: Uint32Array;
  /** Multiplies q·k. @defaultValue 1 / sqrt(d) */
  readonly scale?: number;
  /** Caps scores to `cap * tanh(score / cap)` before anything is hidden (Gemma 2, arXiv 2408.00118, section 2). */
  readonly softcap?: number;
  /**
   * A learned score of each query head `[H]` that takes part in its softmax, after any cap, and belongs to no slot: a
   * head's weights then sum to 1 less the weight of its sink.
   *
   * @defaultValue none, so that weights sum to 1
   */
  readonly sinks?: Float32Array;
  /** What queries may see; of several views, a slot hidden by any is hidden. */
  readonly visible?: SlotVisibility | readonly SlotVisibility[];
  readonly counters?: AttentionCounters;
  /** The arithmetic. @defaultValue plain loops */
  readonly engine?: RowEngine | undefined;
}

/** Input of `attend`. */
export interface AttendOptions extends Common {
  /** `[H, m, d]` f32, rotated by their position. */
  readonly q: Float32Array;
  /** Collects statistics of the weights. @defaultValue none */
  readonly stats?: AttentionStats;
  /** `[m, H]`: = ln Σ e^score of each query, its sink's included; -Infinity where it sees nothing. @defaultValue none */
  readonly masses?: Float32Array;
}

export interface WindowOptions extends Common {
  /** The last w queries `[H, w, d]` f32, rotated by their position. */
  readonly queries: Float32Array;
  /** `max`: the largest weight; otherwise the mean of this statistic. @defaultValue the mean of the weights */
  readonly of?: 'max' | WindowStatistic;
}

/**
 * Computes causal softmax attention, `[m, H * d]` f32. Query head h reads KV head floor(h / (H / G)), and a query sees
 * slots at or before its position. Scores are q·k / sqrt(d) unless `scale` or `softcap` is given, and what the cache's
 * slots add to theirs. A query that sees nothing gets zeros. O(m n d) per head.
 * @throws KvError if the arrays do not fit the cache.
 */
export function attend(options: AttendOptions): Float32Array {
  const { q, queryPositions, cache, counters, stats, masses } = options;
  if (counters !== undefined) {
    counters.fused++;
    if (stats !== undefined) counters.statistics++;
  }
  const heads = headCount(q, queryPositions.length, cache, 'attend');
  const out = new Float32Array(queryPositions.length * heads * cache.headDim);
  rows(options, q, heads, { out, ...(stats === undefined ? {} : { stats }), ...(masses && { masses }) });
  return out;
}

/**
 * Returns the mean over the last w queries of the causal softmax over all visible slots, or another statistic of it,
 * `[H, n]` f32, n the longest head's slots; 0 beyond a head's length. Sums in f64. O(w n d) per head.
 */
export function windowAttention(options: WindowOptions): Float32Array {
  const { queries, queryPositions, cache, counters, of } = options;
  if (counters !== undefined) counters.statistics++;
  const w = queryPositions.length,
    heads = headCount(queries, w, cache, 'windowAttention'),
    stride = cache.lengths.reduce((a, b) => Math.max(a, b), 0),
    columns = new Float32Array(heads * stride);
  rows(options, queries, heads, { stats: { stride, windows: [{ queries: w, of, columns }] } });
  if (of !== 'max') for (let i = 0; i < columns.length; i++) columns[i] /= w;
  return columns;
}

/**
 * Returns the causal softmax row of every query, `[H, m, n]` f32, n the longest head's slots; 0 beyond what a query
 * sees.
 */
export function attentionWeights(options: Omit<AttendOptions, 'stats'>): Float32Array {
  const { q, queryPositions, cache, counters } = options;
  if (counters !== undefined) counters.statistics++;
  const m = queryPositions.length,
    heads = headCount(q, m, cache, 'attentionWeights'),
    stride = cache.lengths.reduce((a, b) => Math.max(a, b), 0),
    weights = new Float32Array(heads * m * stride);
  rows(options, q, heads, { weights: { stride, rows: weights } });
  return weights;
}

/** Returns the softmax row of the last of the w queries only, `[H, n]` f32. */
export function lastAttention(options: WindowOptions): Float32Array {
  const { queries, queryPositions, cache } = options;
  const w = queryPositions.length;
  const d = cache.headDim;
  const heads = headCount(queries, w, cache, 'lastAttention');
  const last = new Float32Array(heads * d);
  for (let h = 0; h < heads; h++) last.set(queries.subarray((h * w + w - 1) * d, (h + 1) * w * d), h * d);
  return windowAttention({ ...options, queries: last, queryPositions: queryPositions.subarray(w - 1) });
}

/** The default engine; keeps no state but reusable memory. */
const plain = plainEngine();

interface Wanted {
  /** `[m, H * d]` */
  readonly out?: Float32Array;
  readonly stats?: AttentionStats;
  readonly masses?: Float32Array;
  /** `[H, m, stride]`: = the weights of each query. */
  readonly weights?: { readonly stride: number; readonly rows: Float32Array };
}

function rows(
  { cache, queryPositions, visible, softcap, sinks, scale = 1 / Math.sqrt(cache.headDim), engine = plain }: Common,
  q: Float32Array,
  heads: number,
  { out, stats, masses, weights }: Wanted,
): void {
  const { headDim: d, capacity, biases } = cache;
  const m = queryPositions.length;
  const group = heads / cache.heads;
  const hide = hider(visible, cache, heads),
    { windows = [], stride = 0, among } = stats ?? {},
    all = among?.all ?? heads,
    parts = partsOf(windows, m),
    weighed = windows.flatMap(({ of, queries, columns }) =>
      of === undefined || of === 'max' ? [] : { of, columns, first: m - queries, sums: new Float64Array(stride) },
    );
  for (let g = 0; g < cache.heads; g++) {
    const n = cache.lengths[g];
    const from = g * capacity;
    const positions = cache.positions.subarray(from, from + n);
    const seen = Uint32Array.from(queryPositions, (p) => countBelow(positions, p + 1));
    engine.open(cache.read('keys', g), out && cache.read('values', g), n, d, m);
    for (let h = g * group; h < (g + 1) * group; h++) {
      const sink = sinks?.[h] ?? -Infinity,
        row = among?.rows[h] ?? h;
      for (const [first, last] of parts) {
        const inside = windows.filter(({ queries }) => first >= m - queries),
          maxima = stats?.columnMax !== undefined || inside.some(({ of }) => of === 'max'),
          asking = weighed.filter((one) => first >= one.first),
          counting = asking.some(({ of }) => countsVisible(of));
        for (let b = first; b < last; b += blockRows) {
          const count = Math.min(blockRows, last - b);
          const end = seen.subarray(b, b + count).reduce((x, y) => Math.max(x, y), 0);
          const scores = engine.score(q.subarray((h * m + b) * d, (h * m + b + count) * d), count, end, scale);
          if (softcap !== undefined) cap(scores, count, end, softcap);
          if (biases) addBiases(scores, count, end, biases.data.subarray(g * biases.stride, g * biases.stride + n));
          for (let r = 0; r < count; r++) {
            hide?.(scores, r, queryPositions[b + r], seen[b + r], h, g);
            const at = scores.at + r * scores.stride,
              visible = counting ? countVisible(scores.data, at, seen[b + r]) : 0;
            const largest = masses && seen[b + r] > 0 ? largestOf(scores.data, at, seen[b + r]) : at,
              top = seen[b + r] > 0 ? scores.data[largest] : -Infinity;
            engine.softmax(r, seen[b + r], end, sink);
            // the sum is what the largest score was divided by
            if (masses) masses[(b + r) * heads + h] = top === -Infinity ? sink : top - Math.log(scores.data[largest]);
            weights?.rows.set(scores.data.subarray(at, at + seen[b + r]), (h * m + b + r) * weights.stride);
            for (const { of, sums } of asking) weighs[of](scores.data, at, seen[b + r], visible, sums);
          }
          if (stats !== undefined) engine.addColumns(count, end, maxima);
          if (out !== undefined) engine.mix(count, end, out, (b * heads + h) * d, heads * d);
        }
        if (stats === undefined) continue;
        const { sum, max } = engine.takeColumns(n);
        addColumns(stats, all, row, sum, max);
        for (const { of, columns } of inside)
          if (of === undefined) addColumns({ stride: stats.stride, columnSum: columns }, all, row, sum, undefined);
          else if (of === 'max') addColumns({ stride: stats.stride, columnMax: columns }, all, row, undefined, max);
      }
      for (const { columns, sums } of weighed) {
        addColumns({ stride, columnSum: columns }, all, row, sums, undefined);
        sums.fill(0);
      }
    }
  }
}

/** Returns runs of queries [first, last) that belong to the same windows. */
function partsOf(windows: readonly WindowColumns[], m: number): (readonly [first: number, last: number])[] {
  const starts = [0, ...windows.map(({ queries }) => m - queries)].filter((at) => at >= 0 && at < m),
    cuts = [...new Set(starts)].sort((a, b) => a - b);
  return cuts.map((first, i) => [first, cuts[i + 1] ?? m]);
}

/** Returns where the largest of n > 0 scores lies. */
function largestOf(scores: Float32Array, at: number, n: number): number {
  let largest = at;
  for (let j = at + 1; j < at + n; j++) if (scores[j] > scores[largest]) largest = j;
  return largest;
}

function countVisible(scores: Float32Array, at: number, n: number): number {
  let count = 0;
  for (let j = at; j < at + n; j++) if (scores[j] > -Infinity) count++;
  return count;
}

function cap({ data, at, stride }: ScoreRows, rows: number, end: number, softcap: number): void {
  for (let r = 0; r < rows; r++)
    for (let j = at + r * stride; j < at + r * stride + end; j++) data[j] = softcap * Math.tanh(data[j] / softcap);
}

function addBiases({ data, at, stride }: ScoreRows, rows: number, end: number, biases: Float32Array): void {
  for (let r = 0; r < rows; r++) for (let j = 0; j < end; j++) data[at + r * stride + j] += biases[j];
}

/** Adds the columns of query head h of `heads`, from slot 0 on, to the statistics. */
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

/** Returns the number of query heads of q `[H, m, d]`. @throws KvError unless it is a multiple of the cache's heads. */
export function headCount(q: Float32Array, m: number, cache: CacheView, at: string): number {
  const heads = q.length / (m * cache.headDim);
  if (m > 0 && Number.isInteger(heads) && heads > 0 && heads % cache.heads === 0) return heads;
  throw new KvError(
    at,
    `queries must be [H, ${m}, ${cache.headDim}] with H a multiple of ${cache.heads}, got ${q.length} numbers`,
  );
}
