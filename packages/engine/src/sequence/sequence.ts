import { attentionLast, id, KvError } from '@kv/core';
import {
  allowanceOf,
  compile,
  emptyDraft,
  expectBudget,
  expectOptions,
  planBudgets,
  raisedNote,
  runSteps,
  union,
} from '@kv/core/engine';
import type { Backend, Budget, Plan, Policy } from '@kv/core';
import type { Compiled } from '@kv/core/engine';
import type { Ledger } from '../ledger.ts';
import { greedy } from '../sampling.ts';
import type { Draw } from '../sampling.ts';
import { policyOf } from '../policy-text.ts';
import { expectIds } from '../decoder/decoder.ts';
import { courseOf, decodingBy, evicts, measured } from '../memory/course.ts';
import type { Course, EventBudget, EventResult, EventTimes } from '../memory/course.ts';
import type { AttentionCounters, BatchPlace, FeedOptions, Memory, Output } from '../memory/memory.ts';
import { expectRoom } from '../memory/room.ts';
import type { MemoryOptions, Model } from '../memory/runtime.ts';
import type { Snapshot } from '../memory/snapshot.ts';
import type { TokenText } from '../memory/text.ts';
import type { Observer } from '../memory/observer.ts';
import { yieldToEvents } from '../yield-to-events.ts';
import { StepsInFlight } from './steps-in-flight.ts';
import { Outputs } from './outputs.ts';
import { watchOf } from '../memory/watch.ts';

export interface PrefillOptions {
  /** Evicts by this policy, or the policy of this text, layer by layer as the prompt passes, where the policy's reach allows it. */
  readonly policy?: Policy | string;
  /** @defaultValue no eviction */
  readonly budget?: Budget | undefined;
  /** Tokens a block; after each the cache is back at its budget. @defaultValue the whole prompt */
  readonly block?: number | undefined;
  /** Policies that this sequence, or a fork of it, will go by later: what they read is remembered. */
  readonly policies?: readonly (Policy | string)[];
  /** Last rows whose logits are kept in `logits`. @defaultValue 1 */
  readonly rows?: number;
  /**
   * Nothing will evict after the prompt: what only its events read is let go layer by layer, where they run so.
   * @defaultValue false
   */
  readonly forget?: boolean;
  readonly signal?: AbortSignal | undefined;
}
export interface PrefillingOptions extends PrefillOptions {
  /**
   * Tokens that pass at once, with no event between them. What reads sums over the newest block takes whole blocks.
   * @defaultValue those of a block
   */
  readonly part?: number | undefined;
}
const PREFILLING = {
  policy: true,
  budget: true,
  block: true,
  policies: true,
  rows: true,
  forget: true,
  signal: true,
  part: true,
} as const;
export interface SequenceOptions {
  /**
   * Rotary positions to use. A longer sequence goes on as long as its kept slots fit: they are moved together.
   * @defaultValue the model's `maxPositions`
   */
  readonly window?: MemoryOptions['window'];
  /** Most operations of a piece at once, on the host; see `MemoryOptions`. @defaultValue no limit */
  readonly mostOperations?: MemoryOptions['mostOperations'];
  /** What it goes on from. @defaultValue an empty memory of the model */
  readonly memory?: Memory;
}
/** Bytes of everything that a sequence holds: cache, rings, statistics, states. */
export interface Bytes {
  readonly allocated: number;
  readonly live: number;
  readonly peak: number;
  readonly meanPrefill: number;
  readonly meanDecode: number;
}

