import { sumOf } from '@kv/core/shared';
import type { Decoder, HostState, PassOptions, WindowColumns } from '@kv/engine';
import { addColumns, appendLayer, layerAttention, listShown, pauser, YIELD_AFTER } from '@kv/engine';
import { alike } from './compiled-pass.ts';
import type { CompiledPass } from './compiled-pass.ts';
import type { WasmRunnable } from './engine.ts';
import type { BufferSlice } from './layout.ts';
import type { PassBuffers } from './pass-buffers.ts';
import { recordObservations } from './record-observations.ts';
import { rowsAt } from './rows.ts';
import type { LoadedLoops } from './loaded-loops.ts';
import { countViews, placeViews, type PlacedViews, type TokenViews } from './token-views.ts';
import type { ThreadPool } from './thread-pool.ts';

/** The part of a command that records no observations. */
export const nowhere = { queries: 0, window: 0, shares: 0, stride: 0, apart: 0, sums: 0 };

/** Statistics of weights, as kernel/attend.ts numbers them. */
const kinds = { sum: 0, max: 1, squares: 2, votes: 3, normalized: 4, entropy: 5 } as const;

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
  /** What views show to the token. */
  readonly views?: TokenViews;
  readonly loops: LoadedLoops;
}

/** One pass over the caches of one sequence. */
export class PassRun {
  readonly buffers: PassBuffers;
  readonly caches: HostState;
  readonly #decoder: Decoder<WasmRunnable>;
  readonly #pool: ThreadPool;
  readonly #positions: Uint32Array;
  readonly #pace: { one: number; tile: number };
  readonly #hooks: PassHooks;
  readonly #pause: () => Promise<void> = pauser();

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
    this.#pool = buffers.pool;
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
  async layers(compiled: CompiledPass, from: number, to: number, at: number, m: number, end?: number): Promise<void> {
    const kind = m === 1 ? 'one' : 'tile';
    for (let l = from; l < to; ) {
      await this.#hooks.between();
      const left = to - l,
        some = alike(
          this.#decoder.config.ropes,
          l,
          Math.min(left, Math.max(1, Math.floor(YIELD_AFTER / this.#pace[kind]))),
        ),
        last = some === left,
        started = performance.now();
      this.#call(compiled, l, l + some, at, m, last ? end : undefined);
      this.#pace[kind] = (performance.now() - started) / some;
      l += some;
      await this.#pause();
    }
  }

  /**
   * Runs a token through all layers, each of which attends over the slots that views show: the host asks the views
   * between a layer's projections and its attention.
   *
   * @param end where the code ends, if not after the last layer
   */
  async viewed(
    compiled: CompiledPass,
    options: Pick<PassOptions, 'phase' | 'active' | 'seen'>,
    end?: number,
  ): Promise<void> {
    const { caches, buffers } = this,
      { config, rows } = this.#decoder,
      { counters, progress } = caches.context,
      positions = this.#positions,
      last = caches.layers.length - 1,
      at = { at: positions, positions };
    let shown: Parameters<PassBuffers['command']>[4];
    const run = (code: number, end: number, layer: number): void =>
      this.#pool.call({
        ...buffers.command(
          compiled,
          1,
          this.#decoder.angles(layer, progress.rotations(positions), progress.rotaryLength),
          caches.layers.map(({ cache }) => cache),
          shown,
        ),
        ...nowhere,
        code,
        end,
        position: positions[0],
      });
    for (const [l, { cache }] of caches.layers.entries()) {
      await this.#hooks.between();
      const { q, k, v, end: projected } = compiled.projected[l];
      run(l === 0 ? compiled.starts[0] : compiled.projected[l - 1].end, projected, l);
      const { visible } = await appendLayer(
        caches,
        l,
        {
          q: this.#row(compiled, q, config.queryHeads),
          k: this.#row(compiled, k, config.kvHeads),
          v: this.#row(compiled, v, config.kvHeads),
          ...at,
        },
        options,
      );
      const views = layerAttention(config, l, visible).visible ?? [],
        { at: lists, lengths } = buffers.lists(config.queryHeads, cache.length, (to, stride) =>
          listShown(views, cache, config.queryHeads, positions[0], to, stride),
        );
      shown = { layer: l, lists };
      countViews(counters, { slots: (config.queryHeads / lengths.length) * sumOf(lengths), numbers: 0 });
      for (const count of [rows.qkv, rows.output, rows.gateUp, rows.down]) count[l] = count[l] + 1;
      counters.fused++;
      await this.#pause();
    }
    run(compiled.projected[last].end, end ?? compiled.starts[last + 1], last);
  }

  /** Writes what views show in these layers, whose caches are described at this address. */
  #show(address: number, views: TokenViews): PlacedViews {
    const { buffers, caches } = this,
      placed = placeViews(this.#pool, this.#hooks.loops, buffers.views(0), caches, views);
    for (const [i, { at }] of views.entries())
      buffers.show(address, at.kvHeads, at.layer, placed.views[i], placed.lists[i]);
    return placed;
  }

  #row(compiled: CompiledPass, place: BufferSlice, heads: number): Float32Array {
    const { work } = this.buffers;
    return rowsAt(this.#pool.heap, work.for(compiled.layout), place, 1).data.subarray(
      0,
      heads * this.#decoder.config.headDim,
    );
  }

  #call(compiled: CompiledPass, from: number, to: number, at: number, m: number, end = compiled.starts[to]): void {
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
      token = compiled.layout.rows === 1,
      sums: (readonly [since: number, kind: number])[] = [
        ...(counted || (token && some.length > 0) ? [[0, kinds.sum] as const] : []),
        ...(token ? [] : some.map(({ i, since }) => [Math.max(0, since), kinds[windows[i].of ?? 'sum']] as const)),
      ];
    const command = buffers.command(
      compiled,
      m,
      angles,
      caches.layers.map(({ cache }) => cache),
    );
    for (const { cache } of layers) {
      cache.extend(positions, progress.shift);
      progress.countSlots(cache.length);
    }
    const shown = this.#hooks.views && this.#show(command.caches, this.#hooks.views.slice(from, to)),
      slots = Math.max(...layers.map(({ cache }) => cache.length)),
      queries = window === 0 ? 0 : buffers.queries.at(4 * caches.layers.length * window * H * d),
      shares = sums.length > 0 ? buffers.shares(caches.layers.length * sums.length, H, slots) : nowhere;
    // sums count the weights of all rows, so that none goes unread
    const stop = end === compiled.appended && sums.length > 0 ? compiled.starts[to] : end,
      unread = stop === compiled.appended;
    this.#pool.call({
      ...{ ...command, ...nowhere, ...shares, queries, window },
      sums: sums.length > 0 ? buffers.sums(sums) : 0,
      code: compiled.starts[from],
      end: stop,
      position: positions[0],
    });
    if (shown) countViews(counters, shown.end());
    for (let l = from; l < to; l++) {
      const { qkv, output, gateUp, down } = rows;
      for (const count of unread && l === to - 1 ? [qkv] : [qkv, output, gateUp, down]) count[l] = count[l] + m;
      const layer = layers[l - from],
        first = shares.shares + 4 * l * sums.length * H * shares.stride;
      recordObservations(this.#pool.heap, layer, config, positions, progress.shift, {
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
          const from = this.#pool.heap.floats(first + 4 * (set * H + h) * shares.stride, layer.cache.length);
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
