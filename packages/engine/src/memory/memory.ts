import { tokenBytes, type CacheForm } from '../cache/form.ts';
import { expectIds } from '../expect-given.ts';
import { movesTogether } from '../cache/slot-sizes.ts';
import type { Ledger } from '../ledger.ts';
import { altersReading, type ActivePolicy, type EventResult } from './active-policy.ts';
import type { EventRequest, SequenceCaches } from './caches.ts';
import type { FeedOptions, FeedResult } from './feed.ts';
import { expectRoom, expectRoomUnmoved, makeRoom, tokensAfter } from './make-room.ts';
import type { TokenProgress } from './progress.ts';
import type { SlotCounts } from './slot-counts.ts';
import type { Snapshot } from './snapshot.ts';

/** How the keys and values of a sequence are stored, and their bytes. */
export interface CacheUsage {
  readonly form: CacheForm;
  /** Bytes that a token adds while nothing is evicted: a slot in every KV head of every layer that keeps slots. */
  readonly bytesPerToken: number;
  /** Bytes of the slots in use: keys, values and positions. */
  readonly liveBytes: number;
  /** The most of them at any time. */
  readonly peakBytes: number;
  /** Bytes of the states of layers that keep no slots, whatever the number of tokens; 0 where all layers keep slots. */
  readonly stateBytes: number;
  /** Bytes of what policies record: last queries, sums of attention, numbers of pieces, and what they folded. */
  readonly recordedBytes: number;
}

/**
 * What one sequence holds: its progress, and its caches wherever they live. Decides when tokens may pass and events may
 * run: a call that changes the caches is checked first, completes or makes the memory unusable, and delays `destroy`.
 */
export class Memory {
  readonly caches: SequenceCaches;

  constructor(caches: SequenceCaches) {
    this.caches = caches;
  }

  get progress(): TokenProgress {
    return this.caches.context.progress;
  }
  get slots(): SlotCounts {
    return this.caches.slots;
  }
  get ledger(): Ledger {
    return this.caches.context.ledger;
  }
  /** How keys and values are stored, and their bytes. */
  get cache(): CacheUsage {
    const { context, states } = this.caches,
      { form, ledger, model } = context,
      { live, peak } = ledger.entry('cache'),
      stateBytes = states?.bytes ?? 0;
    return {
      form,
      bytesPerToken: tokenBytes(form, model.config),
      liveBytes: live,
      peakBytes: peak,
      stateBytes,
      recordedBytes: ledger.live - live - stateBytes - ledger.entry('snapshots').live - ledger.entry('decoded').live,
    };
  }

  /**
   * Checks that the memory is usable.
   * @throws KvError once it was destroyed, a change failed halfway, or a piece changed the tokens
   */
  expectUsable(): void {
    this.caches.context.guard.expectUsable();
    this.progress.text.expectOwn();
  }

  /** Feeds a block of tokens. @throws KvError, before anything changes, for an invalid id, and if they do not fit */
  async feed(ids: readonly number[], options: FeedOptions): Promise<FeedResult> {
    const { caches, slots, progress } = this,
      { model, guard } = caches.context,
      { phase, active, signal, evict } = options,
      where = phase === 'decode' ? 'generation' : 'prompt',
      together = movesTogether(active.policy),
      { attends } = active;
    this.expectUsable();
    expectIds(ids, model.config.vocab);
    expectRoom(caches, ids.length, where);
    if (attends) expectRoomUnmoved(caches, ids.length, where, attends.label);
    signal?.throwIfAborted();
    await caches.prepare(active, ids.length);
    const { length } = progress;
    const block = guard.change('a block', async () => {
      if (phase === 'decode') slots.freeBeforeToken();
      makeRoom(caches, ids.length, where, together);
      if (phase === 'decode') progress.decoded++;
      if (altersReading(active.policy, phase)) progress.noteAltered(length);
      const fed = await caches.pass(
        ids,
        options,
        evict && { ...evict, run: (layers) => this.event({ active, layers, ...evict }) },
      );
      if (guard.destroyed) fed.output.release();
      guard.expectAlive();
      if (phase === 'prefill') caches.states?.keep(progress.length);
      return fed;
    });
    return block.catch((error: unknown) => {
      progress.cutShort(length);
      throw error;
    });
  }

  /** Whether this many more tokens fit the context under a policy, which may keep slots from being moved. */
  fits(more: number, active: ActivePolicy): boolean {
    const { slots, caches } = this;
    return slots.fits(more) && !(active.attends && tokensAfter(caches, more) > caches.context.window);
  }

  /** Runs the policy's step hooks, after a decoded token. */
  async afterStep(active: ActivePolicy): Promise<void> {
    this.expectUsable();
    const { caches } = this;
    if (active.policy.hooks('step').length > 0)
      await caches.context.guard.change('a step', () => caches.runStepHooks(active));
  }

  /** Runs one event. Nothing changes until every check has passed. */
  async event(request: EventRequest): Promise<EventResult> {
    this.expectUsable();
    const { caches, slots, progress } = this,
      { guard } = caches.context,
      { levels, hooks } = request.active.policy;
    return guard.using('an event', async () => {
      await guard.change('an event', async () => {
        for (const l of request.layers) slots.freeUnreachable(l); // budgets are of the slots that exist
        if (levels || hooks('compact').length > 0) progress.noteAltered(0);
      });
      return caches.runEvent(request);
    });
  }

  /** Returns all that the memory holds, as arrays on the host. */
  async snapshot(): Promise<Snapshot> {
    return { ...this.progress.snapshot(), ...(await this.caches.snapshot()) };
  }

  /** Restores a snapshot into an empty memory. */
  restore(snapshot: Snapshot): void {
    this.progress.restore(snapshot);
    this.caches.restore(snapshot);
  }

  /**
   * Returns the most tokens, at most `most` and a multiple of `part`, that a copy may be cut to; 0 for none. Slots cannot
   * be cut where earlier ones were evicted; states can be at snapshots only, and at their end.
   */
  cut(most: number, part = 1): number {
    const { slots, progress, caches } = this,
      { length } = progress,
      ends = caches.states?.bytes
        ? [...caches.states.snapshots, length]
        : [part * Math.floor(Math.min(most, length) / part)],
      end = ends.findLast((tokens) => tokens <= most && tokens % part === 0) ?? 0;
    return end >= slots.cuttableFrom ? end : 0;
  }

  /** Returns a copy. @param upTo copies only this many tokens, the first ones, as `cut` allows */
  fork(upTo?: number): Memory {
    return new Memory(this.caches.fork(upTo));
  }

  /** Frees everything, at the latest when calls in progress have ended. Idempotent. */
  destroy(): void {
    const { caches } = this;
    caches.context.guard.destroy(() => caches.free());
  }
}
