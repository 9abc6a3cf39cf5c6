import { KvError } from '@kv/core';
import type { AnySignal, At, Backend, Embeddings, Plan } from '@kv/core';
import { expectIds } from '../decoder/decoder.ts';
import { yieldToEvents } from '../host/yield-to-events.ts';
import { Ledger } from '../ledger.ts';
import type { Course, EventResult, EventTimes } from './course.ts';
import type { AttentionCounters, FeedResult, FeedOptions, Memory } from './memory.ts';
import { expectRoom, makeRoom } from './room.ts';
import type { MemoryOptions, ModelParts } from './runtime.ts';
import type { Snapshot } from './snapshot.ts';
import { TokenText } from './text.ts';

/** What a layer holds. */
export interface Place {
  /** Slots of the longest head. */
  readonly slots: number;
  /** Every head holds the same positions. */
  readonly aligned: boolean;
  /** Slots in use, `[kvHead]`. */
  readonly lengths: ArrayLike<number>;
  kept(): number[][];
}

/** What a model's memories read of it beside its decoder. */
export interface MemoryModel extends ModelParts {
  readonly embeddings: Embeddings;
}

/** What memories have in common, wherever their caches live: text, counts, and where slots stand. */
export abstract class SequenceMemory implements Memory {
  readonly model: MemoryModel;
  readonly backend: Backend;
  readonly ledger: Ledger = new Ledger();
  readonly counters: AttentionCounters = { fused: 0, statistics: 0 };
  readonly window: number;
  /** Once aborted, passes end within a layer. */
  readonly signal: AbortSignal | undefined;
  text: TokenText;
  promptLength = 0;
  rotaryLength = 0;
  decoded = 0;
  mostSlots = 0;
  /** How far new tokens' rotations lie below their positions; 0 until the kept slots are moved together. */
  shift = 0;
  /** What broke off in the middle, and why. */
  #broken: string | undefined;
  #destroyed = false;
  /** Calls in progress. */
  #uses = 0;

  constructor(
    model: MemoryModel,
    backend: Backend,
    { window = model.config.maxPositions, signal }: Pick<MemoryOptions, 'window' | 'signal'> = {},
  ) {
    [this.model, this.backend, this.window, this.signal] = [model, backend, window, signal];
    this.text = new TokenText(model.tokenizer);
  }

  /** Where tokens of these positions stand in rotary position embedding. */
  rotations(positions: Uint32Array): Uint32Array {
    return this.shift === 0 ? positions : positions.map((p) => p - this.shift);
  }

  /** Makes an empty memory one of the first `upTo` tokens of this one, but for what its caches hold. */
  protected counted<M extends SequenceMemory>(copy: M, upTo: number): M {
    const { text, promptLength, rotaryLength, decoded, mostSlots, shift } = this;
    return Object.assign(copy, {
      text: text.fork(upTo),
      promptLength: Math.min(promptLength, upTo),
      rotaryLength,
      decoded,
      mostSlots,
      shift,
    });
  }

  get length(): number {
    return this.text.ids.length;
  }

  get longest(): number {
    return Math.max(...this.lengths().flat());
  }

  prompted(more: number): void {
    this.promptLength = this.length + more;
    if (this.length === 0) this.rotaryLength = more;
  }

  at(layer: number, { budget }: Course): At {
    const { layers, queryHeads, kvHeads, headDim } = this.model.config,
      { slots, aligned } = this.place(layer);
    const { decoded: step, promptLength, length } = this;
    return {
      layer,
      layers,
      queryHeads,
      kvHeads,
      headDim,
      step,
      promptLength,
      length,
      slots,
      aligned,
      budget: budget?.slots ?? slots,
      selectRows: kvHeads,
    };
  }

  lengths(more = 0): number[][] {
    return this.#places().map(({ lengths }) => Array.from(lengths, (n) => n + more));
  }

  kept(): number[][][] {
    return this.#places().map(({ kept }) => kept());
  }

