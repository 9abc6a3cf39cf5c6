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
  readonly evict?: {
    readonly plan: Plan;
    readonly times: EventTimes;
    /** Of a layer nothing is remembered behind its event. */
    readonly forget?: boolean;
  };
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
    const { text, promptLength, rotaryLength, decoded, mostSlots, budget, shift } = this;
    return Object.assign(copy, {
      text: text.fork(upTo),
      promptLength: Math.min(promptLength, upTo),
      rotaryLength,
      decoded,
      mostSlots,
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

  /** Slots in use, `[layer][kvHead]`, once `more` tokens have joined every layer. */
  lengths(more = 0): number[][] {
    return this.#places().map(({ lengths }) => Array.from(lengths, (n) => n + more));
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
    const next = this.longest;
    this.move(next);
    this.shift = this.length - next;
  }

  /** Turns kept keys, and what is remembered of queries, so that every head's slots end before rotation `next`. */
  protected abstract move(next: number): void;
  protected abstract place(layer: number): Place;
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
   * Whether a copy may end before the sequence does: nothing was evicted, and nothing is remembered of single queries.
   */
  abstract get cuttable(): boolean;
  /** @param upTo of a memory that has evicted nothing: its first tokens alone */
  abstract fork(upTo?: number): SequenceMemory;
  abstract destroy(): void;
}
