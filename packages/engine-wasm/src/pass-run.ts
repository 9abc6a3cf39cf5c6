import { headsOf } from '@kv/checkpoints';
import { sumOf } from '@kv/core/shared';
import type { Decoder, HostState, PassOptions, WindowColumns } from '@kv/engine';
import {
  addColumns,
  appendLayer,
  countViews,
  layerAttention,
  listShown,
  pauser,
  readTerm,
  recordInputs,
  slotModel,
  termOf,
  YIELD_AFTER,
} from '@kv/engine';
import { hiddenRanges } from './block-hooks.ts';
import type { BlockHooks, RowKeys, RowRange } from './block-hooks.ts';
import { alike } from './compiled-pass.ts';
import type { CompiledPass } from './compiled-pass.ts';
import type { WasmRunnable } from './engine.ts';
import type { BufferSlice } from './layout.ts';
import { keptOf, mostKvHeads, queryRanks, queryRowNumbers, type PassBuffers } from './pass-buffers.ts';
import { addShares, recordObservations, slotShares } from './record-observations.ts';
import { angleRows, rowsAt } from './rows.ts';
import type { LoadedLoops } from './loaded-loops.ts';
import { placeViews, type TokenViews } from './token-views.ts';
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
  /** What acts within the layers of a block. */
  readonly within?: BlockHooks | undefined;
  /** Whose term the host adds to a token's attention, and whose input signals it computes between layers. */
  readonly hosted?: PassOptions['active'] | undefined;
}

/** One pass over the caches of one sequence. Layers are the model's; those that keep slots are counted apart. */
export class PassRun {
  readonly buffers: PassBuffers;
  readonly caches: HostState;
  readonly #decoder: Decoder<WasmRunnable>;
  readonly #pool: ThreadPool;
  readonly #positions: Uint32Array;
  readonly #pace: { one: number; tile: number };
  readonly #hooks: PassHooks;
  readonly #pause: () => Promise<void> = pauser();
  /** Rows that the layers at work leave as they are. */
  #frozen: RowRange = [0, 0];

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