  #places(): readonly Place[] {
    return Array.from({ length: this.model.config.layers }, (_, l) => this.place(l));
  }

  expectWhole(): void {
    if (this.#destroyed) throw destroyed();
    if (this.#broken !== undefined)
      throw new KvError(
        'sequence',
        `expected one that can go on, got one that broke off in the middle of ${this.#broken}`,
      );
  }

  async feed(ids: readonly number[], options: FeedOptions): Promise<FeedResult> {
    const { phase, course, signal } = options,
      where = phase === 'decode' ? 'generation' : 'prompt',
      together = course.policy.hooks('compact').some((hook) => hook.together);
    this.expectWhole();
    expectIds(ids, this.model.config.vocab);
    expectRoom(this, ids.length, where);
    signal?.throwIfAborted();
    return this.change('a block', async () => {
      makeRoom(this, ids.length, where, together);
      if (phase === 'decode') this.decoded++;
      const fed = await this.pass(ids, options);
      if (!this.#destroyed) return fed;
      fed.output.release();
      throw destroyed();
    });
  }

  async afterStep(course: Course): Promise<void> {
    this.expectWhole();
    if (course.policy.hooks('step').length > 0) await this.change('a step', () => this.runStepHooks(course));
  }

  async event(...args: Parameters<Memory['event']>): Promise<EventResult> {
    this.expectWhole();
    return this.#using(() => this.runEvent(...args));
  }

  destroy(): void {
    if (this.#destroyed) return;
    this.#destroyed = true;
    if (this.#uses === 0) this.free();
  }

  /**
   * Between two layers of a block: yields to the event loop where somebody may abort. @throws what an abort gives, and
   * KvError once the memory was destroyed
   */
  async between({ phase, signal }: Pick<FeedOptions, 'phase' | 'signal'>): Promise<void> {
    if (phase === 'prefill') await yieldToEvents(signal ?? this.signal);
    this.signal?.throwIfAborted();
    signal?.throwIfAborted();
    if (this.#destroyed) throw destroyed();
  }

  /** Runs what must not end in the middle: if it throws, nothing of this memory holds any more. */
  protected change<T>(what: string, run: () => Promise<T>): Promise<T> {
    return this.#using(async () => {
      try {
        return await run();
      } catch (error) {
        this.#broken ??= `${what}: ${error instanceof Error ? error.message : String(error)}`;
        throw error;
      }
    });
  }

  /** What is destroyed meanwhile is given back at the end. */
  async #using<T>(run: () => Promise<T>): Promise<T> {
    this.#uses++;
    try {
      return await run();
    } finally {
      if (--this.#uses === 0 && this.#destroyed) this.free();
    }
  }

  /**
   * Gives the kept slots of every KV head consecutive rotations that end where the longest head's end, from 0 on. The
   * next token stands behind them, in
   * all layers at the same rotation; original positions stay what policies and views see.
   */
  rebase(): void {
    const next = this.longest;
    this.move(next);
    this.shift = this.length - next;
  }

  async saved(): Promise<Snapshot> {
    const { promptLength, rotaryLength, decoded, mostSlots, shift } = this;
    return {
      ids: [...this.text.ids],
      promptLength,
      rotaryLength,
      decoded,
      mostSlots,
      shift,
      ...(await this.numbers()),
    };
  }

  restore({ ids, promptLength, rotaryLength, decoded, mostSlots, shift, ...numbers }: Snapshot): void {
    for (const id of ids) this.text.push(id);
    Object.assign(this, { promptLength, rotaryLength, decoded, mostSlots, shift });
    this.take(numbers);
  }

  /** Turns kept keys, and what is remembered of queries, so that every head's slots end before rotation `next`. */
  protected abstract move(next: number): void;
  protected abstract place(layer: number): Place;
  /** Takes tokens, for which there is room, through every layer. */
  protected abstract pass(ids: readonly number[], options: FeedOptions): Promise<FeedResult>;
  /** What caches and the arrays beside them hold. */
  protected abstract numbers(): Promise<Pick<Snapshot, 'layers' | 'states'>>;
  /** Takes such numbers. */
  protected abstract take(numbers: Pick<Snapshot, 'layers' | 'states'>): void;
  abstract watch(needs: readonly AnySignal[]): void;
  abstract unwatch(): void;
  abstract reader(layer: number): (signal: AnySignal) => unknown;
  protected abstract runStepHooks(course: Course): Promise<void>;
  /** An event; what it changes, it changes in `change`. */
  protected abstract runEvent(
    course: Course,
    layers: readonly number[],
    plan: Plan,
    times: EventTimes,
    onPass: () => void,
  ): Promise<EventResult>;
  /** Gives everything back; called once. */
  protected abstract free(): void;
  abstract get cuttable(): boolean;
  abstract fork(upTo?: number): Memory;
}

const destroyed = (): KvError => new KvError('sequence', 'expected one that was not destroyed, got one that was');
