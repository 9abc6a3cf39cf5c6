import { compile, cpu, emptyDraft, id, KvError, planBudgets, runSteps, sameSignal, signalKey, union } from '@kv/core';
import type { AnySignal, At, Backend, Compiled, Plan, Policy } from '@kv/core';
import { attend } from '../attention.ts';
import type { AttentionCounters, AttentionStats } from '../attention.ts';
import { Ledger } from '../ledger.ts';
import type { Model } from '../load-model.ts';
import { keptPositions, runSubjects, writeState } from './event.ts';
import type { EventTimes, Subject } from './event.ts';
import { liveRows, pick, put, withFrozen } from './frozen.ts';
import { LayerMemory } from './layer.ts';
import { observe } from './observe.ts';
import { reader } from './provide.ts';
import { StateStore } from './store.ts';
import { TokenText } from './text.ts';
import { visibleNow } from './visibility.ts';
import { watchOf } from './watch.ts';

/** Slots per layer and KV head on average, or the share of the prompt that is kept, as `'25%'`. */
export type Budget = number | `${number}%`;
export interface PrefillOptions {
  /** Evicts by this policy, layer by layer as the prompt passes, where the policy's reach allows it. */
  readonly policy?: Policy;
  /** @defaultValue no eviction */
  readonly budget?: Budget | undefined;
  /** Tokens a block; after each the cache is back at its budget. @defaultValue the whole prompt */
  readonly block?: number | undefined;
  /** Policies that will evict this sequence, or a fork of it, later: what they read is remembered. */
  readonly policies?: readonly Policy[];
  /** Last rows whose logits are kept in `logits`. @defaultValue 1 */
  readonly rows?: number;
  readonly signal?: AbortSignal | undefined;
}
/** Bytes of everything that a sequence holds: cache, rings, statistics, states. */
export interface Bytes { readonly allocated: number; readonly live: number; readonly peak: number; readonly meanPrefill: number; readonly meanDecode: number }

const NONE = compile(id);

/** One sequence over a model's shared weights: its caches and all that its policy remembers. */
export class Sequence {
  readonly model: Model;
  readonly ledger: Ledger = new Ledger();
  readonly counters: AttentionCounters = { fused: 0, statistics: 0 };
  readonly counts = { events: 0, blocks: 0, steps: 0, providerPasses: 0 };
  readonly times: EventTimes & { prefill: number; decode: number } = { prefill: 0, decode: 0, score: 0, settle: 0, compact: 0 };
  readonly notes: string[] = [];
  /** Logits of the last rows fed, newest last. */
  logits: Float32Array[] = [];
  /** Most slots that a head of any layer has held. */
  mostSlots = 0;
  promptLength = 0;
  policy: Compiled = NONE;
  /** Slots per KV head asked for; absent where nothing evicts. */
  budget: number | undefined;
  /** Positions kept by the last event, `[layer][kvHead]`. */
  lastKept: number[][][] | undefined;
  lastBudgets: readonly (readonly number[])[] | undefined;
  #text: TokenText;
  #layers: LayerMemory[];
  #shared: StateStore;
  #decoded = 0;
  readonly backend: Backend;

  constructor(model: Model, backend: Backend = cpu) {
    this.model = model;
    this.backend = backend;
    this.#text = new TokenText(model.tokenizer);
    this.#layers = Array.from({ length: model.config.layers }, () => new LayerMemory(model.config, this.ledger));
    this.#shared = new StateStore(model.config, this.ledger);
  }

  /** Tokens fed so far, evicted ones included. */
  get length(): number {
    return this.#text.ids.length;
  }
  get tokens(): TokenText {
    return this.#text;
  }

