import { heldOf, slotRows, stepTogether } from '@kv/engine';
import type { Model, PrefillPartsOptions, Sequence } from '@kv/models';
import { promptScores } from '../protocol/logprobs.ts';
import { cancelledRefusal, Refusal, refusalOf } from '../protocol/refusal.ts';
import type { AnswerChoice, TokenEvent } from './answer-choice.ts';
import { CacheMemory, protectedOf } from './cache-memory.ts';
import { Channel } from './channel.ts';
import { JobQueues } from './job-queues.ts';
import type { Job, JobEvent, PromptUsage, SchedulerObserver, SchedulerOptions, SequenceRequest } from './job.ts';
import { samplerBytes, unreadEventBytes } from './memory-estimate.ts';
import { answerTooLarge, beyondContext, closing, queueFull, readerTooSlow, timedOut } from './refusals.ts';
import { RequestMemory } from './request-memory.ts';

/**
 * Runs jobs on one model, each through the queues waiting, reading and answering: parts of prompts alternate with
 * decoding steps, the steps of all answers are one batch, and the memory of each job is reserved in advance.
 */
export class Scheduler {
  readonly caches: CacheMemory;
  readonly requests: RequestMemory;
  readonly #model: Model;
  readonly #options: SchedulerOptions;
  readonly #observer: SchedulerObserver;
  readonly #jobs = new JobQueues();
  #loop: Promise<void> | undefined;
  #resume: (() => void) | undefined;
  #closing = false;
  #graceOver = false;

