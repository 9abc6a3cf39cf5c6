import type { AnySignal, LayerContext, Backend, BudgetPlan, Tensor } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import type { Ledger } from '../ledger.ts';
import type { SamplingRule } from '../sampling.ts';
import type { ActivePolicy, EventResult, EventTimes } from './active-policy.ts';
import type { Snapshot } from './snapshot.ts';
import type { TokenText } from './text.ts';
import type { Observer } from './observer.ts';

/** Attention calls: all of them, and those that also computed statistics. */
export interface AttentionCounters {
  fused: number;
  statistics: number;
  /** Fused passes, and passes run layer by layer instead; absent where no pass can be fused. */
  whole?: number;
  layered?: number;
  /** Passes of one token that were batched with those of other sequences. */
  together?: number;
}

/** Options of feeding a block of tokens. */
export interface FeedOptions {
  /** Whether the tokens are of the prompt or generated. */
  readonly phase: 'prefill' | 'decode';
  /** The active policy. */
  readonly course: ActivePolicy;
  /** Number of last rows to compute logits for. */
  readonly rows: number;
  /**
   * Evicts layer by layer: every layer is back at its budget before the next one starts.
   * @defaultValue nothing is evicted
   */
  readonly evict?: {
    readonly plan: BudgetPlan;
    readonly times: EventTimes;
    /** Drops a layer's observations after its event. */
    readonly forget?: boolean;
  };
  /**
   * Whether an event follows immediately, so that what it reads need not outlast the next token.
   * @defaultValue false
   */
  readonly eventFollows?: boolean;
  /** Aborts the block within a layer, which makes the memory unusable. */
  readonly signal?: AbortSignal | undefined;
  /** Membership in a batch of memories of one group that are fed at the same time. @defaultValue none */
  readonly place?: BatchMembership | undefined;
}

/** One memory's membership in a batch, where products take the rows of several memories. */
export interface BatchMembership {
  /** Leaves the batch: the others no longer wait for this one. Idempotent. */
  leave(): void;
}

/** A group of memories whose blocks may be batched: each product takes the rows of all of them. */
export interface BatchGroup {
  /** Identity of the group: the same object for all its memories. */
  readonly key: object;
  /** Opens a batch with this number of members. */
  open(count: number): readonly BatchMembership[];
}

/** The result of a block: its logits, and what was kept if `evict` was given. */
export interface FeedResult {
  /** Logits of the last rows. */
  readonly output: Output;
  /** What the layer-wise event kept. */
  readonly event?: EventResult;
}

/** The id that a step in flight will give. */
export interface PendingId {
  /** Its buffer on the device, u32 `[1]`. */
  readonly tensor: Tensor;
  /** The id on the host, once it was read. */
  readonly id: Promise<number>;
}

/** Logits of the last rows fed, on the host or on a device. */
export interface Output {
  /** Newest last; absent while they are on a device. */
  readonly logits?: readonly Float32Array[];
  /** Returns the logits `[vocab]` of each row, read from the device if they are there. */
  read(): Promise<readonly Float32Array[]>;
  /** Returns the id that follows the newest row: the largest logit's (ties go to the lower id), or a drawn one. */
  next(draw?: SamplingRule): Promise<number>;
  /** Like `next`, but a step may start on the id before the host knows it. */
  ask?(draw?: SamplingRule): PendingId;
  /** Releases what the output holds. */
  release(): void;
}

/** Speculative steps: started before the host knows their tokens, and visible on the host once committed. */
export interface SpeculativeSteps {
  /**
   * Returns how many steps may be in flight. The host takes no part in them: no hook runs, nothing but the cache is
   * recorded, and the cache's storage has room.
   */
  room(policy: CompiledPolicy): number;
  /** Starts one more step, after `before` steps in flight, on the id that the last of them gives. */
  start(asked: PendingId, before: number): Output;
  /** Commits the oldest step, which was fed this token. */
  commit(token: number): void;
  /** Discards all steps in flight. */
  rollback(): void;
}

/** Shows an observer what events drop and views hide. */
export interface ObservationRequest {
  /** Sets the observer; undefined removes it. */
  show(observer: Observer | undefined): void;
  /** Returns the sum of a state over all layers, or undefined where no piece keeps it. */
  total(state: string): number | undefined;
}

/**
 * What one sequence holds, and how tokens pass and events run where its cache lives. Capabilities that only some
 * memories have are optional members.
 */
export interface Memory {
  /** The backend that pieces run on. */
  readonly backend: Backend;
  readonly ledger: Ledger;
  readonly counters: AttentionCounters;
  readonly text: TokenText;
  readonly promptLength: number;
  /**
   * Sequence length that rotary scaling goes by, fixed for the sequence's life: that of its first prompt, whatever is
   * appended or generated.
   */
  readonly rotaryLength: number;
  /** Number of tokens generated. */
  readonly decoded: number;
  /** Number of rotary positions available. */
  readonly window: number;
  /** The most slots that a head of any layer has held. */
  readonly mostSlots: number;
  /** Slots freed because a sliding window had made them unreachable, over layers and KV heads. */
  readonly unreachable: number;
  /** Tokens fed so far, evicted ones included. */
  readonly length: number;
  /** Slots of the longest head of any layer. */
  readonly longest: number;
  /**
   * Returns the slots that the newest token sees, `[layer][kvHead]`, once `more` have joined every layer: the
   * candidates to keep.
   */
  lengths(more?: number): number[][];
  /** Returns the positions in the cache, `[layer][kvHead]`, ascending. */
  kept(): number[][][];
  at(layer: number, course: ActivePolicy): LayerContext;
  /** Checks that the memory is usable. @throws KvError once it was destroyed, or a change failed halfway */
  expectWhole(): void;
  /** Sets how many of the tokens to come belong to the prompt. */
  prompted(more: number): void;
  /** Starts recording what these signals read. */
  watch(needs: readonly AnySignal[]): void;
  /** Stops recording, and frees what only events read. */
  unwatch(): void;
  /** Returns a reader of one layer's current signals. */
  reader(layer: number): (signal: AnySignal) => unknown;
  feed(ids: readonly number[], options: FeedOptions): Promise<FeedResult>;
  /** Runs the policy's step hooks, after a decoded token. */
  afterStep(course: ActivePolicy): Promise<void>;
  /**
   * Runs one event over these layers; `onPass` is called for every pass of a provider. Nothing changes until every
   * check has passed.
   */
  event(
    course: ActivePolicy,
    layers: readonly number[],
    plan: BudgetPlan,
    times: EventTimes,
    onPass: () => void,
  ): Promise<EventResult>;
  /** Returns all that the memory holds, as arrays on the host. */
  saved(): Promise<Snapshot>;
  /** Restores a snapshot into an empty memory. */
  restore(saved: Snapshot): void;
  /**
   * The fewest tokens that a copy may be cut to: nothing that they see was evicted, and nothing is recorded of single
   * queries. Infinity if no copy may be cut.
   */
  readonly cuttableFrom: number;
  /** Returns a copy. @param upTo copies only this many tokens, the first ones; at least `cuttableFrom` */
  fork(upTo?: number): Memory;
  /** Frees everything, at the latest when calls in progress have ended. Idempotent. */
  destroy(): void;
  /** Speculative steps; absent where the memory cannot start any. */
  readonly ahead?: SpeculativeSteps;
  readonly observing?: ObservationRequest;
  /** The batching group; present where a row's result does not depend on the other rows of a product, to the bit. */
  readonly group?: BatchGroup | undefined;
}
