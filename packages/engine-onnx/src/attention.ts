import {
  addColumns,
  attend,
  headCount,
  type Attend,
  type AttendOptions,
  type AttentionStats,
  type WindowColumns,
  hider,
} from '@kv/engine';
import type { CacheView } from '@kv/engine';
import { attentionGraph, type AttentionGraphShape } from './attention-graph.ts';
import { headView, type HeadView } from './attention-mask.ts';
import { sessionOptions, type Onnx, type OnnxSession, type OnnxTensor } from './runtime.ts';

export interface OnnxAttendOptions {
  readonly threads: number;
  /** Multiplications below which `attend` runs instead: it finishes before a graph would start. @defaultValue 2^18 */
  readonly small?: number;
  /**
   * Scores of one KV head that are held at a time, so that they stay in the second-level cache; 16 rows at least.
   * @defaultValue 2^18
   */
  readonly scores?: number;
}

/** `attend` on ONNX Runtime. */
export interface OnnxAttend extends Attend {
  /** Releases its sessions once their runs have ended; later calls open others. */
  release(): void;
}

/** Sessions that are kept at a time: windows have as many shapes as prompts have lengths. */
const MOST_SESSIONS = 16;

type Result = Readonly<Record<string, OnnxTensor>>;
interface OpenSession {
  readonly session: Promise<OnnxSession>;
  /** Resolves when its runs so far have ended. */
  idle: Promise<void>;
}

/**
 * Returns `attend` on ONNX Runtime. Keys and values are read in the cache. Small calls, heads with sinks, slots with
 * biases and rows that see nothing go to `attend`.
 */
export function onnxAttend(onnx: Onnx, { threads, small = 2 ** 18, scores = 2 ** 18 }: OnnxAttendOptions): OnnxAttend {
  /** By shape; the one used last is the last. */
  const sessions = new Map<string, OpenSession>();
  const release = (most = 0): void => {
    for (const [key, { session, idle }] of [...sessions].slice(0, Math.max(0, sessions.size - most))) {
      sessions.delete(key);
      void idle.then(async () => (await session).release()).catch(() => {}); // one that did not open has nothing to release
    }
  };
  const run = (shape: AttentionGraphShape, feeds: Readonly<Record<string, OnnxTensor>>): Promise<Result> => {
    const key = JSON.stringify(shape);
    const open = sessions.get(key) ?? {
      session: onnx.InferenceSession.create(attentionGraph(shape), sessionOptions(threads)),
      idle: Promise.resolve(),
    };
    sessions.delete(key);
    sessions.set(key, open);
    const result = open.session.then((session) => session.run(feeds));
    open.idle = Promise.allSettled([open.idle, result]).then(() => {});
    release(MOST_SESSIONS);
    return result;
  };
  const attendInGraphs: Attend = async (options) => {
    const { q, queryPositions, cache, counters, stats, softcap, scale = 1 / Math.sqrt(cache.headDim) } = options;
    const m = queryPositions.length,
      d = cache.headDim,
      heads = headCount(q, m, cache, 'attend'),
      group = heads / cache.heads;
    const longest = cache.lengths.reduce((a, b) => Math.max(a, b), 0);
    if (options.sinks || cache.biases || m * longest * heads * d < small) return attend(options);
    if (counters !== undefined) {
      counters.fused++;
      if (stats !== undefined) counters.statistics++;
    }
    const out = new Float32Array(m * heads * d),
      hide = hider(options.visible, cache, heads);
    const tile = Math.min(m, Math.max(16, Math.floor(scores / (group * longest)), ...windowRows(stats)));
    // whole tiles at the end, so that no window begins in the middle of more tiles than one
    for (let b = 0, end = m % tile || tile; b < m; b = end, end += tile) {
      const rows = rowsOf(options, heads, b, end - b),
        to = b * heads * d;
      const views = headViews(cache, group, rows.queryPositions, hide);
      if (views === undefined) {
        out.set(attend(rows), to);
        continue;
      }
      const masked = views.some(({ mask }) => mask !== undefined),
        sums = stats?.columnSum !== undefined,
        maxima = stats?.columnMax !== undefined,
        windows = rows.stats?.windows ?? [];
      const shape: AttentionGraphShape = {
        kvHeads: cache.heads,
        group,
        headDim: d,
        scale,
        ...(softcap !== undefined && { softcap }),
        masked,
        sums,
        maxima,
        windows: windows.map(({ queries, of }) => ({ rows: queries < end - b ? queries : 'all', of })),
      };
      const result = await run(shape, feedsOf(onnx, cache, group, rows.q, views, masked));
      out.set(result.out.data as Float32Array, to);
      if (stats !== undefined) addTile(stats, windows, heads, views, result);
    }
    return out;
  };
  return Object.assign(attendInGraphs, { release: () => release() });
}

