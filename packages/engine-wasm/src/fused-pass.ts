import { headDims, headsOf, slotHeads } from '@kv/checkpoints';
import type { Decoder, HostState, KeptLayers, PassOptions, BatchGroup } from '@kv/engine';
import { keptLayers, layerInputs, rmsNorm, slotModel, YIELD_AFTER, layersTogether } from '@kv/engine';
import { range } from '@kv/core/shared';
import { newestRows } from './block-hooks.ts';
import type { BlockHooks, RowKeys, RowRange } from './block-hooks.ts';
import { BytecodeWriter } from './bytecode-writer.ts';
import { writeProgram } from './compile.ts';
import { placeConvolution } from './convolution-code.ts';
import { placeDelta, runsDelta } from './delta-code.ts';
import { placeSpace, runsSpace } from './space-code.ts';
import { cacheBytes, eights, mostKvHeads, nothingKept, PassBuffers, queryRanks } from './pass-buffers.ts';
import type { WasmRunnable } from './engine.ts';
import { install, sizesOf } from './install.ts';
import type { LoadedCode } from './install.ts';
import type { BufferSlice } from './layout.ts';
import { compilePass } from './compiled-pass.ts';
import type { CompiledPass, MixerShape } from './compiled-pass.ts';
import { WeightArena } from './weight-arena.ts';
import { LoadedLoops } from './loaded-loops.ts';
import { nowhere, PassRun } from './pass-run.ts';
import type { TokenViews } from './token-views.ts';
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
  readonly pool: ThreadPool;
  /** The storage of the caches that it reads and writes. */
  readonly store: HeapStore;
  readonly #decoder: Decoder<WasmRunnable>;
  readonly #arena: WeightArena;
  readonly #mixers: readonly MixerShape[];
  readonly #buffers: PassBuffers[] = [];
  readonly #compiled = new Map<1 | typeof tile, CompiledPass>();
  readonly #heads = new Map<1 | typeof headRows, Head>();
  readonly #batched: BatchedDecode;
  readonly #loops: LoadedLoops;
  /** The batch group of its sequences. */
  readonly group: BatchGroup;
  /** Recent milliseconds per layer, for one row and for a tile. */
  readonly #pace = { one: 0, tile: YIELD_AFTER };

  readonly #eight: boolean;
  /**
   * Whether code runs all of a layer: the module supports the widths of heads, delta rules and state spaces, no slot has several
   * readers, and no router chooses experts in between.
   */
  readonly attends: boolean;

  /** @param exact whether attention of blocks stays f32, as that of a token always does */
  constructor(pool: ThreadPool, decoder: Decoder<WasmRunnable>, exact: boolean) {
    [this.pool, this.#decoder, this.#arena] = [pool, decoder, new WeightArena(pool, false)];
    this.store = heapStore(pool);
    const { attention } = decoder.config,
      { all, slots, readers } = keptLayers(decoder.config),
      { scale, softcap, windows } = attention;
    this.#eight = !exact;
    const each = cacheBytes(mostKvHeads(slotHeads(decoder.config))),
      ranks = queryRanks(decoder.config);
    this.attends =
      headDims(decoder.config).every((headDim) => headDim % 4 === 0) &&
      !decoder.config.experts &&
      readers.length === readers.flat().length && // queries of several layers read one cache layer by layer
      decoder.layers.every(({ delta, space }) => (!delta || runsDelta(delta)) && (!space || runsSpace(space)));
    this.#mixers = all.map(({ at }, l) => {
      const { convolution, delta, space, sinks } = decoder.layers[l],
        state = slots.length * each + 4 * at,
        window = windows[l] ?? Infinity;
      if (delta) return { delta: placeDelta(this.#arena, delta, state) };
      if (space) return { space: placeSpace(this.#arena, space, state) };
      if (convolution) return { convolution: placeConvolution(this.#arena, convolution, state) };
      const heads = headsOf(decoder.config, l);
      return {
        attention: {
          ...heads,
          ...{ scale, softcap, window: window === Infinity ? 0 : window },
          sinks: sinks ? this.#arena.array(sinks) : 0,
          layer: at,
          rank: ranks[at],
          cache: at * each,
          eight: eights(pool, this.#eight, heads.headDim),
          ...(attention.outputGate === 'head' && { gateRun: heads.headDim }),
        },
      };
    });
    this.#loops = new LoadedLoops(pool);
    const batched = new BatchedDecode(pool, decoder, this.#arena, this.#mixers, this.#loops, (...token) =>
      this.pass(...token),
    );
    this.#batched = batched;
    this.group = { key: this, open: (count) => batched.open(count) };
  }

  /**
   * Feeds tokens through every layer like `pass`, under hooks that act `within` the layers of a block, or views that
   * hide slots from a token (`viewed`).
   */
  async pass(
    caches: HostState,
    ids: readonly number[],
    { rows, afterLayers, active, eventFollows, views, within, hosted = false, ...options }: FusedPassOptions,
  ): Promise<Float32Array[]> {
    const { progress, guard } = caches.context,
      count = Math.min(rows, ids.length),
      positions = Uint32Array.from(ids, (_, i) => progress.length + i),
      buffers = this.#buffers.pop() ?? new PassBuffers(this.pool, this.#eight);
    for (const id of ids) progress.text.push(id);
    const run = new PassRun(this.#decoder, buffers, caches, positions, this.#pace, {
      loops: this.#loops,
      ...(views && { views }),
      between: () => guard.between(options),
      // what an event reads of the last queries: a token's code counts their weights only
      ...((eventFollows || afterLayers) && { follows: active.policy, weights: ids.length === 1 && !afterLayers }),
      within,
      ...(hosted && { hosted: active }),
    });
    const free = (layer: number): void => {
      if (options.phase === 'prefill') caches.slots.freeUnreachable(layer);
    };
    try {
      if (ids.length === 1 && !afterLayers && !within) {
        const logits = await this.#token(run, ids, count, options.viewed ? { active, ...options } : undefined);
        for (const l of caches.layers.keys()) free(l);
        return logits;
      }
      const x = this.#decoder.embed(ids),
        inputs = await layerInputs(this.#decoder, ids, x),
        { config } = this.#decoder,
        { hidden: D } = config,
        { slots, slotsBefore } = caches.kept,
        all = this.#mixers.length,
        frozen = frozenLayers(caches.kept, within),
        // after the last layer's keys and values, earlier rows are not read any more
        unread = caches.hidden ? 0 : ids.length - count;
      let copied: RowKeys | undefined;
      for (let from = 0, to: number; from < all; from = to) {
        const first = slotsBefore[from],
          held = (caches.layers[first]?.cache.length ?? 0) + ids.length,
          together = hosted ? 1 : afterLayers ? layersTogether(slotModel(config), held, caches.context.form) : all;
        // ends with the last layer that keeps slots of those whose events run together, or before what such a layer reads
        to = Math.min(
          hosted && slots[first] > from ? slots[first] : (slots[first + together - 1] ?? all) + 1,
          all,
          nextFrozen(frozen, from),
        );
        if (hosted) await run.record(from, x);
        await this.#block(run, x, [from, to], { inputs, frozen: frozen[from], copied, unread });
        const end = slotsBefore[to];
        if (end === first) continue;
        copied =
          within?.copies && end < slots.length && freezes(within.frozen[end])
            ? newestRows(caches.layers[end - 1].cache, ids.length, within.frozen[end])
            : undefined;
        const layers = [...range(first, end - first)];
        layers.forEach(free);
        await afterLayers?.(layers);
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
    this.#arena.free();
  }

  /**
   * Takes the rows x of a block through layers [from, to), in place, in tiles: rows that these layers freeze as far as
   * their keys and values (those `copied`, or the layer's own), and the first `unread` ones of the last layer too.
   */
  async #block(
    run: PassRun,
    x: Float32Array,
    [from, to]: RowRange,
    {
      inputs,
      frozen: [first, last],
      copied,
      unread,
    }: {
      readonly inputs: Float32Array | undefined;
      readonly frozen: RowRange;
      readonly copied: RowKeys | undefined;
      readonly unread: number;
    },
  ): Promise<void> {
    if (to === this.#mixers.length && unread > 0 && to - from > 1) {
      // the last layer by itself, where rows that are read have tiles of their own
      await this.#block(run, x, [from, to - 1], { inputs, frozen: [first, last], copied, unread });
      await this.#block(run, x, [to - 1, to], { inputs, frozen: [0, 0], copied: undefined, unread });
      return;
    }
    const { buffers } = run,
      compiled = this.#code(tile),
      D = this.#decoder.config.hidden,
      end = to === this.#mixers.length ? compiled.appended[to - 1] : undefined;
    /** Runs rows [from, to) in tiles that lie where the first layer reads them. */
    const tiles = async (
      [start, stop]: RowRange,
      each: (part: Float32Array, at: number, m: number) => Promise<void>,
    ): Promise<void> => {
      for (let at = start; at < stop; at += tile) {
        const m = Math.min(tile, stop - at),
          part = x.subarray(at * D, (at + m) * D);
        copyRows(part, D, this.#rows(buffers, compiled, from, m), m);
        this.#give(buffers, compiled, inputs, at, m);
        await each(part, at, m);
      }
    };
    const live = async (part: Float32Array, at: number, m: number): Promise<void> => {
      const read = end === undefined || at + m > unread;
      await run.layers(compiled, from, to, at, m, read ? undefined : end);
      if (!read) return;
      const { data, stride } = this.#rows(buffers, compiled, to, m);
      for (let r = 0; r < m; r++) part.set(data.subarray(r * stride, r * stride + D), r * D);
    };
    run.open(from, to, [first, last]);
    await tiles([0, first], live);
    if (copied && run.caches.kept.all[from].kind === 'slots') await run.append(from, first, last - first, copied);
    else await tiles([first, last], (_, at, m) => run.append(from, at, m, compiled));
    const rows = x.length / D,
      // products of one row alone would add up in another order, as sums of weights would in other tiles
      cut = end === undefined || run.counts(to - 1) ? rows : Math.max(last, Math.min(unread, rows - 2));
    await tiles([last, cut], live);
    await tiles([cut, rows], live);
  }

  async #token(
    run: PassRun,
    ids: readonly number[],
    count: number,
    views: Parameters<PassRun['viewed']>[1] | undefined,
  ): Promise<Float32Array[]> {
    const { buffers, caches } = run,
      { hidden: D, vocab } = this.#decoder.config,
      compiled = this.#code(1),
      all = this.#mixers.length;
    const end = count > 0 ? compiled.end : undefined;
    const x = this.#decoder.embed(ids),
      inputs = await layerInputs(this.#decoder, ids, x);
    copyRows(x, D, this.#rows(buffers, compiled, 0, 1), 1);
    this.#give(buffers, compiled, inputs, 0, 1);
    if (views) await run.viewed(compiled, views, end);
    else {
      run.open(0, all, [0, 0]);
      await run.layers(compiled, 0, all, 0, 1, end);
    }
    if (caches.hidden) this.#hidden(caches, this.#rows(buffers, compiled, all, 1).data.slice(0, D));
    if (count === 0) return [];
    this.#decoder.rows.head++;
    return [this.#place(buffers, compiled, compiled.logits!, 1).data.slice(0, vocab)]; // code of one row ends in them
  }

  /** Puts what layers take of m rows, from row `at` on, where their code reads it. */
  #give(buffers: PassBuffers, compiled: CompiledPass, inputs: Float32Array | undefined, at: number, m: number): void {
    const { layers, perLayer = 0 } = this.#decoder.config,
      width = layers * perLayer;
    if (inputs && compiled.inputs)
      copyRows(
        inputs.subarray(at * width, (at + m) * width),
        width,
        this.#place(buffers, compiled, compiled.inputs, m),
        m,
      );
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
      this.pool.call({ ...buffers.command(head, m, none, nothingKept), ...nowhere, position: 0 });
      const { data, stride } = this.#place(buffers, head, head.logits, m);
      for (let r = 0; r < m; r++) out.push(data.slice(r * stride, r * stride + vocab));
    }
    this.#decoder.rows.head += count;
    return out;
  }

  #rows(buffers: PassBuffers, compiled: CompiledPass, layer: number, rows: number): ReturnType<typeof rowsAt> {
    return this.#place(buffers, compiled, compiled.rows[layer], rows);
  }

  #place({ work }: PassBuffers, { layout }: LoadedCode, place: BufferSlice, rows: number): ReturnType<typeof rowsAt> {
    return rowsAt(this.pool.heap, work.for(layout), place, rows);
  }

  #code(rows: 1 | typeof tile): CompiledPass {
    const known = this.#compiled.get(rows);
    if (known) return known;
    const compiled = compilePass(this.pool, this.#arena, this.#decoder, this.#mixers, { rows, head: rows === 1 });
    this.#compiled.set(rows, compiled);
    return compiled;
  }

  #head(rows: 1 | typeof headRows): Head {
    const known = this.#heads.get(rows);
    if (known) return known;
    const { head, config } = this.#decoder,
      code = new BytecodeWriter(sizesOf(this.pool), rows),
      x = code.stream.value(config.hidden, true),
      [logits] = writeProgram(code, head.program, head.placed, [x]),
      made = { ...install(this.pool, this.#arena, code), x, logits };
    this.#heads.set(rows, made);
    return made;
  }
}

interface FusedPassOptions
  extends Pick<PassOptions, 'phase' | 'active' | 'signal' | 'rows' | 'afterLayers' | 'eventFollows' | 'seen'> {
  /** Whether the host must ask views, layer by layer, what they show to the token. @defaultValue false */
  readonly viewed?: boolean;
  /** What views show to the token, where the module can tell by itself. @defaultValue none act */
  readonly views?: TokenViews;
  /** What acts within the layers of a block. @defaultValue nothing */
  readonly within?: BlockHooks | undefined;
  /** Whether the host adds a term to a token's attention, or computes input signals between layers. @defaultValue false */
  readonly hosted?: boolean;
}

const freezes = ([first, last]: RowRange): boolean => first < last;

/** Returns the rows that each layer of the model freezes: one that keeps no slots, those of the last one below that does. */
const frozenLayers = ({ all, slotsBefore }: KeptLayers, hooks: BlockHooks | undefined): readonly RowRange[] =>
  all.map((_, l) => hooks?.frozen[slotsBefore[l + 1] - 1] ?? [0, 0]);

/** Returns the layer before which layers from this one on must end, since it or the next one freezes rows. */
function nextFrozen(frozen: readonly RowRange[], from: number): number {
  if (freezes(frozen[from])) return from + 1;
  const next = frozen.findIndex((rows, l) => l > from && freezes(rows));
  return next < 0 ? Infinity : next;
}
