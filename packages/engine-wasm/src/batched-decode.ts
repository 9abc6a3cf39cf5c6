import type { Decoder, Angles, HostState, PassOptions } from '@kv/engine';
import {
  BatchBarrier,
  BatchSlot,
  YIELD_AFTER,
  countViews,
  keptLayers,
  layerInputs,
  rmsNorm,
  type KeptLayers,
} from '@kv/engine';
import { keptOf, nothingKept, PassBuffers, queryRanks, queryRowNumbers } from './pass-buffers.ts';
import type { WasmRunnable } from './engine.ts';
import { alike, compilePass } from './compiled-pass.ts';
import type { CompiledPass, MixerShape } from './compiled-pass.ts';
import type { LoadedLoops } from './loaded-loops.ts';
import { placeViews, type TokenViews } from './token-views.ts';
import type { WeightArena } from './weight-arena.ts';
import { recordObservations } from './record-observations.ts';
import { copyRows, rowsAt } from './rows.ts';
import type { ThreadPool } from './thread-pool.ts';

/** Maximum rows of a pass, for few and for many sequences; buffers are allocated for this many. */
const passRows = [8, 32] as const,
  mostRows = 32;

/** A sequence's token that waits to be batched with others. */
interface BatchRequest {
  readonly caches: HostState;
  readonly id: number;
  /** Whether to compute its logits. */
  readonly scored: boolean;
  /** What views show to it. @defaultValue none act */
  readonly views?: TokenViews;
  /** Runs the token in a pass by itself. */
  alone(): Promise<Float32Array[]>;
  done(logits: Float32Array[]): void;
  fail(cause: unknown): void;
}

type TokenOptions = Pick<PassOptions, 'phase' | 'active' | 'signal' | 'rows' | 'eventFollows'> & {
  readonly views?: TokenViews;
};
/** A pass of one sequence. */
type Alone = (caches: HostState, ids: readonly number[], options: TokenOptions) => Promise<Float32Array[]>;

/** A sequence's membership in a batch of tokens. */
export class DecodeSlot extends BatchSlot<BatchRequest> {
  readonly #alone: Alone;

  constructor(barrier: BatchBarrier<BatchRequest>, alone: Alone) {
    super(barrier);
    this.#alone = alone;
  }

  /** Feeds a token through every layer once the other members have submitted theirs. */
  async pass(caches: HostState, id: number, options: TokenOptions): Promise<Float32Array[]> {
    await caches.context.guard.between(options);
    const alone = (): Promise<Float32Array[]> => this.#alone(caches, [id], options);
    return new Promise((done, fail) =>
      this.barrier.submit({
        ...{ caches, id, scored: options.rows > 0, alone, done, fail },
        ...(options.views && { views: options.views }),
      }),
    );
  }
}

/**
 * Batches tokens of several sequences, one each: products take the rows of all of them, and each attends over its own
 * caches. A row's numbers are, to the bit, those of a pass by itself.
 */
export class BatchedDecode {
  readonly #pool: ThreadPool;
  readonly #decoder: Decoder<WasmRunnable>;
  readonly #arena: WeightArena;
  readonly #mixers: readonly MixerShape[];
  readonly #kept: KeptLayers;
  readonly #loops: LoadedLoops;
  readonly #buffers: PassBuffers[] = [];
  readonly #compiled = new Map<number, CompiledPass>();
  /** Recent milliseconds per layer. */
  #pace = 0;

  readonly #alone: Alone;

