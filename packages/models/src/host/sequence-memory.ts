import type { AnySignal, At, Backend, Compiled, Plan, Tensor } from '@kv/core';
import type { AttentionCounters } from '../attention.ts';
import { Ledger } from '../ledger.ts';
import type { Model } from '../load-model.ts';
import type { Draw } from '../sampling.ts';
import type { EventResult, EventTimes } from './event.ts';
import type { Snapshot } from './snapshot.ts';
import { TokenText } from './text.ts';

/** How a block of tokens is fed. */
export interface FeedOptions {
  readonly phase: 'prefill' | 'decode';
  readonly policy: Compiled;
  /** Last rows whose logits are wanted. */
  readonly rows: number;
  /** Every layer is back at its budget before the next one starts. */
  readonly evict?: { readonly plan: Plan; readonly times: EventTimes };
  /** An event follows at once: what it reads need not wait for the next token. */
  readonly eventFollows?: boolean;
}

/** What became of a block: its logits, and what was kept where `evict` was asked for. */
export interface Fed {
  readonly output: Output;
  readonly event?: EventResult;
}

/** An id that is under way. */
export interface Asked {
  /** Where it will be on the device, u32 `[1]`. */
  readonly tensor: Tensor;
  readonly id: Promise<number>;
}

/** Logits of the last rows fed, wherever they are. */
export interface Output {
  /** Newest last; absent while they are on a device. */
  readonly logits?: readonly Float32Array[];
  read(): Promise<readonly Float32Array[]>;
  /** The id that follows the newest row: that of its largest logit, ties to the lower id, or a drawn one. */
  next(draw?: Draw): Promise<number>;
  /** `next`, where a step may start on it before it is known. */
  ask?(draw?: Draw): Asked;
  /** Nobody asks any more. */
  release(): void;
}

/** Slots that a window may leave unreachable for a while. */
const spareOf = (window: number): number => Math.floor(window / 8);

/** What a layer holds. */
export interface Place {
  /** Slots of the longest head. */
  readonly slots: number;
  /** Every head holds the same positions. */
  readonly aligned: boolean;
  /** Slots in use, `[kvHead]`. */
  readonly lengths: ArrayLike<number>;
  /** Slots of each head that stand before this position, `[kvHead]`: its first ones. */
  before(position: number): number[];
  kept(): number[][];
}

/** Steps that start before the host knows their tokens. Nothing of them shows on the host before they land. */
export interface Ahead {
  /**
   * How many may be under way, since the host has no say in them: no hook runs, nothing is remembered beside the cache,
   * whose storage has room.
   */
  room(policy: Compiled): number;
  /** Starts one more, behind `before` that are under way, on an id that is. */
  start(asked: Asked, before: number): Output;
  /** The oldest one was fed this token. */
  land(token: number): void;
  /** None of those under way ever ran. */
  takeBack(): void;
}

/** What one sequence remembers, and how tokens pass and events run where its cache lives. */
export abstract class SequenceMemory {
  readonly model: Model;
  /** Where pieces run. */
  readonly backend: Backend;
  readonly ledger: Ledger = new Ledger();
  readonly counters: AttentionCounters = { fused: 0, statistics: 0 };
  text: TokenText;
  promptLength = 0;
  /**
   * Length by which positions turn for as long as the sequence lives: that of its first prompt, whatever is appended or
   * generated.
   */
  rotaryLength = 0;
  /** Tokens generated. */
  decoded = 0;
  /** Positions that there are to rotate by. */
  window: number;
  /** Most slots that a head of any layer has held. */
  mostSlots = 0;
  /** Slots that a sliding window had made unreachable and that were freed, over layers and KV heads. */
  unreachable = 0;
  /** Slots per KV head asked for; absent where nothing evicts. */
  budget: number | undefined;
  /** How far new tokens' rotations lie below their positions; 0 until the kept slots are moved together. */
  shift = 0;

  constructor(model: Model, backend: Backend, window: number = model.config.maxPositions) {
    [this.model, this.backend, this.window, this.text] = [model, backend, window, new TokenText(model.tokenizer)];
  }

  /** Where tokens of these positions stand in rotary position embedding. */
  rotations(positions: Uint32Array): Uint32Array {
    return this.shift === 0 ? positions : positions.map((p) => p - this.shift);
  }

  /** Makes an empty memory one of the first `upTo` tokens of this one, but for what its caches hold. */
  protected counted<M extends SequenceMemory>(copy: M, upTo: number): M {
    const { text, promptLength, rotaryLength, decoded, mostSlots, unreachable, budget, shift } = this;
    return Object.assign(copy, {
      text: text.fork(upTo),
      promptLength: Math.min(promptLength, upTo),
      rotaryLength,
      decoded,
      mostSlots,
      unreachable,
      budget,
      shift,
    });
  }

  /** Tokens fed so far, evicted ones included. */
  get length(): number {
    return this.text.ids.length;
  }

