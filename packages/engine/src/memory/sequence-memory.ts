import { KvError } from '@kv/core';
import { isOverwritten, outOfMemory } from '@kv/core/engine';
import type { AnySignal, LayerContext, Backend, Embeddings, BudgetPlan } from '@kv/core';
import { expectIds } from '../decoder/decoder.ts';
import { turns, yieldToEvents } from '../yield-to-events.ts';
import { Ledger } from '../ledger.ts';
import type { ActivePolicy, EventResult, EventTimes } from './active-policy.ts';
import type { AttentionCounters, FeedResult, FeedOptions, Memory } from './memory.ts';
import { expectRoom, makeRoom } from './make-room.ts';
import type { MemoryOptions, ModelParts } from './runtime.ts';
import type { Snapshot } from './snapshot.ts';
import { TokenText } from './text.ts';

/** Unreachable slots that a window may leave before they are freed. */
const spareOf = (window: number): number => Math.floor(window / 8);

/** The slots that a layer holds. */
export interface LayerSlots {
  /** Slots of the longest head. */
  readonly slots: number;
  /** Whether every head holds the same positions. */
  readonly aligned: boolean;
  /** Slots in use, `[kvHead]`. */
  readonly lengths: ArrayLike<number>;
  /** Returns how many slots of each head, its first ones, come before this position, `[kvHead]`. */
  before(position: number): number[];
  kept(): number[][];
}

/** What a model's memories read of it, in addition to its decoder. */
export interface MemoryModel extends ModelParts {
  readonly embeddings: Embeddings;
}