  /** Returns which of the layers that keep slots are among layers [from, to) of the model: those of this range. */
  #slots(from: number, to: number): readonly [first: number, end: number] {
    const { slotsBefore } = this.caches.kept;
    return [slotsBefore[from], slotsBefore[to]];
  }

  /** Returns whether views bound or choose what this pass sees in a layer that keeps slots. */
  #hides(l: number): boolean {
    const { within, views } = this.#hooks,
      shown = views?.[l];
    return (within?.bounds[l] ?? shown?.bounds ?? []).length > 0 || shown?.choice !== undefined;
  }

  /** Makes room for all rows of the pass in the caches of layers [from, to), which freeze these. */
  open(from: number, to: number, frozen: RowRange): void {
    const { follows, weights = false } = this.#hooks,
      m = this.#positions.length;
    this.#frozen = frozen;
    const [first, last] = this.#frozen,
      coming = m - (last - first),
      [start, end] = this.#slots(from, to);
    for (let l = start; l < end; l++) {
      const { cache, block, ring, windowStats } = this.caches.layers[l];
      cache.grow(m);
      block?.fill(0);
      windowStats.clear();
      // an event looks at attention that no view hides anything from
      if (follows && !this.#hides(l))
        windowStats.allocate(
          follows,
          ring,
          last > first ? m - last : m,
          this.#decoder.config.queryHeads,
          cache.length + m,
          { coming, able: (of) => !weights || of === undefined || of === 'max' },
        );
    }
  }

  /** Returns whether sums of the weights of a layer, which is open, are counted. */
  counts(layer: number): boolean {
    const { kept, layers } = this.caches,
      { kind, at } = kept.all[layer];
    if (kind !== 'slots') return false;
    const { accumulated, block, windowStats } = layers[at];
    return accumulated !== undefined || block !== undefined || windowStats.windows.length > 0;
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
        most = this.#hooks.hosted ? 1 : Math.max(1, Math.floor(YIELD_AFTER / this.#pace[kind])),
        some = this.#alike(l, Math.min(left, most)),
        last = some === left,
        started = performance.now();
      // a block's rows are recorded by who gives them
      if (this.#hooks.hosted && compiled.layout.rows === 1)
        await this.record(l, this.#row(compiled, compiled.rows[l], this.#decoder.config.hidden).slice());
      await this.#call(compiled, l, l + some, at, m, last ? end : undefined);
      this.#pace[kind] = (performance.now() - started) / some;
      l += some;
      await this.#pause();
    }
  }

  /**
   * Lets m rows, from row `at` of the pass on, join the cache or the state of a layer: rows that lie where the layer
   * reads them, or keys and values as they are given.
   */
  async append(l: number, at: number, m: number, from: CompiledPass | RowKeys): Promise<void> {
    await this.#hooks.between();
    const { kept, layers, context } = this.caches,
      { progress } = context,
      memory = kept.all[l].kind === 'slots' ? layers[kept.all[l].at] : undefined,
      positions = this.#positions.subarray(at, at + m);
    if ('k' in from) memory?.cache.append(from.k, from.v, positions, progress.shift);
    else {
      const command = this.#command(from, l, at, m);
      memory?.cache.extend(positions, progress.shift);
      this.#pool.call({
        ...command,
        ...nowhere,
        code: from.starts[l],
        end: from.appended[l],
        position: positions[0],
      });
      const { qkv } = this.#decoder.rows;
      qkv[l] = qkv[l] + m;
    }
    if (memory) {
      const { cache, accumulated, block } = memory;
      progress.countSlots(cache.length);
      accumulated?.grow(cache.length);
      block?.grow(cache.length);
    }
    await this.#pause();
  }

  /** Returns how many of `most` layers from this one on run by the same code, angles and statistics. */
  #alike(l: number, most: number): number {
    const count = alike(this.#decoder.config.ropes, l, most),
      { layers, kept } = this.caches,
      [first, end] = this.#slots(l, l + count);
    for (let s = first + 1; s < end; s++)
      if (!alikeWindows(layers[s].windowStats.windows, layers[first].windowStats.windows)) return kept.slots[s] - l;
    return count;
  }

  /** Returns the command of rows from row `at` on in layers from this one on, and in those of them that hide slots. */
  #command(
    compiled: CompiledPass,
    l: number,
    at: number,
    m: number,
    shown: Parameters<PassBuffers['command']>[4] = [],
  ): ReturnType<PassBuffers['command']> {
    const { caches, buffers } = this,
      { progress } = caches.context,
      angles = this.#decoder.angles(l, progress.rotations(this.#positions), progress.rotaryLength, progress.shift);
    return buffers.command(compiled, m, angleRows(angles, at, m), keptOf(caches), shown);
  }

  /** Returns the layers [from, to) that hide slots from m rows, and where it says which. */
  #hidden(from: number, to: number, at: number, m: number): ReturnType<PassBuffers['hidden']> {
    const positions = this.#positions.subarray(at, at + m),
      ranges: (readonly [number, Uint32Array])[] = [],
      [first, end] = this.#slots(from, to);
    for (let l = first; l < end; l++) {
      const bounds = this.#hooks.within?.bounds[l] ?? [],
        words = bounds.length > 0 ? hiddenRanges(bounds, positions) : undefined;
      if (words) ranges.push([l, words]);
    }
    return ranges.length > 0 ? this.buffers.hidden(ranges) : [];
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
      { rows } = this.#decoder,
      config = slotModel(this.#decoder.config),
      { counters, progress } = caches.context,
      { slots, all } = caches.kept,
      positions = this.#positions,
      { queryHeads: H } = config,
      last = slots.length - 1,
      at = { at: positions, positions },
      summed = caches.layers.some(({ accumulated, block }) => accumulated ?? block),
      longest = Math.max(...caches.layers.map(({ cache }) => cache.length)),
      shares = summed ? buffers.shares(caches.layers.length, H, longest + 1) : nowhere;
    let shown: Parameters<PassBuffers['command']>[4];
    const run = (code: number, end: number, layer: number): void => {
      this.#pool.call({
        ...buffers.command(
          compiled,
          1,
          this.#decoder.angles(slots[layer], progress.rotations(positions), progress.rotaryLength, progress.shift),
          keptOf(caches),
          shown,
        ),
        ...{ ...nowhere, ...shares, code, end },
        position: positions[0],
      });
      for (const { layer } of shown ?? [])
        addShares(this.#pool.heap, caches.layers[layer], H, {
          shares: shares.shares + 4 * layer * H * shares.stride,
          stride: shares.stride,
        });
    };
    for (const [l, { cache, block }] of caches.layers.entries()) {
      await this.#hooks.between();
      block?.fill(0);
      const { q, k, v, end: projected } = compiled.projected[l],
        { kvHeads, headDim } = headsOf(config, l);
      run(l === 0 ? compiled.starts[0] : compiled.projected[l - 1].end, projected, l);
      const { visible, reads } = await appendLayer(
        caches,
        l,
        {
          q: this.#row(compiled, q, H * headDim),
          k: this.#row(compiled, k, kvHeads * headDim),
          v: this.#row(compiled, v, kvHeads * headDim),
          ...at,
        },
        options,
      );
      const views = layerAttention(this.#decoder, caches.kept.slots[l], visible).visible ?? [],
        { at: lists, lengths } = buffers.lists(H, cache.length, (to, stride) =>
          listShown(views, cache, H, positions[0], to, stride),
        );
      shown = [{ layer: l, lists }];
      countViews(counters, { slots: (H / lengths.length) * sumOf(lengths), numbers: reads });
      counters.fused++;
      await this.#pause();
    }
    run(compiled.projected[last].end, end ?? compiled.starts[all.length], last);
    for (const count of [rows.qkv, rows.output, rows.gateUp, rows.down])
      for (const l of all.keys()) count[l] = count[l] + 1;
  }

  #row(compiled: CompiledPass, place: BufferSlice, width: number): Float32Array {
    const { work } = this.buffers;
    return rowsAt(this.#pool.heap, work.for(compiled.layout), place, 1).data.subarray(0, width);
  }

  /** Lets the host compute what a token's input signals make of what a layer reads. */
  async record(l: number, x: Float32Array): Promise<void> {
    const { hosted } = this.#hooks,
      { kind, at } = this.caches.kept.all[l];
    if (hosted && kind === 'slots') await recordInputs(this.caches, hosted, [l, at], x);
  }

  /**
   * Runs a layer as far as its queries, and writes the term that these add to its attention.
   * @returns where the layer's code goes on, undefined if nothing is added
   */
  async #joined(
    compiled: CompiledPass,
    layer: number,
    caches: number,
    run: (end: number) => void,
  ): Promise<number | undefined> {
    const { context, kept, layers, slots } = this.caches,
      { kind, at: l } = kept.all[layer],
      { hosted } = this.#hooks,
      term = hosted && kind === 'slots' ? termOf(hosted, layers[l]) : undefined;
    if (!hosted || !term) return undefined;
    const { q, end } = compiled.projected[l],
      { backend, model } = context,
      { queryHeads: H } = model.config,
      { headDim } = layers[l].cache;
    run(end);
    const [masses, values] = await readTerm(
      term,
      { at: slots.layerContext(l, hosted), ops: backend.ops, read: this.caches.reader(l) },
      backend,
      { q: this.#row(compiled, q, H * headDim).slice(), queryPositions: this.#positions },
      H,
    );
    this.buffers.join(caches, mostKvHeads(layers.map(({ cache }) => ({ kvHeads: cache.heads }))), l, masses, values);
    return end;
  }

  async #call(
    compiled: CompiledPass,
    from: number,
    to: number,
    at: number,
    m: number,
    end = compiled.starts[to],
  ): Promise<void> {
    const { caches, buffers } = this,
      { progress, counters } = caches.context,
      positions = this.#positions.subarray(at, at + m),
      [start, stop] = this.#slots(from, to),
      layers = caches.layers.slice(start, stop),
      { config, rows } = this.#decoder,
      { queryHeads: H } = config,
      ranks = queryRanks(config),
      rotating = config.ropes.slice(from, to).findIndex(({ rotary }) => rotary > 0),
      [first, last] = this.#frozen;
    // queries that later ones push out of every ring need not be kept
    const left = this.#positions.length - at - m - (at < first ? last - first : 0),
      widest = Math.max(0, ...layers.map(({ ring }) => ring?.window ?? 0)),
      window = left >= widest ? 0 : Math.min(m, widest),
      counted = layers.some(({ accumulated, block }) => accumulated || block),
      windows = layers[0]?.windowStats.windows ?? [],
      starts = windows.map(({ queries }, i) => ({ i, since: this.#positions.length - queries - at })),
      // those that look at some of these rows
      some = starts.filter(({ since }) => since < m),
      token = compiled.layout.rows === 1,
      sums: (readonly [since: number, kind: number])[] = [
        ...(counted || (token && some.length > 0) ? [[0, kinds.sum] as const] : []),
        ...(token ? [] : some.map(({ i, since }) => [Math.max(0, since), kinds[windows[i].of ?? 'sum']] as const)),
      ];
    const command = this.#command(compiled, from + Math.max(0, rotating), at, m, this.#hidden(from, to, at, m));
    for (const { cache } of layers) {
      cache.extend(positions, progress.shift);
      progress.countSlots(cache.length);
    }
    const { views, loops } = this.#hooks,
      shown =
        views && stop > start
          ? placeViews(buffers, 0, command.caches, loops, caches, views.slice(start, stop))
          : undefined,
      slots = Math.max(0, ...layers.map(({ cache }) => cache.length)),
      queries = window === 0 ? 0 : buffers.queries.at(4 * window * queryRowNumbers(config)),
      shares = sums.length > 0 ? buffers.shares(caches.layers.length * sums.length, H, slots) : nowhere;
    // sums count the weights of all rows, so that none goes unread
    const appended = compiled.appended[to - 1],
      until = end === appended && sums.length > 0 ? compiled.starts[to] : end,
      unread = until === appended;
    const words = {
        ...{ ...command, ...nowhere, ...shares, queries, window },
        sums: sums.length > 0 ? buffers.sums(sums) : 0,
        position: positions[0],
      },
      run = (code: number, end: number): void => this.#pool.call({ ...words, code, end }),
      begin = compiled.starts[from];
    run((await this.#joined(compiled, from, command.caches, (end) => run(begin, end))) ?? begin, until);
    if (shown) countViews(counters, shown());
    for (let l = from; l < to; l++) {
      const { qkv, output, gateUp, down } = rows;
      for (const count of unread && l === to - 1 ? [qkv] : [qkv, output, gateUp, down]) count[l] = count[l] + m;
    }
    for (let l = start; l < stop; l++) {
      const layer = layers[l - start],
        counts = shares.shares + 4 * l * sums.length * H * shares.stride;
      recordObservations(this.#pool.heap, layer, H, positions, progress.shift, {
        queries: queries + 4 * ranks[l] * window * H * layer.cache.headDim,
        window,
        shares: counts,
        stride: shares.stride,
      });
      for (const [k, { i }] of some.entries()) {
        const set = token ? 0 : k + Number(counted),
          { of, columns } = layer.windowStats.windows[i],
          to = { stride: layer.windowStats.stride, [of === 'max' ? 'columnMax' : 'columnSum']: columns };
        for (let h = 0; h < H; h++) {
          const from = slotShares(this.#pool.heap, layer, H, h, counts + 4 * (set * H + h) * shares.stride);
          addColumns(to, H, h, from, from);
        }
      }
    }
    counters.fused += layers.length - (unread && caches.kept.all[to - 1].kind === 'slots' ? 1 : 0);
    if (sums.length > 0) counters.statistics += layers.length;
  }
}

const alikeWindows = (a: readonly WindowColumns[], b: readonly WindowColumns[]): boolean =>
  a.length === b.length && a.every(({ queries, of }, i) => queries === b[i].queries && of === b[i].of);
