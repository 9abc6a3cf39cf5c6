import { id, KvError } from '@kv/core';
import { compile, expectBackend, expectBudget, settleOwn, withProtected } from '@kv/core/engine';
import type { Backend, Budget, OptionValues, Policy, PositionSpan } from '@kv/core';
import { greedy } from '../sampling/greedy.ts';
import type { SamplingRule } from '../sampling/sampler.ts';
import { policyOf } from '../policy-text.ts';
import { expectIds, expectModel, expectSpans } from '../expect-given.ts';
import { expectKept, noEffect } from '../generate/policies.ts';
import { activePolicyOf, altersReading, evicts } from '../memory/active-policy.ts';
import type { ActivePolicy } from '../memory/active-policy.ts';
import { atLength } from '../memory/budget-sizes.ts';
import type { BatchMembership } from '../memory/feed.ts';
import { expectRoom } from '../memory/make-room.ts';
import type { Memory } from '../memory/memory.ts';
import type { TokenProgress } from '../memory/progress.ts';
import type { Model } from '../memory/runtime.ts';
import type { Observer } from '../memory/observer.ts';
import { APPEND, DECODE, SEQUENCE } from '../options.ts';
import type { PrefillPartsOptions, PrefillOptions } from '../options.ts';
import { Outputs } from './outputs.ts';
import { PolicySchedule } from './policy-schedule.ts';
import { feed, prefill, type SequenceParts } from './prefill.ts';
import { isOnDevice, Speculation } from './speculation.ts';
import { emptyStats, type SequenceStats } from './stats.ts';

/** Options of a sequence. */
export interface SequenceOptions extends OptionValues<typeof SEQUENCE> {}

/**
 * One sequence over a model's shared weights: its caches and what its policy records. After an error in the middle of a
 * block, and after `destroy()`, every method but `destroy()` throws. It has more than 15 members because each is one
 * step of a session: read it (`progress`, `active`, `stats`, `memory`), feed it, evict from it, draw from it, copy it.
 */
export class Sequence {
  readonly model: Model;
  /** Its caches, and the bytes and slots that they hold. */
  readonly memory: Memory;
  /** Counts, times and notes of what it has done. */
  readonly stats: SequenceStats;
  #outputs: Outputs;
  readonly #schedule: PolicySchedule;
  readonly #speculation: Speculation | undefined;
  #observer: Observer | undefined;
  /** The call that changes it now. */
  #changing: string | undefined;

  /**
   * @param backend runs the policy when the cache is on the host. @defaultValue where the model's runtime keeps caches
   */
  constructor(model: Model, backend?: Backend, options: SequenceOptions = {}) {
    const { window, cache, mostOperations, snapshots, start } = settleOwn('sequence', SEQUENCE, options);
    expectModel('sequence', model);
    if (backend !== undefined) expectBackend('sequence', backend);
    this.model = model;
    this.memory = start?.memory ?? model.memory({ backend, window, form: cache, mostOperations, snapshots });
    this.stats = emptyStats(start?.notes);
    this.#outputs = start?.outputs ?? new Outputs();
    this.#schedule = new PolicySchedule(this.memory, this.stats, start?.active);
    const { speculation } = this.memory.caches;
    this.#speculation = speculation && new Speculation(speculation, this.stats.counts);
  }

  /** Its text, its length, and how many of its tokens are its prompt's. */
  get progress(): TokenProgress {
    return this.memory.progress;
  }
  /** The active policy and budget, and the last event. */
  get active(): ActivePolicy {
    return this.#schedule.active;
  }
  /** Observer of evictions and hidden slots. Set before the prompt. @throws KvError where the cache is on a device */
  get observer(): Observer | undefined {
    return this.#observer;
  }
  set observer(observer: Observer | undefined) {
    const { observers, context } = this.memory.caches;
    if (observer && !observers)
      throw new KvError('certify', `expected a cache on the host, got one on ${context.backend.name}`);
    observers?.show(observer);
    this.#observer = observer;
  }

