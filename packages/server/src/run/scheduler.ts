import { KvError } from '@kv/core';
import { createPrefixStore, Sequence } from '@kv/models';
import { stepTogether } from '@kv/engine';
import type { Model, PrefixStore } from '@kv/models';
import { promptScores } from '../protocol/logprobs.ts';
import { cancelledRefusal, Refusal, refusalOf } from '../protocol/refusal.ts';
import { Channel } from './channel.ts';
import { AnswerChoice } from './answer-choice.ts';
import type { TokenEvent } from './answer-choice.ts';
import type { SequenceRequest, JobEvent, Job, SchedulerObserver, SchedulerOptions } from './job.ts';
import {
  startsFromPrefix,
  sequenceBytes,
  requestBytes,
  unreadEventBytes,
  scratchBytes,
  decodeSlots,
} from './memory-estimate.ts';
import { MemoryBudget } from './memory-budget.ts';
import { closing, noMemory, readerTooSlow, queueFull, answerTooLarge, timedOut } from './refusals.ts';
import { RequestMemory } from './request-memory.ts';

/** Maximum operations of one policy step: about a second, during which the event loop is blocked. */
const MOST_OPERATIONS = 2 ** 33;

/**
 * Runs jobs on one model: interleaves parts of prompts with decoding steps, batches the steps of all answers, and
 * reserves the memory of each job in advance.
 */
export class Scheduler {
  readonly pool: MemoryBudget;
  readonly prefixes: PrefixStore;
  readonly requests: RequestMemory;
  readonly scratch: number;
  readonly #model: Model;
  readonly #options: SchedulerOptions;
  readonly #observed: SchedulerObserver;
  readonly #waiting: Job[] = [];
  readonly #reading: Job[] = [];
  readonly #answering: Job[] = [];
  #loop: Promise<void> | undefined;
  #resume: (() => void) | undefined;
  #closing = false;
  #cut = false;