/** Base class of memories, wherever their caches live: text, counts and positions of slots. */
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
  unreachable = 0;
  /** How far new tokens' rotations lie below their positions; 0 until the kept slots are moved together. */
  shift = 0;
  /** The change that failed halfway, and why. */
  #broken: string | undefined;
  #destroyed = false;
  /** Calls in progress. */
  #uses = 0;
  /** Yields to the event loop between layers, if it was held for long. */
  readonly turn: () => Promise<void> = turns();

  constructor(
    model: MemoryModel,
    backend: Backend,
    { window = model.config.maxPositions, signal }: Pick<MemoryOptions, 'window' | 'signal'> = {},
  ) {
    [this.model, this.backend, this.window, this.signal] = [model, backend, window, signal];
    this.text = new TokenText(model.tokenizer);
  }

  /** Returns the rotary positions of tokens at these original positions. */
  rotations(positions: Uint32Array): Uint32Array {
    return this.shift === 0 ? positions : positions.map((p) => p - this.shift);
  }

  /**
   * Sets an empty copy's text and counts to the first `upTo` tokens of this memory; its caches are copied elsewhere.
   */
  protected counted<M extends SequenceMemory>(copy: M, upTo: number): M {
    const { text, promptLength, rotaryLength, decoded, mostSlots, unreachable, shift } = this;
    return Object.assign(copy, {
      text: text.fork(upTo),
      promptLength: Math.min(promptLength, upTo),
      rotaryLength,
      decoded,
      mostSlots,
      unreachable,
      shift,
    });
  }

  get length(): number {
    return this.text.ids.length;
  }

  get longest(): number {
    let most = 0;
    for (let l = 0; l < this.model.config.layers; l++) {
      const { slots, lengths, before } = this.place(l),
        gone = this.#firstSeen(l) === 0 ? undefined : before(this.#firstSeen(l));
      most = Math.max(most, gone ? Math.max(...gone.map((n, g) => lengths[g] - n)) : slots);
    }
    return most;
  }

  prompted(more: number): void {
    this.promptLength = this.length + more;
    if (this.length === 0) this.rotaryLength = more;
  }

  at(layer: number, { budget }: ActivePolicy): LayerContext {
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
    return this.#places().map(({ lengths, before }, l) => {
      const from = this.#firstSeen(l, this.length + more),
        gone = from === 0 ? undefined : before(from),
        joined = Math.min(more, this.length + more - from);
      return Array.from(lengths, (n, g) => n - (gone?.[g] ?? 0) + joined);
    });
  }

  /**
   * Frees a layer's slots that neither the newest token nor a later one can see, decided by original positions: in all
   * heads, once one head has more than `spare` of them.
   */
  freeUnreachable(layer: number, spare = 0): void {
    const gone = this.#gone(layer);
    if (Math.max(0, ...gone) <= spare) return;
    this.dropFirst(layer, gone);
    this.unreachable += gone.reduce((a, b) => a + b);
  }

  /** Tokens that may still be generated before slots that a window made unreachable are freed. */
  get untilFreed(): number {
    return Math.min(
      ...this.model.config.attention.windows.map((window, l) =>
        window === Infinity ? Infinity : spareOf(window) + 1 - Math.max(0, ...this.#gone(l)),
      ),
    );
  }

  /** Frees unreachable slots before a generated token: once they are an eighth of a window, not at every token. */
  #freeLate(): void {
    for (const [l, window] of this.model.config.attention.windows.entries())
      if (window !== Infinity) this.freeUnreachable(l, spareOf(window));
  }

  /** Returns how many slots of each head of a layer the newest token cannot see. */
  #gone(layer: number): number[] {
    const from = this.#firstSeen(layer);
    return from === 0 ? [] : this.place(layer).before(from);
  }

  /** Returns the first position that the newest of `length` tokens sees in a layer. */
  #firstSeen(layer: number, length: number = this.length): number {
    return Math.max(0, length - (this.model.config.attention.windows[layer] ?? Infinity));
  }

  kept(): number[][][] {
    return this.#places().map(({ kept }) => kept());
  }

  #places(): readonly LayerSlots[] {
    return Array.from({ length: this.model.config.layers }, (_, l) => this.place(l));
  }

  expectWhole(): void {
    if (this.#destroyed) throw destroyed();
    if (this.#broken !== undefined)
      throw new KvError(
        'sequence',
        `expected one that can go on, got one that broke off in the middle of ${this.#broken}`,
      );
    this.text.expectOwn();
  }

  async feed(ids: readonly number[], options: FeedOptions): Promise<FeedResult> {
    const { phase, course, signal } = options,
      where = phase === 'decode' ? 'generation' : 'prompt',
      together = course.policy.hooks('compact').some((hook) => hook.movesTogether);
    this.expectWhole();
    expectIds(ids, this.model.config.vocab);
    expectRoom(this, ids.length, where);
    signal?.throwIfAborted();
    return this.change('a block', async () => {
      if (phase === 'decode') this.#freeLate();
      makeRoom(this, ids.length, where, together);
      if (phase === 'decode') this.decoded++;
      const fed = await this.pass(ids, options);
      if (!this.#destroyed) return fed;
      fed.output.release();
      throw destroyed();
    });
  }

  async afterStep(course: ActivePolicy): Promise<void> {
    this.expectWhole();
    if (course.policy.hooks('step').length > 0) await this.change('a step', () => this.runStepHooks(course));
  }

  async event(...args: Parameters<Memory['event']>): Promise<EventResult> {
    const [, layers] = args;
    this.expectWhole();
    return this.#using(async () => {
      await this.change('an event', async () => {
        for (const l of layers) this.freeUnreachable(l); // budgets are of the slots that exist
      });
      try {
        return await this.runEvent(...args);
      } catch (error) {
        if (isOverwritten(error)) this.#broken ??= `an event: ${error.message}`;
        throw error;
      }
    });
  }

  destroy(): void {
    if (this.#destroyed) return;
    this.#destroyed = true;
    if (this.#uses === 0) this.free();
  }

  /**
   * Called between two layers of a block. In prefill, yields to the event loop if a signal may abort the block, or if
   * the loop was held for long.
   * @throws the abort's reason, and KvError once the memory was destroyed
   */
  async between({ phase, signal }: Pick<FeedOptions, 'phase' | 'signal'>): Promise<void> {
    if (phase === 'prefill') {
      await yieldToEvents(signal ?? this.signal);
      await this.turn();
    }
    this.signal?.throwIfAborted();
    signal?.throwIfAborted();
    if (this.#destroyed) throw destroyed();
  }

  /** Runs a change that must complete: if it throws, the memory is unusable. */
  change<T>(what: string, run: () => Promise<T>): Promise<T> {
    return this.#using(async () => {
      try {
        return await run();
      } catch (error) {
        const told = outOfMemory(error);
        this.#broken ??= `${what}: ${told instanceof Error ? told.message : String(told)}`;
        throw told;
      }
    });
  }

  /** Runs a call; if the memory is destroyed meanwhile, it is freed when the call ends. */
  async #using<T>(run: () => Promise<T>): Promise<T> {
    this.#uses++;
    try {
      return await run();
    } catch (error) {
      throw outOfMemory(error);
    } finally {
      if (--this.#uses === 0 && this.#destroyed) this.free();
    }
  }

  /**
   * Gives the kept slots of every KV head consecutive rotations from 0 on, aligned so that all heads end where the
   * longest head ends. The next token comes after them, at the same rotation in all layers. Policies and views still
   * see original positions.
   */
  rebase(): void {
    for (let l = 0; l < this.model.config.layers; l++) this.freeUnreachable(l);
    const next = this.longest;
    this.move(next);
    this.shift = this.length - next;
  }

  get cuttableFrom(): number {
    if (!this.plain || this.shift > 0) return Infinity;
    return Math.max(
      ...this.#places().map(({ lengths, before }, l) => {
        const first = this.length - lengths[0];
        if (Array.prototype.some.call(lengths, (n) => n !== lengths[0]) || before(first).some((n) => n > 0))
          return Infinity; // not all of the last ones
        return first === 0 ? 0 : first + (this.model.config.attention.windows[l] ?? Infinity) - 1;
      }),
    );
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

  /** Rotates kept keys, and recorded queries, so that every head's slots end before rotation `next`. */
  protected abstract move(next: number): void;
  protected abstract place(layer: number): LayerSlots;
  /** Drops the first `count` slots of each head, `[kvHead]`. */
  protected abstract dropFirst(layer: number, count: readonly number[]): void;
  /** Whether it holds caches only. */
  protected abstract get plain(): boolean;
  /** Feeds tokens, which fit, through every layer. */
  protected abstract pass(ids: readonly number[], options: FeedOptions): Promise<FeedResult>;
  /** Returns the contents of the caches and of the arrays kept with them. */
  protected abstract numbers(): Promise<Pick<Snapshot, 'layers' | 'states'>>;
  /** Restores such contents. */
  protected abstract take(numbers: Pick<Snapshot, 'layers' | 'states'>): void;
  abstract watch(needs: readonly AnySignal[]): void;
  abstract unwatch(): void;
  abstract reader(layer: number): (signal: AnySignal) => unknown;
  protected abstract runStepHooks(course: ActivePolicy): Promise<void>;
  /** Runs an event; every change is made within `change`. */
  protected abstract runEvent(
    course: ActivePolicy,
    layers: readonly number[],
    plan: BudgetPlan,
    times: EventTimes,
    onPass: () => void,
  ): Promise<EventResult>;
  /** Frees everything; called once. */
  protected abstract free(): void;
  abstract fork(upTo?: number): Memory;
}

const destroyed = (): KvError => new KvError('sequence', 'expected one that was not destroyed, got one that was');