  /** Slots of the longest head of any layer. */
  get longest(): number {
    return Math.max(...this.lengths().flat());
  }

  /** So many more tokens are to be the prompt's. */
  prompted(more: number): void {
    this.promptLength = this.length + more;
    if (this.length === 0) this.rotaryLength = more;
  }

  at(layer: number): At {
    const { layers, queryHeads, kvHeads, headDim } = this.model.config,
      { slots, aligned } = this.place(layer);
    const { decoded: step, promptLength, length, budget = slots } = this;
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
      budget,
      selectRows: kvHeads,
    };
  }

  /** Steps ahead of their tokens, where the cache is on a device. */
  get ahead(): Ahead | undefined {
    return undefined;
  }

  /**
   * Slots that the newest token sees, `[layer][kvHead]`, once `more` have joined every layer: those that there are to
   * keep.
   */
  lengths(more = 0): number[][] {
    return this.#places().map(({ lengths, before }, l) => {
      const from = this.#firstSeen(l, this.length + more),
        gone = before(from),
        joined = Math.min(more, this.length + more - from);
      return Array.from(lengths, (n, g) => n - gone[g] + joined);
    });
  }

  /**
   * Frees the slots of a layer that neither the newest token nor a later one can see, as original positions decide it,
   * in all heads once one has more than `spare` of them.
   */
  free(layer: number, spare = 0): void {
    const gone = this.#gone(layer);
    if (Math.max(0, ...gone) <= spare) return;
    this.drop(layer, gone);
    this.unreachable += gone.reduce((a, b) => a + b);
  }

  /** How many tokens may still be generated before `freeLate` frees anything. */
  get untilFreed(): number {
    return Math.min(
      ...this.model.config.attention.windows.map((window, l) =>
        window === Infinity ? Infinity : spareOf(window) + 1 - Math.max(0, ...this.#gone(l)),
      ),
    );
  }

  /** Before a generated token: slots are moved once an eighth of a window is unreachable, not with every token. */
  protected freeLate(): void {
    for (const [l, window] of this.model.config.attention.windows.entries())
      if (window !== Infinity) this.free(l, spareOf(window));
  }

  /** Slots of each head of a layer that the newest token cannot see. */
  #gone(layer: number): number[] {
    const from = this.#firstSeen(layer);
    return from === 0 ? [] : this.place(layer).before(from);
  }

  /** The first position that the newest of `length` tokens sees in a layer. */
  #firstSeen(layer: number, length: number = this.length): number {
    return Math.max(0, length - (this.model.config.attention.windows[layer] ?? Infinity));
  }

  /** Positions in the cache, `[layer][kvHead]`, ascending. */
  kept(): number[][][] {
    return this.#places().map(({ kept }) => kept());
  }

  #places(): readonly Place[] {
    return Array.from({ length: this.model.config.layers }, (_, l) => this.place(l));
  }

  /**
   * Gives the kept slots of every KV head consecutive rotations that end where the longest head's end, from 0 on. The
   * next token stands behind them, in
   * all layers at the same rotation; original positions stay what policies and views see.
   */
  rebase(): void {
    for (let l = 0; l < this.model.config.layers; l++) this.free(l);
    const next = this.longest;
    this.move(next);
    this.shift = this.length - next;
  }

  /** Turns kept keys, and what is remembered of queries, so that every head's slots end before rotation `next`. */
  protected abstract move(next: number): void;
  protected abstract place(layer: number): Place;
  /** Lets go of the first so many slots of each head, `[kvHead]`. */
  protected abstract drop(layer: number, first: readonly number[]): void;
  /** Remembers from now on what these signals read. */
  abstract watch(needs: readonly AnySignal[]): void;
  /** Forgets what only events read. */
  abstract unwatch(): void;
  /** A reader of one layer's signals as they are now. */
  abstract reader(layer: number): (signal: AnySignal) => unknown;
  abstract feed(ids: readonly number[], options: FeedOptions): Promise<Fed>;
  /** What the policy does after every decoded token. */
  abstract afterStep(policy: Compiled): Promise<void>;
  /**
   * One event over these layers, and `onPass` for every pass of a provider. Nothing changes before every check has
   * passed.
   */
  abstract event(
    policy: Compiled,
    layers: readonly number[],
    plan: Plan,
    times: EventTimes,
    onPass: () => void,
  ): Promise<EventResult>;
  /** What it remembers as numbers on the host. */
  abstract saved(): Promise<Snapshot>;
  /** Takes saved numbers, into a memory that has none yet. */
  abstract restore(saved: Snapshot): void;
  /**
   * The fewest tokens that a copy may end after: nothing was evicted that they see, and nothing is remembered of single
   * queries. Infinity where no copy may.
   */
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
  /** It holds caches and nothing beside them. */
  protected abstract get plain(): boolean;
  /** @param upTo of a memory that has evicted nothing: its first tokens alone */
  abstract fork(upTo?: number): SequenceMemory;
  abstract destroy(): void;
}
