import type { Decoder, HostState, PassOptions, BatchGroup, WindowColumns } from '@kv/engine';
import { addColumns, rmsNorm, HELD, turns, layersTogether } from '@kv/engine';
import { BytecodeWriter } from './bytecode-writer.ts';
import type { AttentionShape } from './attention-code.ts';
import { writeProgram } from './compile.ts';
import { cacheBytes, PassBuffers } from './pass-buffers.ts';
import type { WasmRunnable } from './engine.ts';
import { install, sizesOf } from './install.ts';
import type { LoadedCode } from './install.ts';
import type { BufferSlice } from './layout.ts';
import { alike, compilePass } from './compiled-pass.ts';
import type { CompiledPass } from './compiled-pass.ts';
import { WeightArena } from './weight-arena.ts';
import { recordObservations } from './record-observations.ts';
import { copyRows, rowsAt } from './rows.ts';
import { heapStore } from './store.ts';
import type { HeapStore } from './store.ts';
import type { ThreadPool } from './thread-pool.ts';
import { BatchedDecode } from './batched-decode.ts';

/** Rows of a tile. */
const tile = 256;
/** Rows of logits that are computed together. */
const headRows = 16;

interface Head extends LoadedCode {
  readonly x: BufferSlice;
  readonly logits: BufferSlice;
}

/**
 * Fused passes in the module: a token in one call, blocks in tiles of rows, over caches in its memory. Events run
 * between layers or after the last.
 */
export class FusedPass {
  readonly team: ThreadPool;
  /** The storage of the caches that it reads and writes. */
  readonly store: HeapStore;
  readonly #decoder: Decoder<WasmRunnable>;
  readonly #placing: WeightArena;
  readonly #shapes: readonly AttentionShape[];
  readonly #buffers: PassBuffers[] = [];
  readonly #lines = new Map<1 | typeof tile, CompiledPass>();
  readonly #heads = new Map<1 | typeof headRows, Head>();
  readonly #batched: BatchedDecode;
  /** The batch group of its sequences. */
  readonly group: BatchGroup;
  /** Recent milliseconds per layer, for one row and for a tile. */
  readonly #pace = { one: 0, tile: HELD };

  readonly #eight: boolean;
  /** Whether the module's attention supports heads of this width. */
  readonly attends: boolean;

  /** @param exact whether attention of blocks stays f32, as that of a token always does */
  constructor(team: ThreadPool, decoder: Decoder<WasmRunnable>, exact: boolean) {
    [this.team, this.#decoder, this.#placing] = [team, decoder, new WeightArena(team, false)];
    this.store = heapStore(team);
    const { layers, queryHeads, kvHeads, headDim, attention } = decoder.config,
      { scale, softcap, windows } = attention;
    const eight = !exact && team.kernels.eights(headDim) !== 0;
    this.#eight = eight;
    this.attends = headDim % 4 === 0;
    this.#shapes = Array.from({ length: layers }, (_, layer) => {
      const window = windows[layer] ?? Infinity,
        cache = layer * cacheBytes(kvHeads);
      return {
        queryHeads,
        kvHeads,
        headDim,
        scale,
        softcap,
        window: window === Infinity ? 0 : window,
        layer,
        cache,
        eight,
      };
    });
    const batched = new BatchedDecode(team, decoder, this.#placing, this.#shapes, (...token) => this.pass(...token));
    this.#batched = batched;
    this.group = { key: this, open: (count) => batched.open(count) };
  }

