import { KvError } from '@kv/core';
import type { PositionSpan } from '@kv/core';
import { sumOf } from '@kv/core/shared';
import { snapshotsOfPrefix } from '@kv/engine';
import { Sequence } from '@kv/models';
import type { Model } from '@kv/models';
import { Refusal } from '../protocol/refusal.ts';
import { AnswerChoice } from './answer-choice.ts';
import { ConversationCaches } from './conversations.ts';
import type { Job, SchedulerObserver, SchedulerOptions, SequenceRequest } from './job.ts';
import { MemoryBudget } from './memory-budget.ts';
import {
  answerBytes,
  decodeSlots,
  protectingPolicy,
  requestBytes,
  scratchBytes,
  startsFromPrefix,
  storedSlots,
} from './memory-estimate.ts';
import { noMemory } from './refusals.ts';

/** Maximum operations of one policy step: about a second, during which the event loop is blocked. */
const MOST_OPERATIONS = 2 ** 33;

type Options = Pick<SchedulerOptions, 'memory' | 'part' | 'running' | 'conversations'>;

/** Returns the positions that a request protects of the conversation that it goes on from and of what follows. */
export function protectedOf({ ids, protect }: SequenceRequest, from?: Job['from']): readonly PositionSpan[] {
  if (!protect || !from) return protect?.(ids) ?? [];
  const { kept, length } = from.state;
  return (from.protects ??= protect([...kept.sequence.progress.text.ids.slice(0, length), ...from.ids]) ?? []);
}

/** The caches of all jobs: bytes of a sequence are reserved before it grows, and caches stay after their answers. */
export class CacheMemory {
  readonly pool: MemoryBudget;
  readonly conversations: ConversationCaches;
  /** Bytes that forward passes need in addition to all sequences. */
  readonly scratch: number;
  readonly #model: Model;
  readonly #options: Options;
  readonly #exceeded: SchedulerObserver['exceeded'];

