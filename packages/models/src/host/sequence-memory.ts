import type { AnySignal, At, Backend, Compiled, Plan } from '@kv/core';
import type { AttentionCounters } from '../attention.ts';
import { Ledger } from '../ledger.ts';
import type { Model } from '../load-model.ts';
import type { Draw } from '../sampling.ts';
import type { EventResult, EventTimes } from './event.ts';
import { TokenText } from './text.ts';

/** How a block of tokens is fed. */
export interface FeedOptions {
  readonly phase: 'prefill' | 'decode';
  readonly policy: Compiled;
  /** Last rows whose logits are wanted. */
  readonly rows: number;
  /** Every layer is back at its budget before the next one starts. */
  readonly evict?: { readonly plan: Plan; readonly times: EventTimes };
}

/** What became of a block: its logits, and what was kept where `evict` was asked for. */
export interface Fed { readonly output: Output; readonly event?: EventResult }

/** Logits of the last rows fed, wherever they are. */
export interface Output {
  /** Newest last; absent while they are on a device. */
  readonly logits?: readonly Float32Array[];
  read(): Promise<readonly Float32Array[]>;
  /** The id that follows the newest row: that of its largest logit, ties to the lower id, or a drawn one. */
  next(draw?: Draw): Promise<number>;
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

/** What one sequence remembers, and how tokens pass and events run where its cache lives. */
export abstract class SequenceMemory {
  readonly model: Model;
  /** Where pieces run. */
  readonly backend: Backend;
  readonly ledger: Ledger = new Ledger();
  readonly counters: AttentionCounters = { fused: 0, statistics: 0 };
  text: TokenText;
  promptLength = 0;
  /** Length by which positions turn for as long as the sequence lives: that of its first prompt, whatever is appended or generated. */
  rotaryLength = 0;
  /** Tokens generated. */
  decoded = 0;
  /** Positions that there are to rotate by. */
  window: number;
  /** Most slots that a head of any layer has held. */
  mostSlots = 0;
  /** Slots per KV head asked for; absent where nothing evicts. */
  budget: number | undefined;

  constructor(model: Model, backend: Backend, window: number = model.config.maxPositions) {
    [this.model, this.backend, this.window, this.text] = [model, backend, window, new TokenText(model.tokenizer)];
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
    const { layers, queryHeads, kvHeads, headDim } = this.model.config, { slots, aligned } = this.place(layer);
    const { decoded: step, promptLength, length, budget = slots } = this;
    return { layer, layers, queryHeads, kvHeads, headDim, step, promptLength, length, slots, aligned, budget, selectRows: kvHeads };
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
  /** One event over these layers, and `onPass` for every pass of a provider. Nothing changes before every check has passed. */
  abstract event(policy: Compiled, layers: readonly number[], plan: Plan, times: EventTimes, onPass: () => void): Promise<EventResult>;
  /** Whether a copy may end before the sequence does: nothing was evicted, and nothing is remembered of single queries. */
  abstract get cuttable(): boolean;
  /** @param upTo of a memory that has evicted nothing: its first tokens alone */
  abstract fork(upTo?: number): SequenceMemory;
  abstract destroy(): void;
}
