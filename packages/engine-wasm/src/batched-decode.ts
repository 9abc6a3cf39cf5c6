import type { Decoder, Angles, PassOptions } from '@kv/engine';
import { rmsNorm, BatchBarrier, BatchSlot } from '@kv/engine';
import type { AttentionShape } from './code.ts';
import { PassBuffers } from './pass-buffers.ts';
import type { WasmRunnable } from './engine.ts';
import { alike, compilePass } from './compiled-pass.ts';
import type { CompiledPass } from './compiled-pass.ts';
import type { WeightArena } from './weight-arena.ts';
import { recordObservations } from './record-observations.ts';
import type { ObservedMemory } from './record-observations.ts';
import { copyRows, rowsAt } from './rows.ts';
import type { ThreadPool } from './thread-pool.ts';

/** Maximum rows of a pass, for few and for many sequences; buffers are allocated for this many. */
const rooms = [8, 32] as const;
/** Milliseconds after which the event loop gets a turn. */
const turn = 30;

/** A sequence's token that waits to be batched with others. */
interface BatchRequest {
  readonly memory: ObservedMemory;
  readonly id: number;
  /** Whether to compute its logits. */
  readonly scored: boolean;
  /** Runs the token in a pass by itself. */
  alone(): Promise<Float32Array[]>;
  done(logits: Float32Array[]): void;
  fail(cause: unknown): void;
}

type TokenOptions = Pick<PassOptions, 'phase' | 'course' | 'signal' | 'rows' | 'eventFollows'>;
/** A pass of one sequence. */
type Alone = (memory: ObservedMemory, ids: readonly number[], options: TokenOptions) => Promise<Float32Array[]>;

/** A sequence's membership in a batch of tokens. */
export class DecodeSlot extends BatchSlot<BatchRequest> {
  readonly #meeting: BatchBarrier<BatchRequest>;
  readonly #alone: Alone;

  constructor(meeting: BatchBarrier<BatchRequest>, alone: Alone) {
    super(meeting);
    [this.#meeting, this.#alone] = [meeting, alone];
  }

  /** Feeds a token through every layer once the other members have submitted theirs. */
  async pass(memory: ObservedMemory, id: number, options: TokenOptions): Promise<Float32Array[]> {
    await memory.between(options);
    const alone = (): Promise<Float32Array[]> => this.#alone(memory, [id], options);
    return new Promise((done, fail) =>
      this.#meeting.bring({ memory, id, scored: options.rows > 0, alone, done, fail }),
    );
  }
}

/**
 * Batches tokens of several sequences, one each: products take the rows of all of them, and each attends over its own
 * caches. A row's numbers are, to the bit, those of a pass by itself.
 */
export class BatchedDecode {
  readonly #team: ThreadPool;
  readonly #decoder: Decoder<WasmRunnable>;
  readonly #placing: WeightArena;
  readonly #shapes: readonly AttentionShape[];
  readonly #desks: PassBuffers[] = [];
  readonly #lines = new Map<number, CompiledPass>();
  /** Recent milliseconds per layer. */
  #pace = 0;

  readonly #alone: Alone;