  /**
   * Feeds a prompt. With a policy and a budget the cache ends at its budget, after every block if `block` is given.
   *
   * @throws KvError, with the sequence as it was before the failing event, when the prompt is empty or too long, an id is out of
   * range, or a policy's forced slots exceed its budget.
   */
  async prefill(ids: readonly number[], { policy, budget, block, policies = [], rows = 1, signal }: PrefillOptions = {}): Promise<void> {
    const { config } = this.model;
    if (ids.length === 0) throw new KvError('prompt', 'must have at least one token, got none');
    if (this.length + ids.length > config.maxPositions) throw new KvError('prompt', `must fit the model's context of ${config.maxPositions} tokens, got ${this.length + ids.length}`);
    if (block !== undefined && !(Number.isInteger(block) && block > 0)) throw new KvError('block', `must be a positive whole number of tokens, got ${block}`);
    const started = performance.now();
    if (policy) this.policy = compile(policy);
    this.promptLength = this.length + ids.length;
    this.budget = budget === undefined ? this.budget : slotsOf(budget, this.promptLength);
    const { evicts, steps, needs } = this.policy;
    const acts = evicts && this.budget !== undefined && steps.length > 0;
    const hookNeeds = [...this.policy.hooks('view'), ...this.policy.hooks('step')].flatMap((h) => h.needs);
    this.#watch(union(acts ? needs : [], hookNeeds, ...policies.map((p) => compile(p).needs)));
    const whole = this.policy.whole || this.policy.reach === 'model' || needs.some((s) => s.provide);
    const size = block ?? this.policy.hooks('cadence')[0]?.block ?? ids.length;
    if (acts && whole && size < ids.length) this.notes.push(`${this.policy.label} looks at the whole ${this.policy.reach === 'model' ? 'model' : 'prompt'}: it evicts once, after prefill, and the peak is the whole prompt in every layer`);
    const logits: Float32Array[] = [];
    for (let from = 0; from < ids.length; from += size) {
      signal?.throwIfAborted();
      const part = ids.slice(from, from + size), last = from + size >= ids.length;
      await this.#feed(part, { evict: acts && !whole, rows: Math.max(0, rows - (ids.length - from - part.length)), phase: 'prefill' });
      logits.push(...this.logits);
      this.counts.blocks++;
      if (last && acts && whole) await this.#eventAll();
      this.ledger.sample('prefill', part.length);
    }
    this.logits = logits;
    this.times.prefill += performance.now() - started;
  }

  /** Feeds more tokens over the cache as it is, without an event: a question over a compacted document. */
  async append(ids: readonly number[], { rows = 1 }: { readonly rows?: number } = {}): Promise<void> {
    if (this.length + ids.length > this.model.config.maxPositions) throw new KvError('prompt', `must fit the model's context of ${this.model.config.maxPositions} tokens, got ${this.length + ids.length}`);
    const started = performance.now();
    this.promptLength = this.length + ids.length;
    await this.#feed(ids, { evict: false, rows, phase: 'prefill' });
    this.ledger.sample('prefill', ids.length);
    this.times.prefill += performance.now() - started;
  }

  /** One event now, over all layers. @throws KvError when the policy does not evict, or reads what was not remembered. */
  async evict(policy: Policy, budget: Budget): Promise<void> {
    const compiled = compile(policy);
    this.policy = compiled;
    this.budget = slotsOf(budget, this.length);
    if (compiled.evicts) await this.#eventAll();
  }

