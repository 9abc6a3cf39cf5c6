import { KvError } from '@kv/core';
import { allowanceOf, compile, settleOwn } from '@kv/core/engine';
import type { Backend, Budget, OptionValues, Policy } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import type { Ledger } from '../ledger.ts';
import { greedy } from '../sampling.ts';
import type { SamplingRule } from '../sampling.ts';
import { policyOf } from '../policy-text.ts';
import { expectIds } from '../decoder/decoder.ts';
import { courseOf, evicts, atLength } from '../memory/active-policy.ts';
import type { ActivePolicy, EventTimes } from '../memory/active-policy.ts';
import type { BatchMembership, Memory } from '../memory/memory.ts';
import { expectRoom } from '../memory/make-room.ts';
import type { Model } from '../memory/runtime.ts';
import type { Snapshot } from '../memory/snapshot.ts';
import type { TokenText } from '../memory/text.ts';
import type { Observer } from '../memory/observer.ts';
import { APPEND, SEQUENCE } from '../options.ts';
import type { PrefillPartsOptions, PrefillOptions } from '../options.ts';
import { Outputs } from './outputs.ts';
import { PolicySchedule } from './policy-schedule.ts';
import { feed, prefill, type FeedOutcome } from './prefill.ts';
import { scoresOf } from './scores.ts';
import { Speculation } from './speculation.ts';

/** Options of a sequence. */
export interface SequenceOptions extends OptionValues<typeof SEQUENCE> {}
/** Bytes of everything that a sequence holds: caches, rings, statistics, states. */
export interface Bytes {
  readonly allocated: number;
  readonly live: number;
  readonly peak: number;
  readonly meanPrefill: number;
  readonly meanDecode: number;
}

/**
 * One sequence over a model's shared weights: its caches and what its policy records. After an error in the middle of a
 * block, and after `destroy()`, every method but `bytes()` and `destroy()` throws.
 */
export class Sequence {
  readonly counts = { events: 0, blocks: 0, steps: 0, rolledBack: 0, providerPasses: 0 };
  readonly times: EventTimes & { prefill: number; decode: number } = {
    prefill: 0,
    decode: 0,
    score: 0,
    settle: 0,
    compact: 0,
  };
  readonly model: Model;
  /** Its memory, for code that saves and restores it. */
  readonly memory: Memory;
  #outputs = new Outputs();
  readonly #schedule: PolicySchedule;
  readonly #speculation: Speculation;
  #observer: Observer | undefined;

  /**
   * @param backend runs the policy when the cache is on the host. @defaultValue where the model's runtime keeps caches
   */
  constructor(model: Model, backend?: Backend, options: SequenceOptions = {}) {
    const { window, mostOperations, memory } = settleOwn('sequence', SEQUENCE, options);
    this.model = model;
    this.memory = memory ?? model.memory({ backend, window, mostOperations });
    this.#schedule = new PolicySchedule(this.memory, this.counts, this.times);
    this.#speculation = new Speculation(this.memory, this.counts);
  }

  /** Observer of evictions and hidden slots. Set before the prompt. @throws KvError where the cache is on a device */
  get observer(): Observer | undefined {
    return this.#observer;
  }
  set observer(observer: Observer | undefined) {
    const { observing, backend } = this.memory;
    if (observer && !observing)
      throw new KvError('certify', `expected a cache on the host, got one on ${backend.name}`);
    observing?.show(observer);
    this.#observer = observer;
  }
  /** Logits of the last rows fed, newest last. If the sequence is on a device, available after `readLogits`. */
  get logits(): readonly Float32Array[] {
    return this.#outputs.logits;
  }
  /** Notes for the report, without duplicates. */
  get notes(): string[] {
    return this.#schedule.notes;
  }
  /** The active policy and budget. */
  get course(): ActivePolicy {
    return this.#schedule.course;
  }
  /** The compiled policy of its events, views and step hooks. */
  get policy(): CompiledPolicy {
    return this.course.policy;
  }
  get ledger(): Ledger {
    return this.memory.ledger;
  }
  get tokens(): TokenText {
    return this.memory.text;
  }
  /** Tokens fed so far, evicted ones included. */
  get length(): number {
    return this.memory.length;
  }
  get promptLength(): number {
    return this.memory.promptLength;
  }
  /** Slots per KV head asked for; absent where nothing evicts. */
  get budget(): number | undefined {
    return this.course.budget?.slots;
  }