/**
 * One sequence over a model's shared weights: its caches and all that its policy remembers. After an error in the
 * middle of a block, and after `destroy()`, every method but `bytes()` and `destroy()` says so.
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
  readonly notes: string[] = [];
  #course: Course = courseOf(compile(id), undefined);
  readonly model: Model;
  /** What it remembers, for those who store and restore it. */
  readonly memory: Memory;
  #outputs = new Outputs();
  readonly #steps = new StepsInFlight();
  #observer: Observer | undefined;

  /** @param backend where pieces run, beside a cache on the host. @defaultValue where the model's runtime keeps caches */
  constructor(model: Model, backend?: Backend, options: SequenceOptions = {}) {
    expectOptions('sequence', { window: true, mostOperations: true, memory: true }, options);
    const { window, mostOperations, memory } = options;
    if (window !== undefined && !(Number.isInteger(window) && window > 0))
      throw new KvError('window', `must be a positive whole number of tokens, got ${window}`);
    if (mostOperations !== undefined && !(mostOperations > 0))
      throw new KvError('mostOperations', `must be a number above 0, got ${mostOperations}`);
    this.model = model;
    this.memory = memory ?? model.memory({ backend, window, mostOperations });
  }

  /**
   * Is shown what events drop and views hide; given before the prompt. @throws KvError where the cache is on a device
   */
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
  /**
   * Logits of the last rows fed, newest last; where the sequence lives on a device, once `readLogits` has brought them.
   */
  get logits(): readonly Float32Array[] {
    return this.#outputs.logits;
  }
  /** What it goes by now. */
  get course(): Course {
    return this.#course;
  }
  /** What its events, views and step hooks go by now. */
  get policy(): Compiled {
    return this.#course.policy;
  }
  get ledger(): Ledger {
    return this.memory.ledger;
  }
  get counters(): AttentionCounters {
    return this.memory.counters;
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
    return this.#course.budget?.slots;
  }
  /** Most slots that a head of any layer has held. */
  get mostSlots(): number {
    return this.memory.mostSlots;
  }

  /** Whether so many more tokens have room beside the kept slots in the model's context. */
  fits(more: number): boolean {
    return this.memory.longest + more <= this.memory.window;
  }

  /**
   * Feeds a prompt. With a policy and a budget the cache ends at its budget, after every block if `block` is given.
   *
   * @throws KvError, before the failing event changes anything, when the prompt is empty or too long, an id is out of
   * range, or a
   * policy's forced slots exceed its budget; what an abort gives, between two blocks or, within a layer, in the middle
   * of one.
   */
  async prefill(ids: readonly number[], options: PrefillOptions = {}): Promise<void> {
    for await (const _ of this.#prefill(ids, options, true));
  }

  /**
   * `prefill` part by part: gives how many of the tokens were fed, with the logits of the part's rows that are among the
   * last `rows` in `logits`. Whoever leaves early leaves a sequence of what was fed.
   */
  prefilling(ids: readonly number[], options: PrefillingOptions = {}): AsyncGenerator<number, void> {
    return this.#prefill(ids, options, false);
  }

  async *#prefill(ids: readonly number[], options: PrefillingOptions, gather: boolean): AsyncGenerator<number, void> {
    expectOptions('prefill', PREFILLING, options);
    const { budget, block, part, rows = 1, forget = false, signal } = options,
      policy = options.policy === undefined ? undefined : await policyOf(options.policy),
      policies = await Promise.all((options.policies ?? []).map(policyOf));
    this.memory.expectWhole();
    if (ids.length === 0) throw new KvError('prompt', 'must have at least one token, got none');
    expectIds(ids, this.model.config.vocab);
    for (const [name, size] of Object.entries({ block, part }))
      if (size !== undefined && !(Number.isInteger(size) && size > 0))
        throw new KvError(name, `must be a positive whole number of tokens, got ${size}`);
    const memory = this.memory,
      compiled = policy ? compile(policy) : this.policy;
    const { needs, label, reach } = compiled,
      course = courseOf(compiled, this.#allowance(compiled, budget, this.length + ids.length), this.#course);
    expectAlike(compiled, this.model);
    const acts = evicts(course),
      size = block ?? compiled.hooks('cadence')[0]?.block ?? ids.length,
      late = waits(compiled, size < ids.length);
    expectRoom(
      memory,
      acts && !late && size < ids.length ? Math.max(size, size + course.budget.slots - memory.longest) : ids.length,
      'prompt',
    );
    memory.prompted(ids.length);
    this.#rollback();
    this.#course = course;
    const hooks = [...compiled.hooks('view'), ...compiled.hooks('step')];
    memory.watch(
      union(
        acts ? needs : [],
        this.observer ? [attentionLast] : [],
        ...hooks.map((h) => h.needs),
        ...policies.flatMap((p) => p.atoms.map((atom) => atom.needs)),
      ),
    );
    if (acts && late && size < ids.length)
      this.notes.push(
        `${label} looks at the whole ${reach === 'model' ? 'model' : 'prompt'}: it evicts once, after prefill, and the peak is the whole prompt in every layer`,
      );
    const most = watchOf(acts ? needs : []).block ? size : (part ?? size);
    this.#outputs.put();
    let fed = 0;
    try {
      for await (fed of this.#blocks(ids, size, { part: most, rows, signal, acts, late, forget, gather })) yield fed;
    } finally {
      if (fed < ids.length) memory.prompted(0); // what was fed is the prompt now
    }
  }

  /** Feeds more tokens over the cache as it is, without an event: a question over a compacted document. */
  async append(ids: readonly number[], options: { readonly rows?: number } = {}): Promise<void> {
    expectOptions('append', { rows: true }, options);
    const { rows = 1 } = options;
    const started = performance.now();
    this.memory.expectWhole();
    expectIds(ids, this.model.config.vocab);
    expectRoom(this.memory, ids.length, 'prompt');
    this.#rollback();
    this.memory.prompted(ids.length);
    this.#outputs.put(await this.#feed(ids, rows));
    this.ledger.sample('prefill', ids.length);
    this.times.prefill += performance.now() - started;
  }

  /**
   * One event now, over all layers. @throws KvError when the policy reads what was not remembered, or its forced slots
   * exceed the budget.
   */
  async evict(policy: Policy | string, budget: Budget): Promise<void> {
    const compiled = compile(await policyOf(policy));
    this.memory.expectWhole();
    this.#rollback();
    this.#course = courseOf(compiled, allowanceOf(compiled, budget, this.length), this.#course);
    if (this.policy.evicts) await this.#event();
  }

  /**
   * Tokens are generated under this policy from now on: its views, its step hooks, its events. A share is one of all
   * tokens so far, anew at every event.
   *
   * @throws KvError for a policy that evicts without a budget, or that does not go on moving kept slots together.
   */
  decodeUnder(policy: Policy, budget?: Budget): void {
    this.memory.expectWhole();
    const next = compile(policy),
      allowance = this.#allowance(next, budget, this.length, 'decodeBudget');
    const moves = ({ hooks }: Compiled): boolean => hooks('compact').some(({ together }) => together);
    if (allowance === undefined) expectBudget(next, undefined, 'decodeBudget');
    if (moves(this.policy) && !moves(next))
      throw new KvError(
        'decodePolicy',
        `'${this.policy.label}' moves kept slots together, expected a policy that goes on doing so, got '${next.label}'`,
      );
    this.#rollback();
    const course = courseOf(
      next,
      allowance && { ...allowance, ...(typeof budget === 'string' && { follows: true }) },
      this.#course,
    );
    this.#course = decodingBy(course, this.#course);
  }

  /**
   * Feeds one generated token, runs the policy's step hooks and, every `every` tokens, an event.
   * @param place among sequences that are fed at the same time: `stepTogether`
   */
  async step(token: number, every?: number, place?: BatchPlace): Promise<void> {
    const memory = this.memory,
      started = performance.now();
    memory.expectWhole();
    expectIds([token], this.model.config.vocab);
    expectRoom(memory, 1, 'generation');
    this.counts.steps++;
    const eventFollows = every !== undefined && evicts(this.#course) && (memory.decoded + 1) % every === 0;
    if (eventFollows) this.#course = measured(this.#course, this.length + 1);
    const committed = eventFollows ? undefined : this.#steps.commit(memory.ahead, token);
    if (!committed) this.#rollback();
    this.#outputs.put(
      committed ??
        (await memory.feed([token], { phase: 'decode', course: this.#course, rows: 1, eventFollows, place })).output,
    );
    if (!committed) await memory.afterStep(this.#course);
    if (eventFollows) await this.#event();
    memory.ledger.sample('decode');
    this.times.decode += performance.now() - started;
  }

  /** Stops remembering what only events read: nothing will evict this sequence any more. */
  settle(): void {
    this.memory.expectWhole();
    if (this.#settles) this.memory.unwatch();
  }

  /**
   * The fewest tokens that a fork may end after: nothing was evicted that they see, and nothing is remembered of single
   * queries. Infinity where a fork is as long as the sequence.
   */
  get cuttableFrom(): number {
    return this.memory.cuttableFrom;
  }

  /**
   * A copy of the first `length` tokens alone; feed it before its logits are asked for. @throws KvError for a
   * length below `cuttableFrom`.
   */
  forkAt(length: number): Sequence {
    this.memory.expectWhole();
    const from = Math.max(1, this.cuttableFrom);
    if (!(Number.isInteger(length) && length >= from && length <= this.length))
      throw new KvError(
        'forkAt',
        from > this.length
          ? `expected a sequence that has evicted and remembers nothing, got one that has or does`
          : `expected a length from ${from} to ${this.length}, got ${length}`,
      );
    const copy = new Sequence(this.model, undefined, { memory: this.memory.fork(length) });
    copy.#course = courseOf(copy.policy, this.#course.budget);
    return copy;
  }

  /** A copy that goes its own way over the same weights. */
  fork(): Sequence {
    this.memory.expectWhole();
    const copy = new Sequence(this.model, undefined, { memory: this.memory.fork() });
    copy.#course = this.#course;
    copy.#outputs = this.#outputs.share();
    copy.notes.push(...this.notes);
    copy.ledger.sample('prefill', this.length);
    return copy;
  }

  /**
   * The scores that a policy's scorers and transforms give the slots of one layer now, on KV rows; nothing is evicted.
   *
   * @throws KvError for a policy without a scorer
   */
  async scores(policy: Policy | string, layer: number): Promise<readonly Float32Array[]> {
    const { label, steps } = compile(await policyOf(policy)),
      { backend } = this.memory,
      { ops } = backend;
    this.memory.expectWhole();
    this.#rollback();
    const at = this.memory.at(layer, this.#course),
      place = { at, read: this.memory.reader(layer), budgets: [] };
    const { scores } = runSteps(
      steps.filter(({ kind }) => kind === 'scorer' || kind === 'transform'),
      [place],
      ops,
      [emptyDraft(place, ops)],
    )[0];
    if (!scores)
      throw new KvError('scores', `expected a policy that scores slots, got '${label || 'full'}', which has no scorer`);
    const rows = ops.reduceRows('mean', scores, at.kvHeads);
    const {
      data,
      shape: [count = 1, slots = 0],
    } = (await backend.read([rows]))[0];
    return Array.from({ length: at.kvHeads }, (_, g) => {
      const row = Math.floor((g * count) / at.kvHeads);
      return data.slice(row * slots, (row + 1) * slots) as Float32Array;
    });
  }

  /** Positions in the cache now, `[layer][kvHead]`, ascending. */
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
   * The id that follows: the likeliest, or a drawn one. Of a sequence on a device the id alone comes back; up to
   * `ahead` steps may have started there by then, which `step` finds done. They show
   * nowhere before, and whatever else is asked of the sequence takes them back. With an event `every` so many tokens
   * none starts that one follows.
   */
  async next(
    draw?: Draw,
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
    if (!this.#steps.draws(draw)) this.#rollback();
    const untilEvent = every !== undefined && evicts(this.#course) ? every - (decoded % every) - 1 : Infinity;
    return this.#steps.next(device, { ...newest, ask }, draw, Math.min(ahead, untilEvent, device.room(this.policy)));
  }

  /** Takes back the steps that `next` started, and waits until the device is through with them. */
  async halt(): Promise<void> {
    this.#rollback();
    await this.#steps.settled;
  }

  /** `logits`, brought from where they are. */
  async readLogits(): Promise<readonly Float32Array[]> {
    this.memory.expectWhole();
    return this.#outputs.read();
  }

  /** Takes what was saved of another sequence, into one that was not fed. */
  resume(saved: Snapshot, course: Course, logits: readonly Float32Array[]): void {
    this.memory.expectWhole();
    this.memory.restore(saved);
    this.#course = course;
    this.#outputs.logits = logits;
  }

  destroy(): void {
    this.#rollback();
    this.#outputs.put();
    this.memory.destroy();
  }

  /**
   * Slots per KV head of a policy's events: those asked for, else as before, else as many as tokens where the policy
   * finds its own size.
   */
  #allowance(
    policy: Compiled,
    budget: Budget | undefined,
    tokens: number,
    at: 'budget' | 'decodeBudget' = 'budget',
  ): EventBudget | undefined {
    if (budget !== undefined) return allowanceOf(policy, budget, tokens, at);
    const before = this.#course.budget;
    if (before === undefined) return policy.sizes ? { slots: tokens } : undefined;
    if (before.share === undefined) expectBudget(policy, before.slots, at);
    return before.share === undefined ? before : { ...before, slots: policy.least(tokens, before.slots) };
  }

  /** Whether only events read what is remembered. */
  get #settles(): boolean {
    if (this.observer && this.policy.hooks('view').length > 0) return false;
    const { window, accumulated, block } = watchOf(
      [...this.policy.hooks('view'), ...this.policy.hooks('step')].flatMap((hook) => hook.needs),
    );
    return window === 0 && !accumulated && !block;
  }

  /** Steps ahead of their tokens never ran. */
  #rollback(): void {
    this.counts.rolledBack += this.#steps.rollback(this.memory.ahead);
  }

  /** Feeds a prompt part by part of its blocks, with the events that these end in. */
  async *#blocks(
    ids: readonly number[],
    size: number,
    {
      part: most,
      rows,
      signal,
      acts,
      late,
      forget,
      gather,
    }: {
      readonly part: number;
      readonly rows: number;
      readonly signal: AbortSignal | undefined;
      readonly acts: boolean;
      readonly late: boolean;
      readonly forget: boolean;
      readonly gather: boolean;
    },
  ): AsyncGenerator<number, void> {
    for (let from = 0; from < ids.length; ) {
      await yieldToEvents(signal);
      signal?.throwIfAborted();
      const started = performance.now(),
        end = Math.min(ids.length, size * (Math.floor(from / size) + 1)),
        part = ids.slice(from, Math.min(end, from + most)),
        to = from + part.length,
        whole = part.length === end - size * Math.floor(from / size),
        after = ids.length - to,
        eventFollows = acts && to === end && (late ? after === 0 : !whole);
      if (!gather) this.#outputs.put();
      this.#outputs.add(
        await this.#feed(part, Math.max(0, rows - after), {
          evict: acts && !late && whole,
          eventFollows,
          forget: forget && after === 0 && this.#settles,
          signal,
        }),
      );
      if (to === end) this.counts.blocks++;
      if (eventFollows) await this.#event();
      this.memory.ledger.sample('prefill', part.length);
      this.times.prefill += performance.now() - started;
      from = to;
      yield from;
    }
  }

  /** Feeds a block; with `evict` every layer is back at its budget before the next one starts. */
  async #feed(
    ids: readonly number[],
    rows: number,
    {
      evict = false,
      eventFollows = false,
      forget = false,
      signal,
    }: Pick<FeedOptions, 'eventFollows' | 'signal'> & { readonly evict?: boolean; readonly forget?: boolean } = {},
  ): Promise<Output> {
    const memory = this.memory,
      plan = evict ? this.#plan(memory.lengths(ids.length)) : undefined;
    const { output, event } = await memory.feed(ids, {
      phase: 'prefill',
      course: this.#course,
      rows,
      eventFollows,
      signal,
      ...(plan && { evict: { plan, times: this.times, forget } }),
    });
    if (plan && event) this.#done(plan, event);
    return output;
  }

  /** Budgets of an event, or nothing where every head already fits. */
  #plan(lengths: readonly (readonly number[])[]): Plan | undefined {
    const budget = this.#course.budget!, // there where the course evicts
      plan = planBudgets(this.policy, budget, lengths);
    if (this.policy.sizes || plan.budgets.some((heads, l) => heads.some((b, g) => b < lengths[l][g]))) return plan;
    this.#note(raisedNote(this.policy, budget));
    return undefined;
  }

  /** An event over all layers: all of them pass their checks before the first is compacted. */
  async #event(): Promise<void> {
    const plan = this.#plan(this.memory.lengths());
    if (!plan) return;
    const layers = plan.budgets.map((_, l) => l);
    this.#done(
      plan,
      await this.memory.event(this.#course, layers, plan, this.times, () => {
        this.counts.providerPasses++;
      }),
    );
  }

  #done({ notes }: Plan, last: EventResult): void {
    this.counts.events++;
    this.#course = { ...this.#course, last };
    this.#note(...notes, ...last.notes);
  }

  /** Notes for the report, each once. */
  #note(...notes: readonly (string | undefined)[]): void {
    for (const note of notes) if (note !== undefined && !this.notes.includes(note)) this.notes.push(note);
  }
}

/** @throws KvError where frozen tokens would take keys from a layer that turns them otherwise. */
function expectAlike({ hooks, called }: Compiled, { config: { ropes, attention } }: Model): void {
  const [hook] = hooks('freeze'),
    other = ropes.findIndex((rope, l) => l > 0 && rope !== ropes[l - 1]);
  if (!hook?.copies || other <= 0) return;
  const kinds = attention.windows.some((window) => window < Infinity) ? 'sliding and global layers' : 'layers';
  throw new KvError(
    called,
    `${hook.name} would copy the keys of early tokens from the layer below, and this model's ${kinds} turn keys by RoPE bases of their own (layer ${other} otherwise than layer ${other - 1}): leave reuse=kv out, so that each layer projects its own keys, or take a policy without ${hook.name}`,
  );
}

/**
 * Whether a policy can act only when the whole prompt is there, which may come in blocks. What a file beside the model
 * says is there before.
 */
export const waits = ({ whole, reach, needs }: Compiled, inBlocks = true): boolean =>
  (whole && inBlocks) ||
  reach === 'model' ||
  needs.some(({ provide, cost, hidden }) => provide !== undefined && (cost !== 'artifact' || hidden === true));