  constructor(model: Model, options: Options, { exceeded, storeFailed }: SchedulerObserver) {
    [this.#model, this.#options, this.#exceeded] = [model, options, exceeded];
    this.scratch = scratchBytes(model.config, options.part, options.running);
    const limit = options.memory - this.scratch;
    if (limit <= 0)
      throw new KvError(
        'memory',
        `expected more than the ${this.scratch} bytes that passes work in, got ${options.memory}`,
      );
    this.pool = new MemoryBudget(limit);
    this.conversations = new ConversationCaches(model, options.conversations, storeFailed);
    this.pool.conversations = this.conversations;
  }

  /**
   * Bytes of the engine's work space now, which includes what its heap once grew to; an estimate where the engine does
   * not report it.
   */
  get workingBytes(): number {
    return this.#model.scratchBytes?.() ?? this.scratch;
  }

  /**
   * Returns the bytes that a request may need, after the conversation that it goes on from. @throws Refusal with 400 if
   * there never are that many
   */
  needOf(request: SequenceRequest, from?: Job['from']): number {
    const { kept, length = 0 } = from?.state ?? {},
      held = kept && {
        length,
        slots: Math.min(length, kept.sequence.memory.slots.longest),
        stored: storedSlots(kept.sequence),
      },
      spans = [...(kept?.sequence.active.policy.protectedSpans ?? []), ...protectedOf(request, from)],
      way = { ...request, sequencePolicy: protectingPolicy(request.sequencePolicy, spans) },
      need = Math.max(kept?.bytes ?? 0, requestBytes(way, this.#model, (from ?? request).ids.length, held));
    if (need <= this.pool.limit) return need;
    throw new Refusal(
      `the prompt and its answers may need ${need + this.scratch} bytes of cache, more than all of the ${this.#options.memory} that there are: ask for fewer tokens, or a smaller budget with a block`,
      { code: 'context_length_exceeded' },
    );
  }

  /**
   * Loads the conversation that was found for a job in the store, once there is room next to all reservations; returns
   * whether there was, or never will be.
   */
  async load(job: Job): Promise<boolean> {
    const { found, request } = job,
      { pool, conversations } = this,
      bytes = found?.file?.length ?? 0;
    if (!found || bytes > pool.limit) {
      delete job.found;
      return true;
    }
    if (bytes > pool.free) return false;
    conversations.shrink(pool.free - bytes);
    const { name, start } = found,
      state = await conversations.load(found, request, MOST_OPERATIONS);
    pool.note();
    if (state) job.found = { name, ...(start && { start }), state };
    else delete job.found;
    return true;
  }

  /** Reserves a job's need, and opens its sequence: over its conversation, over a cached prefix, or an empty one. */
  open(job: Job): Sequence {
    const { request, from, need } = job,
      { ids, sequencePolicy, scorePrompt } = request,
      { part } = this.#options,
      { pool, conversations } = this;
    if (from) {
      const { state } = from,
        { kept, length } = state,
        whole = length === kept.sequence.progress.length;
      job.inParts = Math.min(length, kept.inParts);
      conversations.touch(kept);
      if (whole) job.parent = kept;
      const moved = whole && pool.free - need < kept.bytes ? conversations.move(kept) : undefined;
      pool.take(need);
      if (moved) return moved;
      if (!kept.gone) return conversations.copy(state);
      delete job.from;
      delete job.parent; // there was no room for a copy of what goes on longer: the prompt is read again
    } else pool.take(need);
    const alone = scorePrompt === undefined && startsFromPrefix(sequencePolicy, part),
      prefix = alone ? conversations.prefix(ids, part) : undefined,
      block = sequencePolicy.block ?? sequencePolicy.policy?.hooks('cadence')[0]?.block;
    job.inParts = block === undefined ? ids.length : 0;
    return (
      prefix?.sequence ??
      new Sequence(this.#model, undefined, {
        mostOperations: MOST_OPERATIONS,
        ...(alone && { snapshots: snapshotsOfPrefix }),
      })
    );
  }

  /** Reserves what `held` exceeds `promised` by, and returns it. @throws Refusal with 503 where there is no room */
  reserve(held: number, promised: number): number {
    if (held <= promised) return 0;
    this.#exceeded?.(held, promised);
    if (!this.pool.take(held - promised)) throw noMemory();
    return held - promised;
  }

  /**
   * Forks a prefilled sequence into the answers of its job, each with a reservation instead of the job's. What events
   * read of the past is recorded on, for the turns that follow.
   * @throws Refusal with 503 where there is no room
   */
  fork(job: Job, sequence: Sequence): void {
    const { limits, n, offset, sequencePolicy: asked } = job.request,
      sequencePolicy = protectingPolicy(asked, sequence.active.policy.protectedSpans),
      { length } = sequence.progress;
    const slots = sequence.memory.slots.lengths().map((heads) => {
        const longest = Math.max(...heads);
        return longest + decodeSlots(sequencePolicy, longest, length, limits.maxNewTokens);
      }),
      answer = (stored?: readonly number[]): number =>
        answerBytes(this.#model, slots, length + limits.maxNewTokens, sequencePolicy, stored),
      others = Array<number>(n - 1).fill(answer()),
      // the first goes on in the prompt's storage, which its need holds, the others in copies that fit
      first = Math.min(job.need - sumOf(others), answer(storedSlots(sequence))),
      promises = [Math.max(sequence.memory.ledger.allocated, first), ...others],
      more = sumOf(promises) - job.need;
    if (more > 0 && !this.pool.take(more)) throw noMemory();
    if (more < 0) this.pool.give(-more);
    job.need = 0;
    delete job.sequence;
    for (const [i, promised] of promises.entries())
      job.choices.push(new AnswerChoice(i, i === 0 ? sequence : sequence.fork(), limits, promised, offset));
  }

  /** Frees the sequence and reservation of a job whose prompt is being read. */
  releasePrompt(job: Job): void {
    if (!job.sequence) return;
    job.sequence.destroy();
    this.pool.give(job.need);
    job.need = 0;
    delete job.sequence;
  }

  /**
   * Releases an answer's reservation; its cache stays as a conversation if `keep` and it fits. Returns what settles once
   * other servers can go on from it, if there are any.
   */
  releaseAnswer(choice: AnswerChoice, { request, inParts = 0, parent }: Job, keep: boolean): Promise<void> | undefined {
    const { sequence, promised } = choice,
      { pool, conversations } = this;
    choice.release();
    pool.give(promised);
    if (!keep || sequence.memory.ledger.allocated > pool.free) {
      sequence.destroy();
      return undefined;
    }
    const end = choice.end(request.turns?.tails ?? []),
      cache = { sequence, inParts, ...(end ?? { unread: [], tail: '' }) };
    const stored = conversations.keep(cache, request, end && choice.text, parent);
    conversations.shrink(pool.free);
    pool.note();
    return stored;
  }
}
