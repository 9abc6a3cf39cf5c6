import { KvError } from '@kv/core';
import { createPrefixStore, Sequence } from '@kv/models';
import { stepTogether } from '@kv/engine';
import type { Model, PrefixStore } from '@kv/models';
import { promptScores } from '../protocol/logprobs.ts';
import { cancelledRefusal, Refusal, refusalOf } from '../protocol/refusal.ts';
import { Channel } from './channel.ts';
import { AnswerChoice } from './choice.ts';
import type { TokenEvent } from './choice.ts';
import type { SequenceRequest, JobEvent, Job, SchedulerObserver, SchedulerOptions } from './job.ts';
import { beginsAnywhere, bytesFor, needOf, saidBytes, scratchBytes, slotsGained } from './need.ts';
import { MemoryBudget } from './pool.ts';
import { closing, noMemory, notRead, queueFull, saysTooMuch, tookTooLong } from './refusals.ts';
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
  #wake: (() => void) | undefined;
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
      const need = needOf(asked, this.#model.config);
      const said = saidBytes(asked, this.#options.ahead);
      if (need > this.pool.limit)
        throw new Refusal(
          `the prompt and its answers may need ${need + this.scratch} bytes of cache, more than all of the ${memory} that there are: ask for fewer tokens, or a smaller budget with a block`,
          { code: 'context_length_exceeded' },
        );
      if (said > this.pool.requestLimit) throw saysTooMuch(said, this.pool.requestLimit);
      if (asked.n > running) throw new Refusal(`'n' must be at most ${running} here, got ${asked.n}`, { param: 'n' });
      return { asked, index, events, ended: false, since: performance.now(), need, said, choices: [] };
    });
    const room = queue + (this.#waiting.length === 0 ? jobs.length : 0);
    if (this.#waiting.length + jobs.length > room) throw queueFull(this.#waiting.length, this.#retryAfter());
    events.onRead = () => this.#call();
    for (const signal of new Set(all.map((each) => each.signal)))
      signal.addEventListener(
        'abort',
        () => {
          for (const job of jobs) if (job.asked.signal === signal) this.requests.release(job);
          this.#call();
        },
        {
          once: true,
        },
      );
    this.#waiting.push(...jobs);
    this.#loop ??= this.#run().finally(() => {
      this.#loop = undefined;
    });
    this.#call();
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
      this.#call();
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
      this.#drop();
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

  #call(): void {
    this.#wake?.();
  }
  /** Sleeps until `#call`, or 250 ms, to check for slow readers. */
  #sleep(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, 250);
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = undefined;
        resolve();
      };
    });
  }

  /** Fails jobs that were cancelled, took too long, or outlived the grace period of `close`. */
  #drop(): void {
    const { requestMs } = this.#options,
      now = performance.now();
    for (const job of [...this.#waiting, ...this.#reading, ...this.#answering])
      if (this.#cut) this.#fail(job, closing());
      else if (job.events.ended || job.asked.signal.aborted) this.#fail(job, cancelledRefusal());
      else if (now - job.since > requestMs) this.#fail(job, tookTooLong(requestMs));
  }

  /** Starts queued jobs in order while they fit. */
  async #admit(): Promise<void> {
    for (let job = this.#waiting[0]; job; job = this.#waiting[0]) {
      const answers = this.#choices().length + this.#reading.reduce((sum, { asked }) => sum + asked.n, 0);
      if (answers + job.asked.n > this.#options.running) return;
      if (job.need > this.pool.free || !this.requests.keep(job)) return;
      this.pool.take(job.need);
      this.#waiting.shift();
      this.#observed.waited?.(performance.now() - job.since);
      this.#begin(job);
    }
  }

  #begin(job: Job): void {
    const { ids, policy, way, scorePrompt } = job.asked,
      { part } = this.#options,
      { block, budget } = way;
    const reuses = scorePrompt === undefined && beginsAnywhere(way, part);
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
    job.reading = sequence.prefilling(ids.slice(cached), {
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
    const { sequence, reading, usage, asked } = job,
      started = performance.now();
    if (!sequence || !reading || !usage) return;
    try {
      const before = sequence.length,
        evicted = sequence.counts.events > 0;
      const { done } = await reading.next();
      job.need += this.#within(sequence.ledger.peakAllocated, job.need);
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
      this.#forget(job);
      this.#fail(job, cause);
    }
  }

  /** Turns a prefilled sequence into its answers, by forking it. */
  #fork(job: Job, sequence: Sequence): void {
    const { asked } = job,
      { config } = this.#model,
      { way, answering, n } = asked;
    if (way.every === undefined && (sequence.policy.hooks('cadence')[0]?.every ?? 0) === 0) sequence.settle();
    const { length } = asked.ids,
      slots = sequence.memory.lengths().map((heads) => {
        const longest = Math.max(...heads);
        return longest + slotsGained(way, longest, length, answering.maxNewTokens);
      }),
      each = bytesFor(config, slots, asked.ids.length + answering.maxNewTokens, way);
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
      this.#say(job, choice, next.value);
      if (!next.value.finish) going.push({ job, choice });
    }
    const alive = going.filter(({ job }) => !job.ended);
    const failures = await stepTogether(
      alive.map(({ job, choice: { sequence, token } }) => ({
        sequence,
        token,
        every: job.asked.way.every ?? sequence.policy.hooks('cadence')[0]?.every,
      })),
    );
    for (const [i, failure] of failures.entries()) {
      const { job, choice } = alive[i];
      try {
        if (failure) throw failure;
        choice.promised += this.#within(choice.sequence.ledger.allocated, choice.promised);
      } catch (cause) {
        this.#fail(job, cause);
      }
    }
    if (alive.length > 0) this.#observed.step?.(alive.length, performance.now() - started);
  }

  #say(job: Job, choice: AnswerChoice, said: TokenEvent): void {
    const { usage } = job;
    if (!usage) return;
    usage.completionTokens += said.tokens;
    if (said.finish) this.#leave(job, choice, true);
    job.events.push({ job: job.index, what: 'said', ...said });
    if (job.choices.length > 0) return;
    this.#answering.splice(this.#answering.indexOf(job), 1);
    job.ended = true;
    this.#observed.ended?.(usage);
    job.events.push({ job: job.index, what: 'end', usage });
  }

  /** Ends a choice: counts its kept slots and releases its reservation. */
  #leave(job: Job, choice: AnswerChoice, keep: boolean): void {
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
      job.behind = undefined;
      return true;
    }
    job.behind ??= now;
    if (now - job.behind > readerMs) {
      this.#fail(job, notRead());
      job.asked.unread();
    }
    return false;
  }

  /** Reserves what `held` exceeds `promised` by, and returns it. @throws Refusal where there is no room */
  #within(held: number, promised: number): number {
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
      if (at >= 0 && list === this.#reading) this.#forget(job);
    }
    for (const choice of [...job.choices]) this.#leave(job, choice, false);
    job.events.end(refusal);
  }

  /** Frees the sequence and reservation of a job whose prompt is being read. */
  #forget(job: Job): void {
    if (!job.sequence) return;
    job.sequence.destroy();
    this.pool.give(job.need);
    job.need = 0;
    delete job.sequence;
  }
}