  /** Feeds tokens through every layer like `pass`, for policies that neither hide nor freeze anything. */
  async pass(
    caches: HostState,
    ids: readonly number[],
    { rows, afterLayers, active, eventFollows, ...options }: FusedPassOptions,
  ): Promise<Float32Array[]> {
    const { progress, guard } = caches.context,
      count = Math.min(rows, ids.length),
      positions = Uint32Array.from(ids, (_, i) => progress.length + i),
      buffers = this.#buffers.pop() ?? new PassBuffers(this.team, this.#eight);
    for (const id of ids) progress.text.push(id);
    const run = new PassRun(this.#decoder, buffers, caches, positions, this.#pace, {
      between: () => guard.between(options),
      // what an event reads of the last queries: a token's code counts their weights only
      ...((eventFollows || afterLayers) && { follows: active.policy, weights: ids.length === 1 && !afterLayers }),
    });
    try {
      const all = this.#shapes.length;
      const free = (layer: number): void => {
        if (options.phase === 'prefill') caches.slots.freeUnreachable(layer);
      };
      if (ids.length === 1 && !afterLayers) {
        const logits = await this.#token(run, ids, count);
        for (let l = 0; l < all; l++) free(l);
        return logits;
      }
      const x = this.#decoder.embed(ids),
        lines = this.#code(tile),
        D = this.#decoder.config.hidden;
      // after the last layer's keys and values, earlier rows are not read any more
      const wanted = caches.hidden ? 0 : ids.length - count;
      const through = async (from: number, to: number): Promise<void> => {
        run.open(from, to);
        for (let at = 0; at < ids.length; at += tile) {
          const m = Math.min(tile, ids.length - at),
            part = x.subarray(at * D, (at + m) * D),
            unread = to === all && at + m <= wanted;
          copyRows(part, D, this.#rows(buffers, lines, from, m), m);
          await run.layers(lines, from, to, at, m, unread ? lines.appended : undefined);
          if (unread) continue;
          const { data, stride } = this.#rows(buffers, lines, to, m);
          for (let r = 0; r < m; r++) part.set(data.subarray(r * stride, r * stride + D), r * D);
        }
      };
      if (afterLayers)
        for (let from = 0; from < all; ) {
          const slots = caches.layers[from].cache.length + ids.length,
            to = Math.min(all, from + layersTogether(this.#decoder.config, slots));
          const layers = Array.from({ length: to - from }, (_, i) => from + i);
          await through(from, to);
          for (const layer of layers) free(layer);
          await afterLayers(layers);
          from = to;
        }
      else {
        await through(0, all);
        for (let l = 0; l < all; l++) free(l);
      }
      this.#hidden(caches, x);
      return this.#logits(buffers, x.subarray((ids.length - count) * D), count);
    } finally {
      this.#buffers.push(buffers);
    }
  }

  /** Frees the buffers of passes. */
  destroy(): void {
    for (const buffers of this.#buffers.splice(0)) buffers.free();
    this.#batched.destroy();
    this.#placing.free();
  }

  async #token(run: PassRun, ids: readonly number[], count: number): Promise<Float32Array[]> {
    const { buffers, caches } = run,
      { hidden: D, vocab } = this.#decoder.config,
      lines = this.#code(1),
      all = this.#shapes.length;
    run.open(0, all);
    copyRows(this.#decoder.embed(ids), D, this.#rows(buffers, lines, 0, 1), 1);
    await run.layers(lines, 0, all, 0, 1, count > 0 ? lines.end : undefined);
    if (caches.hidden) this.#hidden(caches, this.#rows(buffers, lines, all, 1).data.slice(0, D));
    if (count === 0) return [];
    this.#decoder.rows.head++;
    return [this.#place(buffers, lines, lines.logits!, 1).data.slice(0, vocab)]; // code of one row ends in them
  }

  #hidden({ hidden }: HostState, x: Float32Array): void {
    const { norm, config } = this.#decoder,
      { normEps } = config;
    hidden?.push(rmsNorm(x, norm, normEps));
  }

  /** Returns the logits of rows `[count, D]`. */
  #logits(buffers: PassBuffers, x: Float32Array, count: number): Float32Array[] {
    const { hidden: D, vocab } = this.#decoder.config,
      out: Float32Array[] = [],
      none = { rotary: 0, cos: new Float32Array(0), sin: new Float32Array(0) };
    for (let at = 0; at < count; at += headRows) {
      const m = Math.min(headRows, count - at),
        head = this.#head(m === 1 ? 1 : headRows);
      copyRows(x.subarray(at * D), D, this.#place(buffers, head, head.x, m), m);
      this.team.call({ ...buffers.command(head, m, none, []), ...nowhere, position: 0 });
      const { data, stride } = this.#place(buffers, head, head.logits, m);
      for (let r = 0; r < m; r++) out.push(data.slice(r * stride, r * stride + vocab));
    }
    this.#decoder.rows.head += count;
    return out;
  }

  #rows(buffers: PassBuffers, lines: CompiledPass, layer: number, rows: number): ReturnType<typeof rowsAt> {
    return this.#place(buffers, lines, lines.rows[layer], rows);
  }

  #place({ work }: PassBuffers, { layout }: LoadedCode, place: BufferSlice, rows: number): ReturnType<typeof rowsAt> {
    return rowsAt(this.team.heap, work.for(layout), place, rows);
  }

  #code(rows: 1 | typeof tile): CompiledPass {
    const known = this.#lines.get(rows);
    if (known) return known;
    const lines = compilePass(this.team, this.#placing, this.#decoder, this.#shapes, { rows, head: rows === 1 });
    this.#lines.set(rows, lines);
    return lines;
  }

  #head(rows: 1 | typeof headRows): Head {
    const known = this.#heads.get(rows);
    if (known) return known;
    const { head, config } = this.#decoder,
      code = new BytecodeWriter(sizesOf(this.team), rows),
      x = code.stream.value(config.hidden, true),
      [logits] = writeProgram(code, head.program, head.placed, [x]),
      made = { ...install(this.team, this.#placing, code), x, logits };
    this.#heads.set(rows, made);
    return made;
  }
}

/** The part of a command that records no observations. */
const nowhere = { queries: 0, window: 0, shares: 0, stride: 0, apart: 0, sums: 0 };

/** Statistics of weights, as kernel/attend.ts numbers them. */
const kinds = { sum: 0, max: 1, squares: 2, votes: 3, normalized: 4, entropy: 5 } as const;

type FusedPassOptions = Pick<PassOptions, 'phase' | 'active' | 'signal' | 'rows' | 'afterLayers' | 'eventFollows'>;

/** Hooks and options of a pass. */
interface PassHooks {
  /** Called between layers; aborts the pass by throwing. */
  between(): Promise<void>;
  /**
   * The policy of an event that follows and reads statistics of the last queries: with `weights` (a token) their
   * weights only, otherwise any statistic.
   */
  readonly follows?: PassOptions['active']['policy'];
  readonly weights?: boolean;
}

/** One pass over the caches of one sequence. */
class PassRun {
  readonly buffers: PassBuffers;
  readonly caches: HostState;
  readonly #decoder: Decoder<WasmRunnable>;
  readonly #team: ThreadPool;
  readonly #positions: Uint32Array;
  readonly #pace: { one: number; tile: number };
  readonly #hooks: PassHooks;
  readonly #pause: () => Promise<void> = turns();

  constructor(
    decoder: Decoder<WasmRunnable>,
    buffers: PassBuffers,
    caches: HostState,
    positions: Uint32Array,
    pace: { one: number; tile: number },
    hooks: PassHooks,
  ) {
    [this.#decoder, this.buffers, this.caches, this.#positions, this.#pace] = [
      decoder,
      buffers,
      caches,
      positions,
      pace,
    ];
    this.#hooks = hooks;
    this.#team = buffers.team;
  }

  /** Makes room in the caches of layers [from, to) for all rows of the pass. */
  open(from: number, to: number): void {
    const { follows, weights = false } = this.#hooks,
      m = this.#positions.length,
      layers = this.caches.layers.slice(from, to);
    for (const { cache, block, ring, windowStats } of layers) {
      cache.grow(m);
      block?.fill(0);
      windowStats.clear();
      if (follows)
        windowStats.allocate(follows, ring, m, this.#decoder.config.queryHeads, cache.length + m, {
          coming: m,
          able: (of) => !weights || of === undefined || of === 'max',
        });
    }
    // one code is for all layers, of which some may have seen fewer queries
    if (layers.some(({ windowStats: { windows } }) => !alikeWindows(windows, layers[0].windowStats.windows)))
      for (const { windowStats } of layers) windowStats.clear();
  }

  /**
   * Runs m rows, from row `at` of the pass on, which lie where the first of these layers reads them, through layers
   * [from, to).
   *
   * @param end where the code of the last layer ends, if not at the next layer
   */
  async layers(lines: CompiledPass, from: number, to: number, at: number, m: number, end?: number): Promise<void> {
    const kind = m === 1 ? 'one' : 'tile';
    for (let l = from; l < to; ) {
      await this.#hooks.between();
      const left = to - l,
        some = alike(this.#decoder.config.ropes, l, Math.min(left, Math.max(1, Math.floor(HELD / this.#pace[kind])))),
        last = some === left,
        started = performance.now();
      this.#call(lines, l, l + some, at, m, last ? end : undefined);
      this.#pace[kind] = (performance.now() - started) / some;
      l += some;
      await this.#pause();
    }
  }

  #call(lines: CompiledPass, from: number, to: number, at: number, m: number, end = lines.starts[to]): void {
    const { caches, buffers } = this,
      { progress, counters } = caches.context,
      positions = this.#positions.subarray(at, at + m),
      layers = caches.layers.slice(from, to),
      { config, rows } = this.#decoder,
      { queryHeads: H, headDim: d } = config,
      rotating = layers.findIndex((_, i) => config.ropes[from + i].rotary > 0),
      angles = this.#decoder.angles(from + Math.max(0, rotating), progress.rotations(positions), progress.rotaryLength);
    // queries that later ones push out of every ring need not be kept
    const left = this.#positions.length - at - m,
      widest = Math.max(0, ...layers.map(({ ring }) => ring?.window ?? 0)),
      window = left >= widest ? 0 : Math.min(m, widest),
      counted = layers.some(({ accumulated, block }) => accumulated || block),
      { windows } = layers[0].windowStats,
      starts = windows.map(({ queries }, i) => ({ i, since: this.#positions.length - queries - at })),
      // those that look at some of these rows
      some = starts.filter(({ since }) => since < m),
      token = lines.layout.rows === 1,
      sums: (readonly [since: number, kind: number])[] = [
        ...(counted || (token && some.length > 0) ? [[0, kinds.sum] as const] : []),
        ...(token ? [] : some.map(({ i, since }) => [Math.max(0, since), kinds[windows[i].of ?? 'sum']] as const)),
      ];
    const command = buffers.command(
      lines,
      m,
      angles,
      caches.layers.map(({ cache }) => cache),
    );
    for (const { cache } of layers) {
      cache.extend(positions, progress.shift);
      progress.countSlots(cache.length);
    }
    const slots = Math.max(...layers.map(({ cache }) => cache.length)),
      queries = window === 0 ? 0 : buffers.queries.at(4 * caches.layers.length * window * H * d),
      shares = sums.length > 0 ? buffers.shares(caches.layers.length * sums.length, H, slots) : nowhere;
    // sums count the weights of all rows, so that none goes unread
    const stop = end === lines.appended && sums.length > 0 ? lines.starts[to] : end,
      unread = stop === lines.appended;
    this.#team.call({
      ...{ ...command, ...nowhere, ...shares, queries, window },
      sums: sums.length > 0 ? buffers.sums(sums) : 0,
      code: lines.starts[from],
      end: stop,
      position: positions[0],
    });
    for (let l = from; l < to; l++) {
      const { qkv, output, gateUp, down } = rows;
      for (const count of unread && l === to - 1 ? [qkv] : [qkv, output, gateUp, down]) count[l] = count[l] + m;
      const layer = layers[l - from],
        first = shares.shares + 4 * l * sums.length * H * shares.stride;
      recordObservations(this.#team.heap, layer, config, positions, progress.shift, {
        queries: queries + 4 * l * window * H * d,
        window,
        shares: first,
        stride: shares.stride,
      });
      for (const [k, { i }] of some.entries()) {
        const set = token ? 0 : k + Number(counted),
          { of, columns } = layer.windowStats.windows[i],
          to = { stride: layer.windowStats.stride, [of === 'max' ? 'columnMax' : 'columnSum']: columns };
        for (let h = 0; h < H; h++) {
          const from = this.#team.heap.floats(first + 4 * (set * H + h) * shares.stride, layer.cache.length);
          addColumns(to, H, h, from, from);
        }
      }
    }
    counters.fused += layers.length;
    if (sums.length > 0) counters.statistics += layers.length;
  }
}

const alikeWindows = (a: readonly WindowColumns[], b: readonly WindowColumns[]): boolean =>
  a.length === b.length && a.every(({ queries, of }, i) => queries === b[i].queries && of === b[i].of);
