import { KvError } from '@kv/core';
import { createPrefixStore, freeObservations, Sequence } from '@kv/models';
import type { Model, PrefixStore } from '@kv/models';
import { Refusal } from '../protocol/refusal.ts';
import { AnswerChoice } from './answer-choice.ts';
import type { Job, SchedulerObserver, SchedulerOptions, SequenceRequest } from './job.ts';
import { MemoryBudget } from './memory-budget.ts';
import { decodeSlots, requestBytes, scratchBytes, sequenceBytes, startsFromPrefix } from './memory-estimate.ts';
import { noMemory } from './refusals.ts';

/** Maximum operations of one policy step: about a second, during which the event loop is blocked. */
const MOST_OPERATIONS = 2 ** 33;

/** The caches of all jobs: bytes of a sequence are reserved before it grows, and finished caches stay as prefixes. */
export class CacheMemory {
  readonly pool: MemoryBudget;
  readonly prefixes: PrefixStore;
  /** Bytes that forward passes need in addition to all sequences. */
  readonly scratch: number;
  readonly #model: Model;
  readonly #options: Pick<SchedulerOptions, 'memory' | 'part' | 'running'>;
  readonly #exceeded: SchedulerObserver['exceeded'];

  constructor(
    model: Model,
    options: Pick<SchedulerOptions, 'memory' | 'part' | 'running'>,
    exceeded: SchedulerObserver['exceeded'],
  ) {
    [this.#model, this.#options, this.#exceeded] = [model, options, exceeded];
    this.scratch = scratchBytes(model.config, options.part, options.running);
    const limit = options.memory - this.scratch;
    if (limit <= 0)
      throw new KvError(
        'memory',
        `expected more than the ${this.scratch} bytes that passes work in, got ${options.memory}`,
      );
    this.pool = new MemoryBudget(limit);
    this.prefixes = createPrefixStore(model, { maxBytes: this.pool.limit, mostOperations: MOST_OPERATIONS });
    this.pool.prefixes = this.prefixes;
  }

  /**
   * Bytes of the engine's work space now, which includes what its heap once grew to; an estimate where the engine does
   * not report it.
   */
  get workingBytes(): number {
    return this.#model.scratchBytes?.() ?? this.scratch;
  }

  /** Returns the bytes that a request may need. @throws Refusal with 400 if there never are that many */
  needOf(request: SequenceRequest): number {
    const need = requestBytes(request, this.#model);
    if (need <= this.pool.limit) return need;
    throw new Refusal(
      `the prompt and its answers may need ${need + this.scratch} bytes of cache, more than all of the ${this.#options.memory} that there are: ask for fewer tokens, or a smaller budget with a block`,
      { code: 'context_length_exceeded' },
    );
  }

  /** Returns a sequence for a prompt: over a cached prefix of it if its policy allows that, else an empty one. */
  open({ ids, sequencePolicy, scorePrompt }: SequenceRequest): Sequence {
    const { part } = this.#options;
    return scorePrompt === undefined && startsFromPrefix(sequencePolicy, part)
      ? this.prefixes.begin(ids, part)
      : new Sequence(this.#model, undefined, { mostOperations: MOST_OPERATIONS });
  }

  /** Reserves what `held` exceeds `promised` by, and returns it. @throws Refusal with 503 where there is no room */
  reserve(held: number, promised: number): number {
    if (held <= promised) return 0;
    this.#exceeded?.(held, promised);
    if (!this.pool.take(held - promised)) throw noMemory();
    return held - promised;
  }

  /**
   * Forks a prefilled sequence into the answers of its job, each with a reservation instead of the job's.
   * @throws Refusal with 503 where there is no room
   */
  fork(job: Job, sequence: Sequence): void {
    const { ids, sequencePolicy, limits, n, offset } = job.request;
    if (sequencePolicy.every === undefined && (sequence.active.policy.hooks('cadence')[0]?.every ?? 0) === 0)
      freeObservations(sequence);
    const slots = sequence.memory.slots.lengths().map((heads) => {
        const longest = Math.max(...heads);
        return longest + decodeSlots(sequencePolicy, longest, ids.length, limits.maxNewTokens);
      }),
      each = sequenceBytes(this.#model, slots, ids.length + limits.maxNewTokens, sequencePolicy),
      promised = Math.max(sequence.memory.ledger.allocated, each),
      more = n * promised - job.need;
    if (more > 0 && !this.pool.take(more)) throw noMemory();
    if (more < 0) this.pool.give(-more);
    job.need = 0;
    delete job.sequence;
    for (let i = 0; i < n; i++)
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

  /** Releases an answer's reservation; its cache becomes a prefix for later prompts if `keep` and it fits. */
  releaseAnswer(choice: AnswerChoice, keep: boolean): void {
    const { sequence, promised } = choice;
    choice.release();
    this.pool.give(promised);
    if (!keep || sequence.memory.ledger.allocated > this.pool.free) {
      sequence.destroy();
      return;
    }
    this.prefixes.keep(sequence, this.#options.part);
    this.prefixes.shrink(this.pool.free);
    this.pool.note();
  }
}
