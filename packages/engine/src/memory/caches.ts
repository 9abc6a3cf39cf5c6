import type { AnySignal, BudgetPlan } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import type { ActivePolicy, EventResult, EventTimes } from './active-policy.ts';
import type { CarriedStates } from './carried-states.ts';
import type { SequenceContext } from './context.ts';
import type { BatchGroup, FeedOptions, FeedResult, Output, PendingId } from './feed.ts';
import type { Observer } from './observer.ts';
import type { SlotCounts } from './slot-counts.ts';
import type { CacheSnapshot } from './snapshot.ts';

/** Eviction of each layer right after a block has passed it. */
export interface LayerEviction extends NonNullable<FeedOptions['evict']> {
  /** Runs the event of these layers. */
  run(layers: readonly number[]): Promise<EventResult>;
}

/** One event over some layers. */
export interface EventRequest {
  readonly active: ActivePolicy;
  readonly layers: readonly number[];
  readonly plan: BudgetPlan;
  /** Receives the time of each stage. */
  readonly times: EventTimes;
  /** Called for every pass of a provider. */
  onPass?(): void;
  /** Ends a provider's pass between two layers, before anything has changed. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * The caches of one sequence, in the place where they live: what differs between the host and a device. `Memory`
 * decides when each method may run and whether a failure leaves the sequence usable. It has 20 members, one for each
 * thing that depends on the place; the last five are optional capabilities. Layers are those that keep slots, counted
 * from 0, here and wherever policies see them.
 */
export interface SequenceCaches {
  readonly context: SequenceContext;
  /** The slots of all layers, counted on the host. */
  readonly slots: SlotCounts;
  /** Its layers: which states of pieces each has, and what is recorded for events. */
  readonly layers: readonly {
    readonly states: { has(id: string): boolean };
    readonly ring?: { readonly window: number } | undefined;
    readonly accumulated?: { readonly rows: number } | undefined;
    readonly block?: object | undefined;
    readonly freed: boolean;
  }[];
  /** Starts recording what these signals read; what is recorded already goes on. */
  observe(signals: readonly AnySignal[]): void;
  /** Stops recording, and frees what only events read. */
  stopObserving(): void;
  /**
   * Reads what recording needs before the next `more` tokens pass.
   * @throws KvError for a file that is missing or unfit, and for tokens that the storage cannot hold
   */
  prepare(active: ActivePolicy, more: number): Promise<void>;
  /** Returns a reader of one layer's current signals. */
  reader(layer: number): (signal: AnySignal) => unknown;
  /** Feeds tokens, which fit, through every layer; with `evict`, an event follows each layer. */
  pass(ids: readonly number[], options: Omit<FeedOptions, 'evict'>, evict?: LayerEviction): Promise<FeedResult>;
  /** Runs the policy's step hooks. */
  runStepHooks(active: ActivePolicy): Promise<void>;
  /** Runs an event; every change is made within `context.guard.change`. */
  runEvent(request: EventRequest): Promise<EventResult>;
  /** Rotates kept keys, and recorded queries, so that every head's slots end before rotation `next`. */
  move(next: number): void;
  /** Returns the contents of the caches and of what is recorded with them, as arrays on the host. */
  snapshot(): Promise<CacheSnapshot>;
  /** Restores such contents into empty caches. */
  restore(snapshot: CacheSnapshot): void;
  /** Returns a copy of the first `upTo` tokens, at which states have a snapshot. @defaultValue all */
  fork(upTo?: number): SequenceCaches;
  /** Frees everything; called once. */
  free(): void;
  /** The states of layers that keep no slots; absent where the caches know layers with slots alone. */
  readonly states?: CarriedStates | undefined;
  /** Speculative steps; absent where none can start before the host knows a token. */
  readonly speculation?: SpeculativeSteps;
  /**
   * Returns a reader of each layer's signals, those that the policy's providers compute included; absent where slots are not on
   * the host.
   */
  readers?(policy: CompiledPolicy): Promise<readonly ((signal: AnySignal) => unknown)[]>;
  /** Access for an observer of evictions; absent where what it reads is not on the host. */
  readonly observers?: ObserverAccess;
  /** The batching group; present where a row's result does not depend on the other rows of a product, to the bit. */
  readonly batchGroup?: BatchGroup | undefined;
}

/** Speculative steps: started before the host knows their tokens, and visible on the host once committed. */
export interface SpeculativeSteps {
  /**
   * Returns how many steps may be in flight. The host takes no part in them: no hook runs but views that read nothing,
   * nothing but the cache is recorded, and the cache's storage has room.
   */
  capacity(policy: CompiledPolicy): number;
  /** Starts one more step on this id, the one that follows the `inFlight` steps that have started before. */
  start(id: PendingId, inFlight: number, active: ActivePolicy): Output;
  /** Commits the oldest step, which was fed this token. */
  commit(token: number): void;
  /** Discards all steps in flight. */
  rollback(): void;
}

/** Shows an observer what events drop and views hide. */
export interface ObserverAccess {
  /** Sets the observer; undefined removes it. */
  show(observer: Observer | undefined): void;
  /** Returns the sum of a state over all layers, or undefined where no piece keeps it. */
  total(state: string): number | undefined;
}