  /** Returns whether `more` tokens fit in the model's context after the kept slots. */
  fits(more: number): boolean {
    return this.memory.longest + more <= this.memory.window;
  }

  /**
   * Feeds a prompt. With a policy and a budget the cache ends within its budget, after every block if `block` is given.
   *
   * @throws KvError, before the failing event changes anything, if the prompt is empty or too long, an id is out of
   * range, or a policy's forced slots exceed its budget; the abort's reason, between two blocks or, within a layer, in
   * the middle of one
   */
  async prefill(ids: readonly number[], options: PrefillOptions = {}): Promise<void> {
    for await (const _ of prefill(this.#fed, ids, options, true));
  }

  /**
   * Like `prefill`, part by part: yields how many of the tokens were fed, with the logits of the part's rows that are
   * among the last `rows` in `logits`. If you stop iterating, the sequence holds the tokens fed so far.
   */
  prefillParts(ids: readonly number[], options: PrefillPartsOptions = {}): AsyncGenerator<number, void> {
    return prefill(this.#fed, ids, options, false);
  }

  /** Feeds more tokens over the current cache, without an event: for example a question about a compacted document. */
  async append(ids: readonly number[], options: OptionValues<typeof APPEND> = {}): Promise<void> {
    const { rows } = settleOwn('append', APPEND, options);
    const started = performance.now();
    this.memory.expectWhole();
    expectIds(ids, this.model.config.vocab);
    expectRoom(this.memory, ids.length, 'prompt');
    this.#speculation.rollback();
    this.memory.prompted(ids.length);
    this.#outputs.replace(await feed(this.#fed, ids, rows));
    this.ledger.sample('prefill', ids.length);
    this.times.prefill += performance.now() - started;
  }

  /**
   * Runs one event over all layers now.
   *
   * @throws KvError if the policy reads what was not recorded, or its forced slots exceed the budget
   */
  async evict(policy: Policy | string, budget: Budget): Promise<void> {
    const compiled = compile(await policyOf(policy));
    this.memory.expectWhole();
    this.#speculation.rollback();
    this.#schedule.course = courseOf(compiled, allowanceOf(compiled, budget, this.length), this.course);
    if (this.policy.evicts) await this.#schedule.event();
  }

  /**
   * Generates tokens under this policy from now on: its views, step hooks and events. A budget that is a share is of
   * all tokens so far, measured again at every event.
   *
   * @throws KvError for a policy that evicts without a budget, or that does not go on moving kept slots together
   */
  decodeUnder(policy: Policy, budget?: Budget): void {
    this.memory.expectWhole();
    const course = this.#schedule.decoding(policy, budget);
    this.#speculation.rollback();
    this.#schedule.course = course;
  }

  /**
   * Feeds one generated token, runs the policy's step hooks and, every `every` tokens, an event.
   * @param place membership in a batch of sequences fed at the same time, see `stepTogether`
   */
  async step(token: number, every?: number, place?: BatchMembership): Promise<void> {
    const memory = this.memory,
      started = performance.now();
    memory.expectWhole();
    expectIds([token], this.model.config.vocab);
    expectRoom(memory, 1, 'generation');
    this.counts.steps++;
    const eventFollows = every !== undefined && evicts(this.course) && (memory.decoded + 1) % every === 0;
    if (eventFollows) this.#schedule.course = atLength(this.course, this.length + 1);
    const committed = eventFollows ? undefined : this.#speculation.commit(token);
    if (!committed) this.#speculation.rollback();
    this.#outputs.replace(
      committed ??
        (await memory.feed([token], { phase: 'decode', course: this.course, rows: 1, eventFollows, place })).output,
    );
    if (!committed) await memory.afterStep(this.course);
    if (eventFollows) await this.#schedule.event();
    memory.ledger.sample('decode');
    this.times.decode += performance.now() - started;
  }

  /** Stops recording what only events read. Call it when no more evictions will follow. */
  settle(): void {
    this.memory.expectWhole();
    if (this.#schedule.settles(this.observer !== undefined)) this.memory.unwatch();
  }

  /**
   * Returns a copy of the first `length` tokens. Feed it before reading its logits. @throws KvError for a length below
   * `memory.cuttableFrom`
   */
  forkAt(length: number): Sequence {
    this.memory.expectWhole();
    const from = Math.max(1, this.memory.cuttableFrom);
    if (!(Number.isInteger(length) && length >= from && length <= this.length))
      throw new KvError(
        'forkAt',
        from > this.length
          ? `expected a sequence that has evicted and remembers nothing, got one that has or does`
          : `expected a length from ${from} to ${this.length}, got ${length}`,
      );
    const copy = new Sequence(this.model, undefined, { memory: this.memory.fork(length) });
    copy.#schedule.course = courseOf(copy.policy, this.course.budget);
    return copy;
  }

  /** Returns an independent copy over the same weights. */
  fork(): Sequence {
    this.memory.expectWhole();
    const copy = new Sequence(this.model, undefined, { memory: this.memory.fork() });
    copy.#schedule.course = this.course;
    copy.#outputs = this.#outputs.share();
    copy.notes.push(...this.notes);
    copy.ledger.sample('prefill', this.length);
    return copy;
  }

  /**
   * Returns the scores that a policy's scorers and transforms give the slots of one layer now, on KV rows. Nothing is
   * evicted.
   *
   * @throws KvError for a policy without a scorer
   */
  async scores(policy: Policy | string, layer: number): Promise<readonly Float32Array[]> {
    const scored = await policyOf(policy);
    this.memory.expectWhole();
    this.#speculation.rollback();
    return scoresOf(this.memory, this.course, scored, layer);
  }

  /** Returns the positions in the cache now, `[layer][kvHead]`, ascending. */
  kept(): number[][][] {
    this.memory.expectWhole();
    return this.memory.kept();
  }

  bytes(): Bytes {
    const { ledger } = this;
    return {
      allocated: ledger.allocated,
      live: ledger.live,
      peak: ledger.peak,
      meanPrefill: ledger.mean('prefill'),
      meanDecode: ledger.mean('decode'),
    };
  }

  /**
   * Returns the next id: the likeliest, or a drawn one. From a device only the id is read; by then up to `ahead`
   * speculative steps may have started there. They stay invisible until `step` consumes them; any other call discards
   * them. No step starts that would follow an event, which runs after each `every` tokens.
   */
  async next(
    draw?: SamplingRule,
    { ahead = 0, every }: { readonly ahead?: number; readonly every?: number | undefined } = {},
  ): Promise<number> {
    this.memory.expectWhole();
    const { newest } = this.#outputs,
      row = this.logits.at(-1);
    if (row !== undefined && (newest === undefined || draw === undefined)) return (draw?.pick ?? greedy)(row);
    if (newest === undefined) throw new KvError('next', 'expected a sequence that was fed, got one that was not');
    const { ahead: device, decoded } = this.memory,
      { ask } = newest;
    if (device === undefined || ask === undefined) return newest.next(draw);
    const untilEvent = every !== undefined && evicts(this.course) ? every - (decoded % every) - 1 : Infinity;
    return this.#speculation.next({ ...newest, ask }, draw, Math.min(ahead, untilEvent, device.room(this.policy)));
  }

  /** Discards the steps that `next` started, and waits until the device has finished them. */
  async halt(): Promise<void> {
    this.#speculation.rollback();
    await this.#speculation.settled;
  }

  /** Returns `logits`, read from the device if they are there. */
  async readLogits(): Promise<readonly Float32Array[]> {
    this.memory.expectWhole();
    return this.#outputs.read();
  }

  /** Restores a saved sequence into one that was not fed. */
  resume(saved: Snapshot, course: ActivePolicy, logits: readonly Float32Array[]): void {
    this.memory.expectWhole();
    this.memory.restore(saved);
    this.#schedule.course = course;
    this.#outputs.logits = logits;
  }

  destroy(): void {
    this.#speculation.rollback();
    this.#outputs.replace();
    this.memory.destroy();
  }

  /** The parts that a prompt is fed to. */
  get #fed(): FeedOutcome {
    const { model, memory, counts, times } = this;
    return {
      ...{ model, memory, counts, times, schedule: this.#schedule, outputs: this.#outputs },
      observer: () => this.#observer,
      rollback: () => this.#speculation.rollback(),
    };
  }
}