  /**
   * Feeds a prompt. With a policy and a budget the cache ends within its budget, after every block if `block` is given.
   *
   * @throws KvError, with nothing changed, if the prompt is empty or too long, an id is out of range, or a policy's forced
   * slots exceed its budget; from a piece of a layer's event, in the middle of a block, after which the sequence is
   * unusable; the abort's reason, between two blocks or, within a layer, in the middle of one
   */
  prefill(ids: readonly number[], options: PrefillOptions = {}): Promise<void> {
    return this.alone('prefill', async () => {
      for await (const _ of prefill(this.#parts, ids, options, true));
    });
  }

  /**
   * Like `prefill`, part by part: yields how many of the tokens were fed, with those rows of the part that are among
   * the last `rows` in `logits`. If you stop iterating, the sequence holds the tokens fed so far.
   */
  async *prefillParts(ids: readonly number[], options: PrefillPartsOptions = {}): AsyncGenerator<number, void> {
    const parts = prefill(this.#parts, ids, options, false);
    try {
      for (;;) {
        const { done, value } = await this.alone('prefillParts', () => parts.next());
        if (done) return;
        yield value;
      }
    } finally {
      await parts.return();
    }
  }

  /** Feeds more tokens over the current cache, without an event: for example a question about a compacted document. */
  append(ids: readonly number[], options: OptionValues<typeof APPEND> = {}): Promise<void> {
    return this.alone('append', async () => {
      const { rows } = settleOwn('append', APPEND, options),
        { caches, progress, ledger } = this.memory,
        started = performance.now();
      this.memory.expectUsable();
      expectIds(ids, this.model.config.vocab);
      if (ids.length === 0) return;
      expectRoom(caches, ids.length, 'prompt');
      this.#speculation?.rollback();
      const { length, promptLength } = progress;
      progress.setPrompt(ids.length);
      try {
        this.#outputs.replace(await feed(this.#parts, ids, rows));
      } finally {
        if (progress.length === length) progress.promptLength = promptLength; // refused
      }
      ledger.sample('prefill', ids.length);
      this.stats.times.prefill += performance.now() - started;
    });
  }

  /**
   * Runs one event over all layers now, and goes on under its policy.
   *
   * @throws KvError, with the policy and the cache as they were, if the policy reads what was not recorded, or its forced
   * slots exceed the budget
   */
  evict(policy: Policy | string, budget: Budget): Promise<void> {
    return this.alone('evict', async () => {
      const read = await policyOf(policy),
        compiled = this.#schedule.compiled(read),
        before = this.active;
      this.memory.expectUsable();
      if (budget !== undefined) expectKept(read, budget);
      this.#speculation?.rollback();
      const allowance = this.#schedule.allowance(compiled, budget, this.progress.length);
      if (allowance === undefined) expectBudget(compiled, undefined);
      this.#schedule.active = this.#schedule.follow(compiled, allowance);
      try {
        if (compiled.evicts) await this.#schedule.event();
        else if (budget !== undefined) this.#schedule.note(noEffect(read, budget));
      } catch (error) {
        this.#schedule.active = before;
        throw error;
      }
    });
  }

  /**
   * Protects positions `[from, to)`: no event evicts them from now on, in any layer or KV head, under this policy or a
   * later one. They may lie ahead of what was fed, and count within the budget.
   *
   * @throws KvError, with nothing protected, for positions that were evicted already, and for more than the budget holds
   */
  protect(spans: readonly PositionSpan[]): void {
    this.#expectAlone('protect');
    this.memory.expectUsable();
    expectSpans(spans);
    if (!this.memory.slots.holds(spans))
      throw new KvError(
        'protect',
        'expected positions that the cache holds in every layer and KV head, got some that were evicted',
      );
    this.#speculation?.rollback();
    this.#schedule.protect(spans);
  }

  /**
   * Generates tokens under this policy from now on: its views, step hooks and events. A budget that is a share is of
   * all tokens so far, measured again at every event.
   *
   * @throws KvError for a policy that evicts without a budget, that reads what was not recorded, or that does not go on
   * moving kept slots together
   */
  decodeUnder(policy: Policy, budget?: Budget): void {
    this.#expectAlone('decodeUnder');
    this.memory.expectUsable();
    const active = this.#schedule.decoding(policy, budget);
    this.#speculation?.rollback();
    this.#schedule.active = active;
  }

  /**
   * Feeds one generated token, runs the policy's step hooks and, every `every` tokens, an event.
   * @param batch membership in a batch of sequences fed at the same time, see `stepTogether`
   */
  step(token: number, every?: number, batch?: BatchMembership): Promise<void> {
    return this.alone('step', () => this.#step(token, every, batch));
  }

  async #step(token: number, every: number | undefined, batch: BatchMembership | undefined): Promise<void> {
    const { memory, stats } = this,
      { caches, progress } = memory,
      { length } = progress,
      started = performance.now();
    memory.expectUsable();
    expectIds([token], this.model.config.vocab);
    if (every !== undefined) settleOwn('step', { every: DECODE.every }, { every });
    expectRoom(caches, 1, 'generation');
    stats.counts.steps++;
    const eventFollows = every !== undefined && evicts(this.active) && (progress.decoded + 1) % every === 0;
    if (eventFollows) this.#schedule.active = atLength(this.active, progress.length + 1, caches);
    const committed = eventFollows ? undefined : this.#speculation?.commit(token);
    if (!committed) this.#speculation?.rollback();
    else if (altersReading(this.active.policy, 'decode')) progress.noteAltered(length);
    this.#outputs.replace(
      committed ??
        (await memory.feed([token], { phase: 'decode', active: this.active, rows: 1, eventFollows, batch })).output,
    );
    if (!committed) await memory.afterStep(this.active);
    if (eventFollows) await this.#schedule.event();
    memory.ledger.sample('decode');
    stats.times.decode += performance.now() - started;
  }

  /** Whether this many more tokens fit the model's context under the active policy. */
  fits(more: number): boolean {
    return this.memory.fits(more, this.active);
  }

  /**
   * Returns an independent copy over the same weights.
   *
   * @param length copies only the first `length` tokens, as they were read, under views and frozen rows too: feed it
   * before reading its logits. @defaultValue all
   * @throws KvError while another call changes it; for a length below `memory.slots.cuttableFrom`, which nothing is where
   * slots were evicted or demoted; or, where layers carry
   * states, at which no snapshot of them was kept, see `snapshots`
   */
  fork(length?: number): Sequence {
    this.#expectAlone('fork');
    const { memory, active, progress } = this;
    memory.expectUsable();
    if (length === undefined) {
      const copy = new Sequence(this.model, undefined, {
        start: { memory: memory.fork(), active, outputs: this.#outputs.share(), notes: this.stats.notes },
      });
      copy.memory.ledger.sample('prefill', progress.length);
      return copy;
    }
    expectCut(memory, length);
    return new Sequence(this.model, undefined, {
      start: {
        memory: memory.fork(length),
        active: activePolicyOf(
          withProtected(compile(id), spansBelow(active.policy.protectedSpans, length)),
          active.budget,
        ),
      },
    });
  }

  /** Returns the positions in the cache now, `[layer][kvHead]`, ascending. */
  kept(): number[][][] {
    this.memory.expectUsable();
    return this.memory.slots.kept();
  }

  /**
   * Returns the next id: the likeliest, or what a sampler gives. From a device only the id is read; by then up to
   * `ahead` speculative steps may have started there. They stay invisible until `step` consumes them; any other call
   * discards them. No step starts that would follow an event, which runs after each `every` tokens, nor under a rule
   * that follows the ids (`followsIds`).
   */
  async next(
    draw?: SamplingRule,
    { ahead = 0, every }: { readonly ahead?: number; readonly every?: number | undefined } = {},
  ): Promise<number> {
    this.memory.expectUsable();
    const { newest, logits } = this.#outputs,
      row = logits.at(-1);
    // what is drawn on a device does not depend on whether its logits were read
    if (row !== undefined && (newest === undefined || !draw || draw.temperature === 0))
      return draw ? draw.pick(row) : greedy(row);
    if (newest === undefined)
      throw new KvError(
        'next',
        this.progress.length > 0
          ? 'expected logits of the last token fed, got none: feed a token first'
          : 'has no tokens yet: call prefill first',
      );
    const { speculation } = this.memory.caches;
    if (!speculation || !this.#speculation || !isOnDevice(newest)) return newest.next(draw);
    const untilEvent =
        every !== undefined && evicts(this.active) ? every - (this.progress.decoded % every) - 1 : Infinity,
      most = draw?.followsIds ? 0 : Math.min(ahead, untilEvent, speculation.capacity(this.active.policy));
    return this.#speculation.next(newest, draw, most, this.active);
  }

  /** Discards the steps that `next` started, and waits until the device has finished them. */
  async halt(): Promise<void> {
    this.#speculation?.rollback();
    await this.#speculation?.settled;
  }

  /** Returns the logits of the last rows fed, newest last; from a device they are read now. */
  async logits(): Promise<readonly Float32Array[]> {
    this.memory.expectUsable();
    return this.#outputs.read();
  }

  /** Frees the logits of what was fed last, for a sequence that is kept to be fed more. */
  forgetLogits(): void {
    this.#speculation?.rollback();
    this.#outputs.replace();
  }

  /** Frees everything. Idempotent. */
  destroy(): void {
    this.#speculation?.rollback();
    this.#outputs.replace();
    this.memory.destroy();
  }

  /** Runs a call of this name, during which no other may change the sequence. @throws KvError while another one runs */
  async alone<T>(what: string, change: () => Promise<T>): Promise<T> {
    this.#expectAlone(what);
    this.#changing = what;
    try {
      return await change();
    } finally {
      this.#changing = undefined;
    }
  }

  #expectAlone(what: string): void {
    if (this.#changing !== undefined)
      throw new KvError(
        what,
        `expected the call of '${this.#changing}' before to have ended, got another while it runs: await it`,
      );
  }

  /** The parts that a prompt is fed to. */
  get #parts(): SequenceParts {
    const { model, memory, stats, observer } = this;
    return {
      ...{ model, memory, stats, observer, schedule: this.#schedule, outputs: this.#outputs },
      rollback: () => this.#speculation?.rollback(),
    };
  }
}

/** Returns the parts of spans that lie among the first `length` positions. */
const spansBelow = (spans: readonly PositionSpan[], length: number): readonly PositionSpan[] =>
  spans.flatMap(([from, to]) => (from < length ? [[from, Math.min(to, length)] as const] : []));

/** Checks that a copy of a memory may be cut to its first `length` tokens. @throws KvError if not */
function expectCut(memory: Memory, length: number): void {
  const { slots, progress, caches } = memory,
    from = Math.max(1, slots.cuttableFrom);
  if (progress.length === 0)
    throw new KvError('fork', `expected a sequence with tokens, of which ${length} are copied, got one with none`);
  if (from > progress.length)
    throw new KvError(
      'fork',
      'expected a sequence that has evicted nothing, demoted nothing and keeps no statistics, got one that has evicted or demoted tokens or keeps statistics of them',
    );
  if (!(Number.isInteger(length) && length >= from && length <= progress.length))
    throw new KvError('fork', `expected a length from ${from} to ${progress.length}, got ${length}`);
  if (memory.cut(length) === length) return;
  const ends = [...new Set([...(caches.states?.snapshots ?? []), progress.length])].filter((tokens) => tokens >= from);
  throw new KvError(
    'fork',
    `this model's layers carry states, which are known after ${ends.join(', ')} tokens: expected one of these lengths, got ${length}; a sequence with \`snapshots\` knows them at the ends of a prompt's parts`,
  );
}