  constructor(model: Model, options: SchedulerOptions, observed: SchedulerObserver = {}) {
    [this.#model, this.#options, this.#observed] = [model, options, observed];
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
    this.requests = new RequestMemory(this.pool);
  }

  get counts(): { readonly waiting: number; readonly reading: number; readonly answering: number } {
    const { length: waiting } = this.#waiting,
      { length: reading } = this.#reading;
    return { waiting, reading, answering: this.#choices().length };
  }

  /**
   * Bytes of the engine's work space now, which includes what its heap once grew to; an estimate where the engine does
   * not report it.
   */
  get workingBytes(): number {
    return this.#model.scratchBytes?.() ?? this.scratch;
  }
  /** Bytes that sequences occupy now. */
  get sequenceBytes(): number {
    return [
      ...this.#reading.flatMap(({ sequence }) => sequence ?? []),
      ...this.#choices().map((c) => c.sequence),
    ].reduce((sum, { ledger }) => sum + ledger.allocated, 0);
  }

  /**
   * Queues all of these prompts, or none.
   * @returns their events, with an `end` for each
   * @throws Refusal with 429 where the queue is full, with 503 while closing, with 400 for a prompt that never fits
   */
  submit(all: readonly SequenceRequest[]): AsyncIterable<JobEvent> {
    if (this.#closing) throw closing();
    const { queue, memory, running } = this.#options;
    const events = new Channel<JobEvent>();
    const jobs = all.map((asked, index): Job => {
      const need = requestBytes(asked, this.#model.config);
      const unreadBytes = unreadEventBytes(asked, this.#options.ahead);
      if (need > this.pool.limit)
        throw new Refusal(
          `the prompt and its answers may need ${need + this.scratch} bytes of cache, more than all of the ${memory} that there are: ask for fewer tokens, or a smaller budget with a block`,
          { code: 'context_length_exceeded' },
        );
      if (unreadBytes > this.pool.requestLimit) throw answerTooLarge(unreadBytes, this.pool.requestLimit);
      if (asked.n > running) throw new Refusal(`'n' must be at most ${running} here, got ${asked.n}`, { param: 'n' });
      return { request: asked, index, events, ended: false, since: performance.now(), need, unreadBytes, choices: [] };
    });
    const room = queue + (this.#waiting.length === 0 ? jobs.length : 0);
    if (this.#waiting.length + jobs.length > room) throw queueFull(this.#waiting.length, this.#retryAfter());
    events.onRead = () => this.#wake();
    for (const signal of new Set(all.map((each) => each.signal)))
      signal.addEventListener(
        'abort',
        () => {
          for (const job of jobs) if (job.request.signal === signal) this.requests.release(job);
          this.#wake();
        },
        {
          once: true,
        },
      );
    this.#waiting.push(...jobs);
    this.#loop ??= this.#run().finally(() => {
      this.#loop = undefined;
    });
    this.#wake();
    return events;
  }

  /** @throws Refusal with 429 where the queue has no place for one more, with 503 while closing */
  expectRoom(): void {
    if (this.#closing) throw closing();
    if (this.#waiting.length > 0 && this.#waiting.length >= this.#options.queue)
      throw queueFull(this.#waiting.length, this.#retryAfter());
  }

  /** Refuses new jobs, waits `graceMs` milliseconds for running ones, aborts the rest, and frees everything. */
  async close(graceMs: number): Promise<void> {
    this.#closing = this.requests.closing = true;
    for (const job of [...this.#waiting]) this.#fail(job, closing());
    const cut = setTimeout(() => {
      this.#cut = true;
      this.#wake();
    }, graceMs);
    await this.#loop;
    clearTimeout(cut);
    this.prefixes.destroy();
  }

  #choices(): readonly AnswerChoice[] {
    return this.#answering.flatMap(({ choices }) => choices);
  }

  /** Estimates the seconds until a place is free: jobs waiting per answer being generated, from 1 to 60. */
  #retryAfter(): number {
    return Math.max(1, Math.min(60, Math.ceil(this.#waiting.length / Math.max(1, this.#choices().length))));
  }

  async #run(): Promise<void> {
    for (;;) {
      this.#expire();
      await this.#admit();
      const job = this.#reading.shift(),
        ready = this.#answering.filter((each) => this.#keepsUp(each));
      if (!job && ready.length === 0) {
        if (this.#waiting.length + this.#answering.length === 0) return;
        await this.#sleep();
        continue;
      }
      if (job) await this.#read(job);
      if (ready.length > 0) await this.#step(ready);
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
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
    for (const job of [...this.#waiting, ...this.#reading, ...this.#answering])
      if (this.#cut) this.#fail(job, closing());
      else if (job.events.ended || job.request.signal.aborted) this.#fail(job, cancelledRefusal());
      else if (now - job.since > requestMs) this.#fail(job, timedOut(requestMs));
  }

  /** Starts queued jobs in order while they fit. */
  async #admit(): Promise<void> {
    for (let job = this.#waiting[0]; job; job = this.#waiting[0]) {
      const answers = this.#choices().length + this.#reading.reduce((sum, { request: asked }) => sum + asked.n, 0);
      if (answers + job.request.n > this.#options.running) return;
      if (job.need > this.pool.free || !this.requests.keep(job)) return;
      this.pool.take(job.need);
      this.#waiting.shift();
      this.#observed.waited?.(performance.now() - job.since);
      this.#begin(job);
    }
  }

  #begin(job: Job): void {
    const { ids, policy, sequencePolicy, scorePrompt } = job.request,
      { part } = this.#options,
      { block, budget } = sequencePolicy;
    const reuses = scorePrompt === undefined && startsFromPrefix(sequencePolicy, part);
    const sequence = reuses
        ? this.prefixes.begin(ids, part)
        : new Sequence(this.#model, undefined, { mostOperations: MOST_OPERATIONS }),
      cached = sequence.length;
    job.sequence = sequence;
    job.usage = {
      promptTokens: ids.length,
      cachedTokens: cached,
      completionTokens: 0,
      keptSlots: 0,
      droppedSlots: 0,
      scoredEvicted: false,
      notes: new Set(),
    };
    job.reading = sequence.prefillParts(ids.slice(cached), {
      ...(policy && { policy }),
      budget,
      block,
      part,
      rows: scorePrompt === undefined ? 1 : ids.length,
    });
    this.#reading.push(job);
  }

  /** Prefills one part of a prompt. */
  async #read(job: Job): Promise<void> {
    const { sequence, reading, usage, request: asked } = job,
      started = performance.now();
    if (!sequence || !reading || !usage) return;
    try {
      const before = sequence.length,
        evicted = sequence.counts.events > 0;
      const { done } = await reading.next();
      job.need += this.#reserveMore(sequence.ledger.peakAllocated, job.need);
      if (!done && asked.scorePrompt !== undefined) {
        if (evicted) usage.scoredEvicted = true;
        const scored = promptScores(asked.ids, before, await sequence.readLogits(), asked.scorePrompt);
        job.events.push({ job: job.index, what: 'prompt', scored });
      }
      this.#observed.part?.(sequence.length - before, performance.now() - started);
      if (sequence.length < asked.ids.length) {
        this.#reading.push(job);
        return;
      }
      for await (const _ of reading); // runs it to its end
      this.#fork(job, sequence);
    } catch (cause) {
      this.#abandon(job);
      this.#fail(job, cause);
    }
  }

  /** Turns a prefilled sequence into its answers, by forking it. */
  #fork(job: Job, sequence: Sequence): void {
    const { request: asked } = job,
      { config } = this.#model,
      { sequencePolicy, answering, n } = asked;
    if (sequencePolicy.every === undefined && (sequence.policy.hooks('cadence')[0]?.every ?? 0) === 0)
      sequence.settle();
    const { length } = asked.ids,
      slots = sequence.memory.lengths().map((heads) => {
        const longest = Math.max(...heads);
        return longest + decodeSlots(sequencePolicy, longest, length, answering.maxNewTokens);
      }),
      each = sequenceBytes(config, slots, asked.ids.length + answering.maxNewTokens, sequencePolicy);
    const promised = Math.max(sequence.ledger.allocated, each),
      more = n * promised - job.need;
    if (more > 0 && !this.pool.take(more)) throw noMemory();
    if (more < 0) this.pool.give(-more);
    job.need = 0;
    delete job.sequence;
    this.#answering.push(job);
    for (let i = 0; i < n; i++)
      job.choices.push(new AnswerChoice(i, i === 0 ? sequence : sequence.fork(), answering, promised, asked.offset));
  }

  /** Draws the next token of every answer, then feeds them in one batched step. */
  async #step(jobs: readonly Job[]): Promise<void> {
    const started = performance.now(),
      going: { job: Job; choice: AnswerChoice }[] = [];
    const asked = jobs.flatMap((job) => job.choices.map((choice) => ({ job, choice, next: choice.next() })));
    const nexts = await Promise.allSettled(asked.map(({ next }) => next)); // together, so that a device is awaited once
    for (const [i, next] of nexts.entries()) {
      const { job, choice } = asked[i];
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
        every: job.request.sequencePolicy.every ?? sequence.policy.hooks('cadence')[0]?.every,
      })),
    );
    for (const [i, failure] of failures.entries()) {
      const { job, choice } = alive[i];
      try {
        if (failure) throw failure;
        choice.promised += this.#reserveMore(choice.sequence.ledger.allocated, choice.promised);
      } catch (cause) {
        this.#fail(job, cause);
      }
    }
    if (alive.length > 0) this.#observed.step?.(alive.length, performance.now() - started);
  }

  #emit(job: Job, choice: AnswerChoice, event: TokenEvent): void {
    const { usage } = job;
    if (!usage) return;
    usage.completionTokens += event.tokens;
    if (event.finish) this.#finish(job, choice, true);
    job.events.push({ job: job.index, what: 'token', ...event });
    if (job.choices.length > 0) return;
    this.#answering.splice(this.#answering.indexOf(job), 1);
    job.ended = true;
    this.#observed.ended?.(usage);
    job.events.push({ job: job.index, what: 'end', usage });
  }

  /** Ends a choice: counts its kept slots and releases its reservation. */
  #finish(job: Job, choice: AnswerChoice, keep: boolean): void {
    const { sequence } = choice,
      { usage } = job,
      kept = sequence.memory
        .lengths()
        .flat()
        .reduce((sum, n) => sum + n, 0),
      { layers, kvHeads } = this.#model.config;
    if (usage) {
      usage.keptSlots += kept;
      for (const note of sequence.notes) usage.notes.add(note);
      usage.droppedSlots += sequence.length * layers * kvHeads - kept;
    }
    job.choices = job.choices.filter((other) => other !== choice);
    this.pool.give(choice.promised);
    this.#store(sequence, keep);
  }

  /** Keeps a cache as a prefix for later prompts if there is room; otherwise frees it. */
  #store(sequence: Sequence, keep: boolean): void {
    const fits = sequence.ledger.allocated <= this.pool.free;
    if (keep && fits && !this.#closing) {
      this.prefixes.keep(sequence, this.#options.part);
      this.prefixes.shrink(this.pool.free);
      this.pool.note();
    } else sequence.destroy();
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

  /** Reserves what `held` exceeds `promised` by, and returns it. @throws Refusal where there is no room */
  #reserveMore(held: number, promised: number): number {
    if (held <= promised) return 0;
    this.#observed.exceeded?.(held, promised);
    if (!this.pool.take(held - promised)) throw noMemory();
    return held - promised;
  }

  /** Fails a job and releases what it held. */
  #fail(job: Job, cause: unknown): void {
    if (job.ended) return;
    job.ended = true;
    const refusal = refusalOf(cause);
    if (refusal.status === 500) this.#observed.failed?.(cause);
    for (const list of [this.#waiting, this.#reading, this.#answering]) {
      const at = list.indexOf(job);
      if (at >= 0) list.splice(at, 1);
      if (at >= 0 && list === this.#reading) this.#abandon(job);
    }
    for (const choice of [...job.choices]) this.#finish(job, choice, false);
    job.events.end(refusal);
  }

  /** Frees the sequence and reservation of a job whose prompt is being read. */
  #abandon(job: Job): void {
    if (!job.sequence) return;
    job.sequence.destroy();
    this.pool.give(job.need);
    job.need = 0;
    delete job.sequence;
  }
}