/** Windows no wider than this fit in one tile. */
const NARROW = 128;

const windowRows = (stats: AttentionStats | undefined): readonly number[] =>
  (stats?.windows ?? []).map(({ queries }) => queries).filter((w) => w <= NARROW);

/** Adds the column statistics of a tile's graph. */
function addTile(
  stats: AttentionStats,
  windows: readonly WindowColumns[],
  heads: number,
  views: readonly HeadView[],
  result: Result,
): void {
  const { stride, among } = stats,
    all = among?.all ?? heads,
    group = heads / views.length;
  for (const [g, { end }] of views.entries()) {
    const add = (to: AttentionStats, sum?: OnnxTensor, max?: OnnxTensor): void => {
      const row = (x: OnnxTensor | undefined, r: number): Float32Array | undefined =>
        (x?.data as Float32Array | undefined)?.subarray(r * end, (r + 1) * end);
      for (let r = 0; r < group; r++) {
        const h = g * group + r;
        addColumns(to, all, among?.rows[h] ?? h, row(sum, r), row(max, r));
      }
    };
    add(stats, result[`sum${g}`], result[`max${g}`]);
    for (const [i, { of, columns }] of windows.entries()) {
      const column = result[`window${g}.${i}`];
      if (of === 'max') add({ stride, columnMax: columns }, undefined, column);
      else add({ stride, columnSum: columns }, column);
    }
  }
}

/** Returns the options of rows [b, b + count) only, without counters, with the windows that reach into them. */
function rowsOf({ counters: _, ...options }: AttendOptions, heads: number, b: number, count: number): AttendOptions {
  const m = options.queryPositions.length,
    d = options.cache.headDim,
    after = m - b - count;
  if (count === m) return options;
  const q = new Float32Array(heads * count * d);
  for (let h = 0; h < heads; h++) q.set(options.q.subarray((h * m + b) * d, (h * m + b + count) * d), h * count * d);
  const { stats } = options,
    windows = stats?.windows?.flatMap(({ queries, ...of }) =>
      queries > after ? { ...of, queries: queries - after } : [],
    );
  return {
    ...options,
    q,
    queryPositions: options.queryPositions.subarray(b, b + count),
    ...(stats && { stats: { ...stats, ...(windows && { windows }) } }),
  };
}

function headViews(
  cache: CacheView,
  group: number,
  queryPositions: Uint32Array,
  hide: Parameters<typeof headView>[4],
): HeadView[] | undefined {
  const views: HeadView[] = [];
  for (let g = 0; g < cache.heads; g++) {
    const view = headView(cache, g, group, queryPositions, hide);
    if (view === undefined) return undefined;
    views.push(view);
  }
  return views;
}

function feedsOf(
  onnx: Onnx,
  cache: CacheView,
  group: number,
  q: Float32Array,
  views: readonly HeadView[],
  masked: boolean,
): Record<string, OnnxTensor> {
  const { headDim: d } = cache,
    size = q.length / cache.heads,
    m = size / (group * d);
  const feeds: Record<string, OnnxTensor> = {};
  const put = (name: string, data: Float32Array, ...shape: readonly number[]): void =>
    void (feeds[name] = new onnx.Tensor('float32', data, shape));
  for (const [g, { end, mask, maskRows }] of views.entries()) {
    put(`q${g}`, q.subarray(g * size, (g + 1) * size), group, m, d);
    put(`k${g}`, cache.read('keys', g).subarray(0, end * d), end, d);
    put(`v${g}`, cache.read('values', g).subarray(0, end * d), end, d);
    if (masked) put(`mask${g}`, mask ?? new Float32Array(m * end), maskRows, m, end);
  }
  return feeds;
}