  /** Feeds one generated token, runs the policy's step hooks and, at its cadence, an event. */
  async step(token: number, every?: number): Promise<void> {
    if (this.length >= this.model.config.maxPositions) throw new KvError('generation', `must stay within the model's context of ${this.model.config.maxPositions} tokens`);
    const started = performance.now();
    this.#decoded++;
    this.counts.steps++;
    await this.#feed([token], { evict: false, rows: 1, phase: 'decode' });
    await this.#stepHooks();
    if (every !== undefined && this.budget !== undefined && this.policy.evicts && this.#decoded % every === 0) await this.#eventAll();
    this.ledger.sample('decode');
    this.times.decode += performance.now() - started;
  }

  /** Stops remembering what only events read: nothing will evict this sequence any more. */
  settle(): void {
    if (this.policy.hooks('view').length === 0 && this.policy.hooks('step').length === 0) for (const layer of this.#layers) layer.unwatch();
  }

  /** A copy that goes its own way over the same weights. */
  fork(): Sequence {
    const copy = new Sequence(this.model, this.backend);
    copy.#layers = this.#layers.map((layer) => layer.fork(this.model.config, copy.ledger, 0));
    copy.#shared = this.#shared.fork(copy.ledger);
    copy.#text = this.#text.fork();
    copy.#decoded = this.#decoded;
    Object.assign(copy, { policy: this.policy, budget: this.budget, promptLength: this.promptLength, logits: [...this.logits], mostSlots: this.mostSlots, lastKept: this.lastKept, lastBudgets: this.lastBudgets });
    copy.notes.push(...this.notes);
    copy.ledger.sample('prefill', this.length);
    return copy;
  }

  /** The scores that a policy's scorers and transforms give the slots of one layer now, on KV rows; nothing is evicted. */
  async scores(policy: Policy, layer: number): Promise<readonly Float32Array[]> {
    const compiled = compile(policy), at = this.#at(layer);
    const draft = runSteps(compiled.steps.filter((s) => s.kind === 'scorer' || s.kind === 'transform'), [{ at, read: this.#reader(layer), budgets: [] }], this.backend.ops,
      [emptyDraft({ at, read: () => undefined, budgets: [] }, this.backend.ops)])[0]!;
    const rows = draft.scores!.shape[0]! > at.kvHeads ? this.backend.ops.groupRows('mean', draft.scores!, at.kvHeads) : draft.scores!;
    const { data, shape: [count = 1, slots = 0] } = (await this.backend.read([rows]))[0]!;
    return Array.from({ length: at.kvHeads }, (_, g) => data.slice(Math.floor((g * count) / at.kvHeads) * slots, (Math.floor((g * count) / at.kvHeads) + 1) * slots) as Float32Array);
  }

  /** Positions in the cache now, `[layer][kvHead]`, ascending. */
  kept(): number[][][] {
    return this.#layers.map(keptPositions);
  }

  bytes(): Bytes {
    const { ledger } = this;
    return { allocated: ledger.allocated, live: ledger.live, peak: ledger.peak, meanPrefill: ledger.mean('prefill'), meanDecode: ledger.mean('decode') };
  }

  /** Bytes of keys, values and positions alone. */
  cacheBytes(): { readonly allocated: number; readonly live: number } {
    return this.ledger.entry('cache');
  }

  destroy(): void {
    for (const layer of this.#layers) layer.destroy();
    this.#shared.destroy();
  }

  #watch(needs: readonly AnySignal[]): void {
    for (const layer of this.#layers) layer.watch(watchOf(needs), this.model.config, this.ledger);
  }

  #at(layer: number): At {
    const { layers, queryHeads, kvHeads, headDim } = this.model.config, memory = this.#layers[layer]!;
    return { layer, layers, queryHeads, kvHeads, headDim, step: this.#decoded, promptLength: this.promptLength, length: this.length, slots: memory.cache.length, aligned: memory.aligned, budget: this.budget ?? memory.cache.length, selectRows: kvHeads };
  }

  #reader(layer: number, provided: ReadonlyMap<string, unknown> = new Map()): (signal: AnySignal) => unknown {
    return reader({ memory: this.#layers[layer]!, shared: this.#shared, tokens: this.#text, ops: this.backend.ops, counters: this.counters, provided });
  }

  /** Budgets for an event after `more` tokens have joined every layer that has not got them yet. */
  #plan(lengths: readonly (readonly number[])[]): Plan {
    return planBudgets(this.policy, this.budget!, lengths);
  }

  async #feed(ids: readonly number[], { evict, rows, phase }: { evict: boolean; rows: number; phase: 'prefill' | 'decode' }): Promise<void> {
    const { decoder, config } = this.model, { hidden: D, headDim: d } = config, m = ids.length;
    let x = decoder.embed(ids);
    const positions = Uint32Array.from(ids, (_, i) => this.length + i);
    const plan = evict ? this.#plan(this.#layers.map(({ cache }) => Array.from(cache.lengths, (n) => n + m))) : undefined;
    const event = plan && plan.budgets.some((heads, l) => heads.some((b, g) => b < plan.lengths[l]![g]!)) ? plan : undefined;
    for (const id of ids) this.#text.push(id);
    let previous: { k: Float32Array; v: Float32Array } | undefined;
    const kept: number[][][] = [];
    for (const [l, memory] of this.#layers.entries()) {
      const live = phase === 'prefill' && previous ? liveRows(this.policy, this.#at(l), positions, memory.ring?.window ?? 1) : undefined;
      const some = live !== undefined && live.length < m;
      const at = some ? pick32(positions, live) : positions, rowsIn = some ? pick(x, live, D) : x;
      const projected = await decoder.project(l, rowsIn, at);
      const { k, v } = some ? withFrozen(projected, live, m, previous!, d) : projected;
      memory.cache.append(k, v, positions);
      previous = { k, v };
      memory.ring?.push(projected.q, at);
      this.mostSlots = Math.max(this.mostSlots, memory.cache.length);
      const visible = await visibleNow(this.policy, phase, this.#at(l), this.#reader(l), this.backend, (needs, state) => writeState(needs, state, memory.states, this.#shared, this.backend));
      const stats = this.#stats(memory);
      const attended = attend({ q: projected.q, queryPositions: at, cache: memory.cache, counters: this.counters, ...(visible.length > 0 && { visible }), ...(stats && { stats }) });
      if (stats && memory.block) addBlock(memory, stats);
      const out = await decoder.finish(l, rowsIn, attended);
      if (some) put(x, live, D, out); else x = out;
      if (event) kept[l] = (await this.#event([l], event)).kept[0]!;
    }
    if (event) { this.counts.events++; this.lastKept = kept; this.#said(event); }
    const count = Math.min(rows, m), all = count > 0 ? await decoder.logits(x.slice((m - count) * D)) : new Float32Array(0), V = config.vocab;
    this.logits = Array.from({ length: count }, (_, i) => all.slice(i * V, (i + 1) * V));
  }

  /** Where attention adds its column sums, if some event wants them. */
  #stats({ cache, accumulated, block }: LayerMemory): AttentionStats | undefined {
    accumulated?.grow(cache.length);
    block?.grow(cache.length);
    if (block) return { stride: cache.length, columnSum: new Float32Array(block.rows * cache.length) };
    return accumulated && { stride: accumulated.stride, columnSum: accumulated.data };
  }

  async #stepHooks(): Promise<void> {
    for (const hook of this.policy.hooks('step')) {
      const layers = hook.reach === 'model' ? [0] : this.#layers.map((_, l) => l);
      const cells = layers.map((l) => {
        const read = this.#reader(l);
        return { at: this.#at(l), ops: this.backend.ops, draft: { budgets: this.backend.ops.from({ data: [0], shape: [1, 1] }), state: new Map<string, never>(), checks: [] },
          read: <V>(signal: AnySignal): V => {
            if (!hook.needs.some((s) => sameSignal(s, signal))) throw new KvError(hook.label, `reads the signal ${signalKey(signal)}, which it does not declare`);
            return read(signal) as V;
          } };
      });
      for (const [i, state] of hook.run(cells).entries()) await writeState(hook.needs, state, this.#layers[layers[i]!]!.states, this.#shared, this.backend);
    }
  }

  async #eventAll(): Promise<void> {
    const plan = this.#plan(this.#layers.map(({ cache }) => Array.from(cache.lengths)));
    if (!plan.budgets.some((heads, l) => heads.some((b, g) => b < plan.lengths[l]![g]!))) return;
    const all = this.#layers.map((_, l) => l), provided = await this.#provided(all);
    if (this.policy.reach === 'model') this.lastKept = (await this.#event(all, plan, provided)).kept;
    else { const kept: number[][][] = []; for (const l of all) kept.push((await this.#event([l], plan, [provided[l]!])).kept[0]!); this.lastKept = kept; }
    this.counts.events++;
    this.#said(plan);
  }

  async #event(layers: readonly number[], plan: Plan, provided: readonly ReadonlyMap<string, unknown>[] = []): ReturnType<typeof runSubjects> {
    const subjects: Subject[] = layers.map((l, i) => ({ at: this.#at(l), memory: this.#layers[l]!, read: this.#reader(l, provided[i]) }));
    const result = await runSubjects(this.policy, subjects, plan, { backend: this.backend, shared: this.#shared, room: 0, times: this.times });
    const budgets = [...(this.lastBudgets ?? plan.budgets)];
    layers.forEach((l, i) => { budgets[l] = result.budgets[i]!; });
    this.lastBudgets = budgets;
    return result;
  }

  /** Runs the providers that the policy's signals bring, before any layer is compacted. */
  async #provided(layers: readonly number[]): Promise<Map<string, unknown>[]> {
    const out = layers.map(() => new Map<string, unknown>());
    for (const signal of this.policy.needs) {
      if (!signal.provide) continue;
      const passes = observe(this, () => { this.counts.providerPasses++; });
      for (const [i, l] of layers.entries()) out[i]!.set(signalKey(signal), await signal.provide(passes, l));
    }
    return out;
  }

  #said(plan: Plan): void {
    for (const note of plan.notes) if (!this.notes.includes(note)) this.notes.push(note);
  }

  /** For providers: feeds ids and gives the largest weight each present slot received, per layer `[H, n]`; then forgets the ids. */
  async observeMax(ids: readonly number[]): Promise<readonly { readonly data: Float32Array; readonly shape: readonly number[] }[]> {
    const probe = this.fork();
    const { queryHeads: H } = this.model.config;
    probe.policy = NONE;
    try {
      const { decoder } = this.model, positions = Uint32Array.from(ids, (_, i) => this.length + i);
      let x = decoder.embed(ids);
      const out = [];
      for (const [l, { cache }] of probe.#layers.entries()) {
        const n = cache.length, { q, k, v } = await decoder.project(l, x, positions);
        cache.append(k, v, positions);
        const columnMax = new Float32Array(H * cache.length);
        const attended = attend({ q, queryPositions: positions, cache, counters: this.counters, stats: { stride: cache.length, columnMax } });
        x = await decoder.finish(l, x, attended);
        out.push({ data: Float32Array.from({ length: H * n }, (_, i) => columnMax[Math.floor(i / n) * cache.length + (i % n)]!), shape: [H, n] });
      }
      return out;
    } finally {
      probe.destroy();
    }
  }
}

const pick32 = (x: Uint32Array, rows: Uint32Array): Uint32Array => Uint32Array.from(rows, (r) => x[r]!);

function addBlock({ block, accumulated, cache }: LayerMemory, { columnSum }: AttentionStats): void {
  block!.write(columnSum!, cache.length);
  if (accumulated) for (let r = 0; r < accumulated.rows; r++) for (let i = 0; i < cache.length; i++) accumulated.data[r * accumulated.stride + i]! += columnSum![r * cache.length + i]!;
}

/** Slots that a budget means for a prompt of n tokens. @throws KvError for what is neither a whole number nor a share. */
export function slotsOf(budget: Budget, n: number): number {
  if (typeof budget === 'number') {
    if (!Number.isInteger(budget) || budget < 1) throw new KvError('budget', `must be a whole number of slots of at least 1, or a share such as '25%', got ${budget}`);
    return budget;
  }
  const share = /^(\d+(?:\.\d+)?)%$/.exec(String(budget))?.[1];
  if (share === undefined || !(Number(share) > 0 && Number(share) <= 100)) throw new KvError('budget', `must be a whole number of slots, or a share above 0% and up to 100%, got ${JSON.stringify(budget)}`);
  return Math.max(1, Math.floor((n * Number(share)) / 100));
}
