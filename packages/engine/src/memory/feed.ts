import type { BudgetPlan, Tensor } from '@kv/core';
import type { SamplingRule } from '../sampling/sampler.ts';
import type { ActivePolicy, EventResult, EventTimes } from './active-policy.ts';

/** Attention calls: all of them, and those that also computed statistics. */
export interface AttentionCounters {
  fused: number;
  statistics: number;
  /** Fused passes, and passes run layer by layer instead; absent where no pass can be fused. */
  fusedPasses?: number;
  layeredPasses?: number;
  /** Passes of one token that were batched with those of other sequences. */
  batchedPasses?: number;
  /** Slots that heads of decoded tokens attended to where views acted. */
  shownSlots?: number;
  /** Numbers that choosing them read; absent once a view chose that does not say how many it reads. */
  viewReads?: number;
}

/** Adds what views showed, and the numbers that were read to choose it, if they are known. */
export function countViews(
  counters: AttentionCounters,
  { slots, numbers }: { readonly slots: number; readonly numbers: number | undefined },
): void {
  const unknown = numbers === undefined || (counters.shownSlots !== undefined && counters.viewReads === undefined);
  counters.shownSlots = (counters.shownSlots ?? 0) + slots;
  if (unknown) delete counters.viewReads;
  else counters.viewReads = (counters.viewReads ?? 0) + numbers;
}

/** Options of feeding a block of tokens. */
export interface FeedOptions {
  /** Whether the tokens are of the prompt or generated. */
  readonly phase: 'prefill' | 'decode';
  /** The active policy. */
  readonly active: ActivePolicy;
  /** Number of last rows to compute logits for. */
  readonly rows: number;
  /**
   * Evicts layer by layer: every layer is back at its budget before the next one starts.
   * @defaultValue nothing is evicted
   */
  readonly evict?: {
    readonly plan: BudgetPlan;
    readonly times: EventTimes;
    /** Frees a layer's observations after its event. */
    readonly freeObservations?: boolean;
  };
  /**
   * Whether an event follows immediately, so that what it reads need not outlast the next token.
   * @defaultValue false
   */
  readonly eventFollows?: boolean;
  /** Aborts the block within a layer, which makes the memory unusable. */
  readonly signal?: AbortSignal | undefined;
  /** Membership in a batch of memories of one group that are fed at the same time. @defaultValue none */
  readonly batch?: BatchMembership | undefined;
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

/** The next id, before the host knows it. */
export interface PendingId {
  /** Its buffer on the device, u32 `[1]`. */
  readonly tensor: Tensor;
  readonly id: Promise<number>;
}

/** Logits of the last rows fed, on the host or on a device. */
export interface Output {
  /** Newest last; absent while they are on a device. */
  readonly logits?: readonly Float32Array[];
  read(): Promise<readonly Float32Array[]>;
  /** Returns the id that follows the newest row: the largest logit's (ties go to the lower id), or a drawn one. */
  next(draw?: SamplingRule): Promise<number>;
  /** Like `next`, but a step may start on the id before the host knows it. */
  nextPending?(draw?: SamplingRule): PendingId;
  /** Releases what the output holds. */
  release(): void;
}