  /** @param alone runs a token that no other is batched with */
  constructor(
    pool: ThreadPool,
    decoder: Decoder<WasmRunnable>,
    arena: WeightArena,
    mixers: readonly MixerShape[],
    loops: LoadedLoops,
    alone: Alone,
  ) {
    [this.#pool, this.#decoder, this.#arena, this.#mixers, this.#loops] = [pool, decoder, arena, mixers, loops];
    this.#kept = keptLayers(decoder.config);
    this.#alone = alone;
  }

  /** Returns `count` members of one batch, which runs in parts no larger than the buffers. */
  open(count: number): readonly DecodeSlot[] {
    const barrier = new BatchBarrier<BatchRequest>(count, (requests) => void this.#all(requests));
    return Array.from({ length: count }, () => new DecodeSlot(barrier, this.#alone));
  }

  destroy(): void {
    for (const buffers of this.#buffers.splice(0)) buffers.free();
  }

  async #all(requests: readonly BatchRequest[]): Promise<void> {
    for (let at = 0; at < requests.length; at += mostRows) {
      const some = requests.slice(at, at + mostRows).filter((request) => this.#begin(request));
      try {
        if (some.length === 1) some[0].done(await some[0].alone());
        else if (some.length > 1) await this.#pass(some);
      } catch (cause) {
        for (const request of some) request.fail(cause);
      }
    }
  }

  /** Makes room for a token in its sequence's caches; a token that does not fit fails by itself. */
  #begin({ caches, fail }: BatchRequest): boolean {
    try {
      for (const { cache, block } of caches.layers) {
        cache.grow(1);
        block?.fill(0);
      }
      return true;
    } catch (cause) {
      fail(cause);
      return false;
    }
  }

  async #pass(requests: readonly BatchRequest[]): Promise<void> {
    const { hidden: D, vocab, ropes, normEps } = this.#decoder.config,
      all = this.#mixers.length,
      m = requests.length,
      compiled = this.#code(m),
      head = requests.some(({ scored }) => scored),
      buffers = this.#buffers.pop() ?? new PassBuffers(this.#pool, false),
      positions = Uint32Array.from(requests, ({ caches }) => caches.context.progress.length),
      at = (place: CompiledPass['rows'][number]): ReturnType<typeof rowsAt> =>
        rowsAt(this.#pool.heap, buffers.work.for(compiled.layout), place, m);
    for (const { caches, id } of requests) caches.context.progress.text.push(id);
    try {
      const ids = requests.map(({ id }) => id),
        x = this.#decoder.embed(ids),
        inputs = await this.#inputs(ids, x);
      copyRows(x, D, at(compiled.rows[0]), m);
      if (inputs && compiled.inputs) copyRows(inputs, inputs.length / m, at(compiled.inputs), m);
      const failed = new Map<number, unknown>();
      let since = performance.now();
      for (let l = 0; l < all; ) {
        const some = alike(ropes, l, Math.min(all - l, Math.max(1, Math.floor(YIELD_AFTER / this.#pace)))),
          started = performance.now();
        this.#call(buffers, compiled, requests, positions, l, l + some, head && l + some === all, failed);
        const now = performance.now();
        this.#pace = (now - started) / some;
        l += some;
        if (now - since > YIELD_AFTER && l < all) {
          await new Promise<void>((resume) => (typeof setImmediate === 'function' ? setImmediate : setTimeout)(resume));
          since = performance.now();
        }
      }
      const last = at(compiled.rows[all]),
        logits = head && compiled.logits ? at(compiled.logits) : undefined;
      for (const [r, { caches, scored, done, fail }] of requests.entries()) {
        if (failed.has(r)) {
          fail(failed.get(r));
          continue;
        }
        const row = last.data.subarray(r * last.stride, r * last.stride + D);
        caches.hidden?.push(rmsNorm(row, this.#decoder.norm, normEps));
        if (logits && scored) this.#decoder.rows.head++;
        const { counters } = caches.context;
        counters.batchedPasses = (counters.batchedPasses ?? 0) + 1;
        done(logits && scored ? [logits.data.slice(r * logits.stride, r * logits.stride + vocab)] : []);
      }
    } finally {
      this.#buffers.push(buffers);
    }
  }

  /** Computes what layers take of each token, row by row, so that each has what it would have alone. */
  async #inputs(ids: readonly number[], x: Float32Array): Promise<Float32Array | undefined> {
    const { hidden: D, layers, perLayer } = this.#decoder.config;
    if (perLayer === undefined) return undefined;
    const out = new Float32Array(ids.length * layers * perLayer);
    for (const [r, id] of ids.entries()) {
      const row = await layerInputs(this.#decoder, [id], x.subarray(r * D, (r + 1) * D));
      if (row) out.set(row, r * row.length);
    }
    return out;
  }

  #call(
    buffers: PassBuffers,
    compiled: CompiledPass,
    requests: readonly BatchRequest[],
    positions: Uint32Array,
    from: number,
    to: number,
    head: boolean,
    failed: Map<number, unknown>,
  ): void {
    const { config, rows } = this.#decoder,
      { queryHeads: H } = config,
      ranks = queryRanks(config),
      { heap } = this.#pool,
      m = requests.length,
      { slots: slotLayers, slotsBefore } = this.#kept,
      count = slotLayers.length,
      [first, end] = [slotsBefore[from], slotsBefore[to]],
      all = requests.map(({ caches }) => caches),
      layers = all.flatMap((caches) => caches.layers.slice(first, end));
    const own = all.map((_, r) => positions.subarray(r, r + 1)),
      rotating = config.ropes.slice(from, to).findIndex(({ rotary }) => rotary > 0),
      angles = joined(
        all.map(({ context: { progress } }, r) =>
          this.#decoder.angles(
            from + Math.max(0, rotating),
            progress.rotations(own[r]),
            progress.rotaryLength,
            progress.shift,
          ),
        ),
      );
    const counted = layers.some(({ accumulated, block }) => accumulated || block),
      window = layers.some(({ ring }) => ring) ? m : 0;
    const command = {
      ...buffers.command(compiled, m, angles, nothingKept),
      ...buffers.rows(all.map(keptOf), positions),
    };
    for (const [r, { layers, context }] of all.entries())
      for (const { cache, windowStats } of layers.slice(first, end)) {
        cache.extend(own[r], context.progress.shift);
        windowStats.clear();
        context.progress.countSlots(cache.length);
      }
    // a loop that breaks its promises fails its own token alone
    const alone = <T>(r: number, run: () => T): T | undefined => {
      try {
        return run();
      } catch (cause) {
        failed.set(r, failed.get(r) ?? cause);
        return undefined;
      }
    };
    const shown = requests.map(
      ({ caches, views }, r) =>
        views &&
        end > first &&
        alone(r, () =>
          placeViews(buffers, r, command.caches + r * command.apart, this.#loops, caches, views.slice(first, end)),
        ),
    );
    const slots = Math.max(0, ...layers.map(({ cache }) => cache.length)),
      queries = window === 0 ? 0 : buffers.queries.at(4 * m * queryRowNumbers(config)),
      { shares, stride } = counted ? buffers.shares(count * m, H, slots) : { shares: 0, stride: 0 };
    this.#pool.call({
      ...{ ...command, queries, window, shares, stride, sums: 0, position: 0 },
      code: compiled.starts[from],
      end: head ? compiled.end : compiled.starts[to],
    });
    for (const [r, check] of shown.entries()) if (check) alone(r, () => countViews(all[r].context.counters, check()));
    for (let l = from; l < to; l++)
      for (const counts of [rows.qkv, rows.output, rows.gateUp, rows.down]) counts[l] = counts[l] + m;
    for (let l = first; l < end; l++)
      for (const [r, { layers, context }] of all.entries()) {
        const row = l * m + r;
        recordObservations(heap, layers[l], H, own[r], context.progress.shift, {
          queries: queries + 4 * (ranks[l] * m + r) * H * layers[l].cache.headDim,
          window: Math.min(1, window),
          shares: shares + 4 * row * H * stride,
          stride,
        });
      }
    for (const { layers, context } of all) {
      context.counters.fused += end - first;
      if (layers.some(({ accumulated, block }) => accumulated || block)) context.counters.statistics += end - first;
    }
  }

  #code(rows: number): CompiledPass {
    const room = passRows.find((most) => most >= rows) ?? mostRows,
      known = this.#compiled.get(room);
    if (known) return known;
    const compiled = compilePass(this.#pool, this.#arena, this.#decoder, this.#mixers, {
      rows: room,
      apart: true,
      head: true,
    });
    this.#compiled.set(room, compiled);
    return compiled;
  }
}

/** Returns the angles of several rows, concatenated. */
function joined(rows: readonly Angles[]): Angles {
  const [{ rotary }] = rows,
    half = rotary / 2,
    [cos, sin] = [new Float32Array(half * rows.length), new Float32Array(half * rows.length)],
    scaled = rows.some(({ scales }) => scales);
  for (const [r, row] of rows.entries()) {
    cos.set(row.cos, r * half);
    sin.set(row.sin, r * half);
  }
  return { rotary, cos, sin, ...(scaled && { scales: Float32Array.from(rows, ({ scales }) => scales?.[0] ?? 1) }) };
}
