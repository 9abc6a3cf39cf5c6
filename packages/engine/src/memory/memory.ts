import type { AnySignal, LayerContext, Backend, BudgetPlan, Tensor } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import type { Ledger } from '../ledger.ts';
import type { SamplingRule } from '../sampling.ts';
import type { ActivePolicy, EventResult, EventTimes } from './course.ts';
import type { Snapshot } from './snapshot.ts';
import type { TokenText } from './text.ts';
import type { Observer } from './observer.ts';

/** How many calls ran: all calls of attention, and those that computed statistics beside it. */
export interface AttentionCounters {
  fused: number;
  statistics: number;
  /** Passes in one piece, and those that took a word between layers; absent where no pass could be one. */
  whole?: number;
  layered?: number;
  /** Passes of one token that went together with those of other sequences. */
  together?: number;
}

/** How a block of tokens is fed. */
export interface FeedOptions {
  readonly phase: 'prefill' | 'decode';
  readonly course: ActivePolicy;
  /** Last rows whose logits are wanted. */
  readonly rows: number;
  /** Every layer is back at its budget before the next one starts. */
  readonly evict?: {
    readonly plan: BudgetPlan;
    readonly times: EventTimes;
    /** Of a layer nothing is remembered behind its event. */
    readonly forget?: boolean;
  };
  /** An event follows at once: what it reads need not wait for the next token. */
  readonly eventFollows?: boolean;
  /** Ends the block within a layer, and the memory with it. */
  readonly signal?: AbortSignal | undefined;
  /** A place among memories of one group that are fed at the same time. */
  readonly place?: BatchMembership | undefined;
}

/** One memory's place where products take the rows of several. */
export interface BatchMembership {
  /** The others wait for it no longer. May be called again. */
  leave(): void;
}

/** Memories whose blocks may pass at the same time, each product over the rows of all of them. */
export interface BatchGroup {
  /** The same for memories of one group. */
  readonly key: object;
  /** So many places. */
  open(count: number): readonly BatchMembership[];
}

/** What became of a block: its logits, and what was kept where `evict` was asked for. */
export interface FeedResult {
  readonly output: Output;
  readonly event?: EventResult;
}

/** The id of a step in flight. */
export interface PendingId {
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
  next(draw?: SamplingRule): Promise<number>;
  /** `next`, where a step may start on it before it is known. */
  ask?(draw?: SamplingRule): PendingId;
  /** Nobody asks any more. */
  release(): void;
}

/** Steps in flight: they start before the host knows their tokens, and show on the host once they are committed. */
export interface SpeculativeSteps {
  /**
   * How many may be in flight, since the host has no say in them: no hook runs, nothing is remembered beside the cache,
   * whose storage has room.
   */
  room(policy: CompiledPolicy): number;
  /** Starts one more, behind `before` that are in flight, on the id that the last of them gives. */
  start(asked: PendingId, before: number): Output;
  /** Counts the oldest one: it was fed this token. */
  commit(token: number): void;
  /** None of those in flight ever ran. */
  rollback(): void;
}

/** What shows an observer what events drop and views hide. */
export interface ObservationRequest {
  /** From now on, this one; nobody without one. */
  show(observer: Observer | undefined): void;
  /** The sum of a state over all layers, or nothing where no piece keeps it. */
  total(state: string): number | undefined;
}

/**
 * What one sequence remembers, and how tokens pass and events run where its cache lives. What only some memories can
 * do is a part that may be missing.
 */
export interface Memory {
  /** Where pieces run. */
  readonly backend: Backend;
  readonly ledger: Ledger;
  readonly counters: AttentionCounters;
  readonly text: TokenText;
  readonly promptLength: number;
  /**
   * Length by which positions turn for as long as the sequence lives: that of its first prompt, whatever is appended or
   * generated.
   */
  readonly rotaryLength: number;
  /** Tokens generated. */
  readonly decoded: number;
  /** Positions that there are to rotate by. */
  readonly window: number;
  /** Most slots that a head of any layer has held. */
  readonly mostSlots: number;
  /** Slots that a sliding window had made unreachable and that were freed, over layers and KV heads. */
  readonly unreachable: number;
  /** Tokens fed so far, evicted ones included. */
  readonly length: number;
  /** Slots of the longest head of any layer. */
  readonly longest: number;
  /**
   * Slots that the newest token sees, `[layer][kvHead]`, once `more` have joined every layer: those that there are to
   * keep.
   */
  lengths(more?: number): number[][];
  /** Positions in the cache, `[layer][kvHead]`, ascending. */
  kept(): number[][][];
  at(layer: number, course: ActivePolicy): LayerContext;
  /** @throws KvError once it was destroyed, or something broke off in the middle of a change */
  expectWhole(): void;
  /** So many more tokens are to be the prompt's. */
  prompted(more: number): void;
  /** Remembers from now on what these signals read. */
  watch(needs: readonly AnySignal[]): void;
  /** Forgets what only events read. */
  unwatch(): void;
  /** A reader of one layer's signals as they are now. */
  reader(layer: number): (signal: AnySignal) => unknown;
  feed(ids: readonly number[], options: FeedOptions): Promise<FeedResult>;
  /** What the policy does after every decoded token. */
  afterStep(course: ActivePolicy): Promise<void>;
  /**
   * One event over these layers, and `onPass` for every pass of a provider. Nothing changes before every check has
   * passed.
   */
  event(
    course: ActivePolicy,
    layers: readonly number[],
    plan: BudgetPlan,
    times: EventTimes,
    onPass: () => void,
  ): Promise<EventResult>;
  /** What it remembers as numbers on the host. */
  saved(): Promise<Snapshot>;
  /** Takes saved numbers, into a memory that has none yet. */
  restore(saved: Snapshot): void;
  /**
   * The fewest tokens that a copy may end after: nothing was evicted that they see, and nothing is remembered of single
   * queries. Infinity where no copy may.
   */
  readonly cuttableFrom: number;
  /** @param upTo of `cuttableFrom` or more: its first tokens alone */
  fork(upTo?: number): Memory;
  /** Gives everything back, at the latest when calls in progress have ended; may be called again. */
  destroy(): void;
  /** Steps ahead of their tokens. */
  readonly ahead?: SpeculativeSteps;
  readonly observing?: ObservationRequest;
  /** Present where a row's result does not depend on the rows beside it, to the bit. */
  readonly group?: BatchGroup | undefined;
}