  constructor(model: Model, options: SchedulerOptions, observed: SchedulerObserver = {}) {
    [this.#model, this.#options, this.#observer] = [model, options, observed];
    this.caches = new CacheMemory(model, options, observed);
    this.requests = new RequestMemory(this.caches.pool);
    this.caches.conversations.onWritten = () => this.#start();
  }

  get counts(): JobQueues['counts'] {
    return this.#jobs.counts;
  }

  /** Bytes that sequences occupy now. */
  get sequenceBytes(): number {
    const { reading, choices } = this.#jobs;
    return [...reading.flatMap(({ sequence }) => sequence ?? []), ...choices.map(({ sequence }) => sequence)].reduce(
      (sum, { memory }) => sum + memory.ledger.allocated,
      0,
    );
  }

  /**
   * Queues all of these prompts, or none.
   * @returns their events, with an `end` for each
   * @throws Refusal with 429 where the queue is full, with 503 while closing, with 400 for a prompt that never fits
   */
  submit(all: readonly SequenceRequest[]): AsyncIterable<JobEvent> {
    if (this.#closing) throw closing();
    const { queue, running, ahead } = this.#options,
      { waiting, retryAfter } = this.#jobs,
      { requestLimit } = this.caches.pool,
      events = new Channel<JobEvent>();
    const jobs = all.map((request, index): Job => {
      const { conversations } = this.caches,
        later = conversations.maybeStored(request) || conversations.find(request) !== undefined,
        need = later ? 0 : this.caches.needOf(request),
        unreadBytes = unreadEventBytes(request, ahead) + samplerBytes(request);
      if (unreadBytes > requestLimit) throw answerTooLarge(unreadBytes, requestLimit);
      if (request.n > running)
        throw new Refusal(`'n' must be at most ${running} here, got ${request.n}`, { param: 'n' });
      return { request, index, events, ended: false, since: performance.now(), need, unreadBytes, choices: [] };
    });
    // a request with more prompts than the queue holds is taken where nothing waits
    const room = queue + (waiting.length === 0 ? jobs.length : 0);
    if (waiting.length + jobs.length > room) throw queueFull(waiting.length, retryAfter);
    events.onRead = () => this.#wake();
    for (const signal of new Set(all.map((each) => each.signal)))
      signal.addEventListener(
        'abort',
        () => {
          for (const job of jobs) if (job.request.signal === signal) this.requests.release(job);
          this.#wake();
        },
        { once: true },
      );
    waiting.push(...jobs);
    this.#start();
    return events;
  }

  /** @throws Refusal with 429 where the queue has no place for one more, with 503 while closing */
  expectRoom(): void {
    if (this.#closing) throw closing();
    const { waiting, retryAfter } = this.#jobs;
    if (waiting.length > 0 && waiting.length >= this.#options.queue) throw queueFull(waiting.length, retryAfter);
  }

  /** Refuses new jobs, waits `graceMs` milliseconds for running ones, aborts the rest, and frees everything. */
  async close(graceMs: number): Promise<void> {
    this.#closing = this.requests.closing = true;
    for (const job of [...this.#jobs.waiting]) this.#fail(job, closing());
    const cut = setTimeout(() => {
      this.#graceOver = true;
      this.#wake();
    }, graceMs);
    await this.#loop;
    clearTimeout(cut);
    await this.caches.conversations.write(true);
    this.caches.conversations.destroy();
  }

  async #run(): Promise<void> {
    const { waiting, reading, answering } = this.#jobs;
    for (;;) {
      this.#expire();
      await this.#admit();
      const job = reading.shift(),
        ready = answering.filter((each) => this.#keepsUp(each));
      if (!job && ready.length === 0) {
        await this.caches.conversations.write();
        if (waiting.length + answering.length === 0) return;
        await this.#sleep();
        continue;
      }
      if (job) await this.#prefillPart(job);
      if (ready.length > 0) await this.#step(ready);
      await this.caches.conversations.write();
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }

  #start(): void {
    this.#loop ??= this.#run().finally(() => {
      this.#loop = undefined;
    });
    this.#wake();
  }
  #wake(): void {
    this.#resume?.();
  }
  /** Sleeps until `#wake`, or 250 ms, to check for slow readers. */
  #sleep(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, 250);
      this.#resume = () => {
        clearTimeout(timer);
        this.#resume = undefined;
        resolve();
      };
    });
  }

  /** Fails jobs that were cancelled, took too long, or outlived the grace period of `close`. */
  #expire(): void {
    const { requestMs } = this.#options,
      now = performance.now();
    for (const job of this.#jobs.all)
      if (this.#graceOver) this.#fail(job, closing());
      else if (job.events.ended || job.request.signal.aborted) this.#fail(job, cancelledRefusal());
      else if (now - job.since > requestMs) this.#fail(job, timedOut(requestMs));
  }

  /** Starts waiting jobs in order while they fit. */
  async #admit(): Promise<void> {
    const { waiting } = this.#jobs,
      { pool } = this.caches;
    for (let job = waiting[0]; job; job = waiting[0]) {
      if (this.#jobs.running + job.request.n > this.#options.running) return;
      try {
        if (!(await this.#looked(job))) return;
        this.#expectReadable(job);
        job.need = this.caches.needOf(job.request, job.from);
      } catch (cause) {
        this.#fail(job, cause);
        continue;
      }
      if (job.need > pool.free || !this.requests.keep(job)) return;
      waiting.shift();
      this.#observer.waited?.(performance.now() - job.since);
      this.#begin(job);
    }
  }

  /** @throws Refusal for a prompt beyond the context that is read from its start, and not block by block */
  #expectReadable({ from, request }: Job): void {
    const { ids, sequencePolicy } = request,
      { maxPositions } = this.#model.config;
    if (from || ids.length <= maxPositions) return;
    if ((sequencePolicy.block ?? sequencePolicy.policy?.hooks('cadence')[0]?.block) !== undefined) return;
    throw beyondContext(ids.length, maxPositions, this.caches.conversations.whyLeft(request));
  }

  /** Looks for the conversation that a job goes on from, and for the tokens that follow it. Returns whether it has. */
  async #looked(job: Job): Promise<boolean> {
    const { request, found, from } = job,
      { conversations } = this.caches;
    if (from?.state.kept.gone) {
      // dropped while the job waited: looked for again
      delete job.from;
      delete job.found;
      delete job.looking;
    } else if (job.from) return true;
    if (job.looking === 'now' || request.scorePrompt !== undefined) return job.looking !== 'now';
    if (found?.file) {
      if (!(await this.caches.load(job))) return false;
      if (!job.found) return true;
    } else if (job.looking === 'done') return true;
    const { turns, ids } = request;
    if (!turns || turns.starts.length === 0) {
      const { state } = conversations.find(request) ?? {};
      if (state) job.from = { state, ids: ids.slice(state.length) };
      job.looking = 'done';
      return true;
    }
    job.looking = 'now';
    void this.#look(job)
      .catch((cause: unknown) => this.#fail(job, cause))
      .finally(() => {
        job.looking = 'done';
        this.#wake();
      });
    return false;
  }

  /** Looks for a job's conversation, and reads the text that follows it once the conversation is in memory. */
  async #look(job: Job): Promise<void> {
    const found = job.found ?? (await this.caches.conversations.look(job.request));
    job.found = found;
    if (!found) this.caches.conversations.counts.reread++;
    const { state, start } = found ?? {};
    if (!state || !start) return;
    const rest = await start.rest(state.tail);
    if (!rest || rest.length === 0) return;
    const ids = [...state.unread, ...rest];
    if (this.#fits(job.request, state.length + ids.length)) job.from = { state, ids };
  }

  /**
   * Whether a prompt of this length leaves room for the answer. A conversation that is read again may be shorter than its
   * cache: templates leave out the reasoning of earlier answers.
   */
  #fits({ sequencePolicy, limits }: SequenceRequest, tokens: number): boolean {
    const { maxPositions } = this.#model.config;
    return sequencePolicy.policy?.evicts === true || tokens + limits.maxNewTokens <= maxPositions;
  }

  #begin(job: Job): void {
    const { request } = job,
      { policy, sequencePolicy, scorePrompt } = request,
      { block, budget } = sequencePolicy,
      sequence = this.caches.open(job),
      { from } = job,
      reused = sequence.progress.length,
      ids = from?.ids ?? request.ids.slice(reused);
    job.sequence = sequence;
    try {
      sequence.protect(protectedOf(request, from));
    } catch (cause) {
      this.#fail(job, cause); // more than the budget holds, with what was protected before
      return;
    }
    job.length = reused + ids.length;
    const usage: PromptUsage = { promptTokens: job.length, tokensReused: reused, tokensRead: ids.length };
    job.events.push({ job: job.index, what: 'begin', usage });
    job.usage = {
      ...usage,
      tokensDropped: 0,
      completionTokens: 0,
      keptSlots: 0,
      droppedSlots: 0,
      cache: { ...sequence.memory.cache, liveBytes: 0 },
      scoredEvicted: false,
      notes: new Set(job.request.notes),
    };
    const options = {
      ...(policy && { policy }),
      budget: budget ?? (sequencePolicy.policy?.choosesBudget && from ? job.length : undefined),
      block,
      part: this.#options.part,
      rows: scorePrompt === undefined ? 1 : ids.length,
    };
    job.reading = from ? readOn(sequence, ids, options) : sequence.prefillParts(ids, options);
    this.#jobs.reading.push(job);
  }

  /** Prefills one part of a prompt. */
  async #prefillPart(job: Job): Promise<void> {
    const { sequence, reading, usage, request } = job,
      started = performance.now();
    if (!sequence || !reading || !usage) return;
    try {
      const before = sequence.progress.length,
        evicted = sequence.stats.counts.events > 0;
      const { done } = await reading.next();
      job.need += this.caches.reserve(sequence.memory.ledger.peakAllocated, job.need);
      if (!done && request.scorePrompt !== undefined) {
        if (evicted) usage.scoredEvicted = true;
        const scored = promptScores(request.ids, before, await sequence.logits(), request.scorePrompt);
        job.events.push({ job: job.index, what: 'prompt', scored });
      }
      this.#observer.part?.(sequence.progress.length - before, performance.now() - started);
      if (sequence.progress.length < (job.length ?? 0)) {
        this.#jobs.reading.push(job);
        return;
      }
      for await (const _ of reading); // runs it to its end
      this.caches.fork(job, sequence);
      this.#jobs.answering.push(job);
    } catch (cause) {
      this.#fail(job, cause);
    }
  }

  /** Draws the next token of every answer, then feeds them in one batched step. */
  async #step(jobs: readonly Job[]): Promise<void> {
    const started = performance.now(),
      going: { job: Job; choice: AnswerChoice }[] = [];
    const drawn = jobs.flatMap((job) => job.choices.map((choice) => ({ job, choice, next: choice.next() })));
    const nexts = await Promise.allSettled(drawn.map(({ next }) => next)); // together, so that a device is awaited once
    for (const [i, next] of nexts.entries()) {
      const { job, choice } = drawn[i];
      if (job.ended) continue;
      if (next.status === 'rejected') {
        this.#fail(job, next.reason);
        continue;
      }
      this.#emit(job, choice, next.value);
      if (!next.value.finish) going.push({ job, choice });
    }
    const alive = going.filter(({ job }) => !job.ended);
    const failures = await stepTogether(
      alive.map(({ job, choice: { sequence, token } }) => ({
        sequence,
        token,
        every: job.request.sequencePolicy.every ?? sequence.active.policy.hooks('cadence')[0]?.every,
      })),
    );
    for (const [i, failure] of failures.entries()) {
      const { job, choice } = alive[i];
      try {
        if (failure) throw failure;
        choice.promised += this.caches.reserve(choice.sequence.memory.ledger.allocated, choice.promised);
      } catch (cause) {
        this.#fail(job, cause);
      }
    }
    if (alive.length > 0) this.#observer.step?.(alive.length, performance.now() - started);
  }

  #emit(job: Job, choice: AnswerChoice, event: TokenEvent): void {
    const { usage } = job;
    if (!usage) return;
    usage.completionTokens += event.tokens;
    if (event.finish) this.#finish(job, choice, true);
    job.events.push({ job: job.index, what: 'token', ...event });
    if (job.choices.length > 0) return;
    this.#jobs.remove(job);
    job.ended = true;
    this.#observer.ended?.(usage);
    const end = (): void => job.events.push({ job: job.index, what: 'end', usage });
    if (job.stored) void job.stored.then(end);
    else end();
  }

  /** Ends a choice: counts its kept slots and releases its reservation. */
  #finish(job: Job, choice: AnswerChoice, keep: boolean): void {
    const { sequence } = choice,
      { usage } = job,
      { slots, tokens } = heldOf(sequence);
    if (usage) {
      usage.keptSlots += slots.kept;
      const { liveBytes, peakBytes, recordedBytes } = sequence.memory.cache,
        { cache } = usage;
      usage.cache = {
        ...cache,
        liveBytes: cache.liveBytes + liveBytes,
        peakBytes: Math.max(cache.peakBytes, peakBytes),
        recordedBytes: cache.recordedBytes + recordedBytes,
      };
      for (const note of sequence.stats.notes) usage.notes.add(note);
      const grown = grownNote(sequence, slots.kept);
      if (grown !== undefined) usage.notes.add(grown);
      usage.droppedSlots += slots.dropped;
      usage.tokensDropped += tokens.dropped;
    }
    job.choices = job.choices.filter((other) => other !== choice);
    const stored = this.caches.releaseAnswer(choice, job, keep);
    if (stored) job.stored = Promise.all([job.stored, stored]);
  }

  /** Whether its reader keeps up; drops one that lags longer than `readerMs`. */
  #keepsUp(job: Job): boolean {
    const { ahead, readerMs } = this.#options,
      now = performance.now();
    if (job.events.waiting <= ahead) {
      job.laggingSince = undefined;
      return true;
    }
    job.laggingSince ??= now;
    if (now - job.laggingSince > readerMs) {
      this.#fail(job, readerTooSlow());
      job.request.unread();
    }
    return false;
  }

  /** Fails a job and releases what it held. */
  #fail(job: Job, cause: unknown): void {
    if (job.ended) return;
    job.ended = true;
    const refusal = refusalOf(cause);
    if (refusal.status === 500) this.#observer.failed?.(cause);
    this.#jobs.remove(job);
    this.caches.releasePrompt(job);
    for (const choice of [...job.choices]) this.#finish(job, choice, false);
    job.events.end(refusal);
  }
}

/** Returns a note on an answer that has made its cache larger than its budget, where no event ran during the answer. */
function grownNote({ active, memory, model }: Sequence, kept: number): string | undefined {
  const { policy, budget } = active,
    allowed = (budget?.slots ?? Infinity) * slotRows(model.config);
  // a share is of the prompt
  if (!policy.evicts || policy.choosesBudget || budget?.share !== undefined) return undefined;
  if (kept <= allowed || (policy.hooks('cadence')[0]?.every ?? 0) > 0) return undefined;
  return `keeps up to ${memory.slots.longest} slots a head after the answer: its budget counts at the end of each prompt, and while answers are generated with 'every' alone`;
}

/**
 * Goes on with a conversation: evicts what its last answer has added to the budget, then reads what follows, as `Chat`
 * does.
 */
async function* readOn(
  sequence: Sequence,
  ids: readonly number[],
  options: PrefillPartsOptions,
): AsyncGenerator<number, void> {
  const { policy, budget } = options;
  if (policy !== undefined && budget !== undefined) await sequence.evict(policy, budget);
  yield* sequence.prefillParts(ids, options);
}