  /** @param alone runs a token that no other is batched with */
  constructor(
    team: ThreadPool,
    decoder: Decoder<WasmRunnable>,
    placing: WeightArena,
    shapes: readonly AttentionShape[],
    alone: Alone,
  ) {
    [this.#team, this.#decoder, this.#placing, this.#shapes] = [team, decoder, placing, shapes];
    this.#alone = alone;
  }

  /** Returns `count` members of one batch, which runs in parts no larger than the buffers. */
  seats(count: number): readonly DecodeSlot[] {
    const meeting = new BatchBarrier<BatchRequest>(count, (riders) => void this.#all(riders));
    return Array.from({ length: count }, () => new DecodeSlot(meeting, this.#alone));
  }

  destroy(): void {
    for (const desk of this.#desks.splice(0)) desk.free();
  }

  async #all(riders: readonly BatchRequest[]): Promise<void> {
    const most = rooms[rooms.length - 1];
    for (let at = 0; at < riders.length; at += most) {
      const some = riders.slice(at, at + most).filter((rider) => this.#begin(rider));
      try {
        if (some.length === 1) some[0].done(await some[0].alone());
        else if (some.length > 1) await this.#pass(some);
      } catch (cause) {
        for (const rider of some) rider.fail(cause);
      }
    }
  }

  /** Makes room for a token in its sequence's caches; a token that does not fit fails by itself. */
  #begin({ memory, fail }: BatchRequest): boolean {
    try {
      for (const { cache, block } of memory.layers) {
        cache.room(1);
        block?.fill(0);
      }
      return true;
    } catch (cause) {
      fail(cause);
      return false;
    }
  }

  async #pass(riders: readonly BatchRequest[]): Promise<void> {
    const { hidden: D, vocab, ropes, normEps } = this.#decoder.config,
      all = this.#shapes.length,
      m = riders.length,
      lines = this.#code(m),
      head = riders.some(({ scored }) => scored),
      desk = this.#desks.pop() ?? new PassBuffers(this.#team, false),
      positions = Uint32Array.from(riders, ({ memory }) => memory.length),
      at = (place: CompiledPass['rows'][number]): ReturnType<typeof rowsAt> =>
        rowsAt(this.#team.heap, desk.work.for(lines.layout), place, m);
    for (const { memory, id } of riders) memory.text.push(id);
    try {
      copyRows(this.#decoder.embed(riders.map(({ id }) => id)), D, at(lines.rows[0]), m);
      let since = performance.now();
      for (let l = 0; l < all; ) {
        const some = alike(ropes, l, Math.min(all - l, Math.max(1, Math.floor(turn / this.#pace)))),
          started = performance.now();
        this.#call(desk, lines, riders, positions, l, l + some, head && l + some === all);
        const now = performance.now();
        this.#pace = (now - started) / some;
        l += some;
        if (now - since > turn && l < all) {
          await new Promise<void>((resume) => (typeof setImmediate === 'function' ? setImmediate : setTimeout)(resume));
          since = performance.now();
        }
      }
      const last = at(lines.rows[all]),
        logits = head && lines.logits ? at(lines.logits) : undefined;
      for (const [r, { memory, scored, done }] of riders.entries()) {
        const row = last.data.subarray(r * last.stride, r * last.stride + D);
        memory.hidden?.push(rmsNorm(row, this.#decoder.norm, normEps));
        if (logits && scored) this.#decoder.rows.head++;
        memory.counters.together = (memory.counters.together ?? 0) + 1;
        done(logits && scored ? [logits.data.slice(r * logits.stride, r * logits.stride + vocab)] : []);
      }
    } finally {
      this.#desks.push(desk);
    }
  }

  #call(
    desk: PassBuffers,
    lines: CompiledPass,
    riders: readonly BatchRequest[],
    positions: Uint32Array,
    from: number,
    to: number,
    head: boolean,
  ): void {
    const { config, rows } = this.#decoder,
      { queryHeads: H, headDim: d } = config,
      { heap } = this.#team,
      m = riders.length,
      all = this.#shapes.length,
      memories = riders.map(({ memory }) => memory),
      layers = memories.flatMap((memory) => memory.layers.slice(from, to));
    const own = memories.map((_, r) => positions.subarray(r, r + 1)),
      turning = config.ropes.slice(from, to).findIndex(({ rotary }) => rotary > 0),
      angles = joined(
        memories.map((memory, r) =>
          this.#decoder.angles(from + Math.max(0, turning), memory.rotations(own[r]), memory.rotaryLength),
        ),
      );
    const counted = layers.some(({ accumulated, block }) => accumulated || block),
      window = layers.some(({ ring }) => ring) ? m : 0;
    const command = { ...desk.command(lines, m, angles, []), ...desk.rows(memories.map(cachesOf), positions) };
    for (const [r, memory] of memories.entries())
      for (const { cache, taken } of memory.layers.slice(from, to)) {
        cache.extend(own[r], memory.shift);
        taken.drop();
        memory.mostSlots = Math.max(memory.mostSlots, cache.length);
      }
    const slots = Math.max(...layers.map(({ cache }) => cache.length)),
      queries = window === 0 ? 0 : desk.queries.at(4 * all * m * H * d),
      { shares, stride } = counted ? desk.shares(all * m, H, slots) : { shares: 0, stride: 0 };
    this.#team.call({
      ...{ ...command, queries, window, shares, stride, sums: 0, position: 0 },
      code: lines.starts[from],
      end: head ? lines.end : lines.starts[to],
    });
    for (let l = from; l < to; l++) {
      for (const count of [rows.qkv, rows.output, rows.gateUp, rows.down]) count[l] = count[l] + m;
      for (const [r, memory] of memories.entries()) {
        const row = l * m + r;
        recordObservations(heap, memory.layers[l], config, own[r], memory.shift, {
          queries: queries + 4 * row * H * d,
          window: Math.min(1, window),
          shares: shares + 4 * row * H * stride,
          stride,
        });
      }
    }
    for (const memory of memories) {
      memory.counters.fused += to - from;
      if (memory.layers.some(({ accumulated, block }) => accumulated || block)) memory.counters.statistics += to - from;
    }
  }

  #code(rows: number): CompiledPass {
    const room = rooms.find((most) => most >= rows) ?? rooms[rooms.length - 1],
      known = this.#lines.get(room);
    if (known) return known;
    const lines = compilePass(this.#team, this.#placing, this.#decoder, this.#shapes, {
      rows: room,
      apart: true,
      head: true,
    });
    this.#lines.set(room, lines);
    return lines;
  }
}

const cachesOf = ({ layers }: ObservedMemory): readonly ObservedMemory['layers'][number]['cache'][] =>
  layers.map(({ cache }) => cache);

/** Returns the angles of several rows, concatenated. */
function joined(rows: readonly Angles[]): Angles {
  const [{ rotary }] = rows,
    half = rotary / 2,
    [cos, sin] = [new Float32Array(half * rows.length), new Float32Array(half * rows.length)];
  for (const [r, row] of rows.entries()) {
    cos.set(row.cos, r * half);
    sin.set(row.sin, r * half);
  }
  return { rotary, cos, sin };
}
