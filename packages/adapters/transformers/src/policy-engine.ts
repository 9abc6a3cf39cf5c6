import { KvError } from '@kv/core';
import { allowanceOf } from '@kv/core/engine';
import type { Budget } from '@kv/core';
import { DynamicCache } from '@huggingface/transformers';
import { bytesOf, emptyLayers, entries, TensorHolders } from './cache-tensors.ts';
import { afterEvent, afterStep, type EventPlan } from './event.ts';
import { appendQueries, takeOutput } from './feed.ts';
import type { QueryOutputs } from './graph/queries.ts';
import { idsOf, idsTensor, onesTensor } from './inputs.ts';
import type { InnerModel, ModelInputs, ModelOutputs } from './inputs.ts';
import type { SessionCache, Record as Sequence } from './record.ts';
import type { GraphSession } from './source.ts';
import { SequenceText, type Decodes } from './text.ts';
import type { Stats } from './policy-model.ts';

/** Options of a policy engine. */
interface PolicyEngineOptions {
  readonly budget: Budget;
  readonly block: number | undefined;
  readonly every: number | undefined;
  readonly reader: Decodes | undefined;
  readonly graph?: { readonly session: GraphSession; readonly outputs: QueryOutputs };
}

interface Fed {
  readonly sequence: Sequence;
  readonly outputs: ModelOutputs;
}

/** Runs a wrapped model: feeds the graph over kept slots, and runs events on its caches. */
export class PolicyEngine {
  readonly model: object;
  readonly #inner: InnerModel;
  readonly #plan: EventPlan;
  readonly #options: PolicyEngineOptions;
  readonly #sequences = new WeakMap<object, Sequence>();
  /** ModelInputs whose generation has fed the prompt: what follows are generated tokens. */
  readonly #begun = new WeakSet<object>();
  /** ModelInputs that `generate` prepared. */
  readonly #prepared = new WeakSet<object>();
  #last: Sequence | undefined;
  readonly #holders = new TensorHolders();

  constructor(inner: InnerModel, plan: EventPlan, options: PolicyEngineOptions) {
    this.#inner = inner;
    this.#plan = plan;
    this.#options = options;
    const own: { readonly [name: PropertyKey]: unknown } = {
      forward: (inputs: ModelInputs) => this.#forward(inputs),
      prepare_inputs_for_generation: (ids: unknown, inputs: ModelInputs, config: unknown) =>
        this.#prepare(ids, inputs, config),
      stats: (cache?: object) => this.#stats(cache),
      fork: (cache: object) => this.#fork(cache),
      evict: (cache: DynamicCache, slots?: number) => this.#evict(cache, slots),
      // the loaded model is its caller's, and other wrapped models may run on it
      dispose: async () => [await options.graph?.session.release?.()],
      ...(options.graph && { sessions: { ...inner.sessions, model: options.graph.session } }),
    };
    const wrapped: object = new Proxy(inner, {
      get: (target, name) => (Object.hasOwn(own, name) ? own[name] : Reflect.get(target, name)),
      apply: (_, __, [inputs]: [ModelInputs]) => this.#forward(inputs),
    });
    this.model = wrapped;
  }

  /** Removes from the input what this cache has already seen. */
  #prepare(ids: unknown, inputs: ModelInputs, config: unknown): ModelInputs {
    const { past_key_values: cache, input_ids: all } = inputs,
      seen = cache && this.#sequences.get(cache);
    this.#prepared.add(inputs);
    if (!all || !cache) return this.#inner.prepare_inputs_for_generation(ids, inputs, config);
    if (seen && !this.#begun.has(inputs)) {
      const whole = Array.from(all.data as BigInt64Array, Number),
        other = seen.ids.some((id, i) => whole[i] !== id);
      if (other || whole.length === seen.ids.length)
        throw new KvError(
          'generate',
          `expected a conversation that goes on after the ${seen.ids.length} tokens that its cache has seen, got ${other ? `${whole.length} that do not begin with them` : 'no more than these'}: to ask otherwise, fork the cache before the answer`,
        );
      inputs.input_ids = idsTensor(whole.slice(seen.ids.length));
    }
    // Given the cache, the library would cut the ids at the number of slots, which is not the number of tokens.
    delete inputs.past_key_values;
    inputs.attention_mask ??= onesTensor(all.dims[1]);
    const prepared = this.#inner.prepare_inputs_for_generation(ids, inputs, config);
    prepared.past_key_values = cache;
    return prepared;
  }

  async #forward(inputs: ModelInputs): Promise<ModelOutputs> {
    const ids = idsOf(inputs),
      cache = inputs.past_key_values ?? new DynamicCache(),
      before = this.#sequences.get(cache) ?? (await this.#empty(cache)),
      decoding = before.ids.length > 0 && ids.length === 1 && (this.#begun.has(inputs) || !this.#prepared.has(inputs));
    const { sequence, outputs } = decoding
      ? await this.#token(before, ids, inputs)
      : await this.#prompt(before, ids, inputs);
    inputs.past_key_values = cache;
    this.#begun.add(inputs);
    this.#hold(cache, sequence);
    return { ...outputs, ...entries(sequence.layers, 'present') };
  }

  #hold(cache: DynamicCache, sequence: Sequence): void {
    const before = this.#sequences.get(cache);
    this.#holders.add(sequence.layers, 1);
    if (before) this.#holders.add(before.layers, -1);
    // not `update`, which frees device memory that a fork may hold
    Object.assign(cache, entries(sequence.layers, 'past_key_values'));
    this.#sequences.set(cache, sequence);
    this.#last = sequence;
  }

  /** Frees the device tensors of `before` that no cache holds, if `after` replaced them. Returns `after`. */
  #freeing(before: Sequence, after: Sequence): Sequence {
    if (after.layers !== before.layers) this.#holders.add(before.layers, 0);
    return after;
  }

  async #evict(cache: DynamicCache, slots: number | undefined): Promise<void> {
    const sequence = this.#sequence(cache),
      budget =
        slots === undefined ? sequence.budget : allowanceOf(this.#plan.demands.compiled, slots, sequence.ids.length);
    this.#hold(cache, await afterEvent({ ...sequence, budget }, this.#plan));
  }

  async #prompt(before: Sequence, ids: readonly number[], inputs: ModelInputs): Promise<Fed> {
    const { demands } = this.#plan,
      { compiled } = demands,
      total = before.ids.length + ids.length,
      late = compiled.needsFullPrompt || compiled.reach === 'model',
      size = this.#options.block ?? ids.length;
    let sequence: Sequence = {
        ...before,
        budget: allowanceOf(compiled, this.#options.budget, total),
        promptLength: total,
        notes:
          late && size < ids.length
            ? [...before.notes, `${compiled.label} looks at the whole prompt: it evicts once, at its end`]
            : before.notes,
      },
      outputs: ModelOutputs = {};
    for (let from = 0; from < ids.length; from += size) {
      const last = from + size >= ids.length;
      const fed = await this.#feed(sequence, ids.slice(from, from + size), inputs);
      outputs = fed.outputs;
      sequence = this.#freeing(sequence, fed.sequence);
      if (!late || last) sequence = this.#freeing(sequence, await afterEvent(sequence, this.#plan));
    }
    return { sequence, outputs };
  }

  async #token(before: Sequence, ids: readonly number[], inputs: ModelInputs): Promise<Fed> {
    const { every } = this.#options,
      fed = await this.#feed({ ...before, step: before.step + 1 }, ids, inputs);
    let sequence = await afterStep(fed.sequence, this.#plan);
    if (every !== undefined && sequence.step % every === 0)
      sequence = this.#freeing(sequence, await afterEvent(sequence, this.#plan));
    return { sequence, outputs: fed.outputs };
  }

  /** Runs the graph over the kept slots. */
  async #feed(before: Sequence, ids: readonly number[], inputs: ModelInputs): Promise<Fed> {
    const { shape, demands, rope } = this.#plan,
      { graph } = this.#options,
      first = before.ids.length,
      positions = Uint32Array.from(ids, (_, i) => first + i),
      past = entries(before.layers, 'past_key_values');
    const all = await this.#inner._forward(this.model, {
      ...inputs,
      input_ids: idsTensor(ids),
      attention_mask: onesTensor(before.slots + ids.length),
      position_ids: idsTensor([...positions]),
      past_key_values: new DynamicCache(past),
    });
    const text = before.text?.fork();
    for (const id of ids) text?.push(id);
    const layers = before.layers.map((layer, l): SessionCache => {
      const queries =
        graph &&
        appendQueries(layer.queries, graph.outputs[l], all[graph.outputs[l].name], {
          shape,
          rope,
          window: demands.window,
          first: shape.fromMask ? before.slots : first,
        });
      return {
        key: takeOutput(all, `present.${l}.key`),
        value: takeOutput(all, `present.${l}.value`),
        positions: layer.positions.map((row) => joined(row, positions)),
        ...(queries && { queries }),
      };
    });
    const sequence = {
      ...before,
      ids: [...before.ids, ...ids],
      layers,
      slots: before.slots + ids.length,
      ...(text && { text }),
    };
    return { sequence, outputs: { logits: takeOutput(all, 'logits') } };
  }

  async #empty(cache: object): Promise<Sequence> {
    if (Object.keys(cache).length > 0)
      throw new KvError('generate', 'expected a cache that this model filled, got one that another did');
    const { shape } = this.#plan,
      { reader } = this.#options;
    return {
      ids: [],
      layers: emptyLayers(shape),
      slots: 0,
      budget: { slots: 0 },
      promptLength: 0,
      step: 0,
      ...(reader && { text: new SequenceText(reader) }),
      state: new Map(),
      events: 0,
      notes: [],
    };
  }

  #sequence(cache: object | undefined): Sequence {
    const sequence = cache === undefined ? this.#last : this.#sequences.get(cache);
    if (sequence) return sequence;
    throw new KvError('stats', 'expected a cache that this model filled, got none');
  }

  #stats(cache: object | undefined): Stats {
    const { ids, layers, kept, slots, events, notes } = this.#sequence(cache),
      held = layers.map(({ positions }) => positions),
      listed = (sets: readonly (readonly Uint32Array[])[]): Stats['kept'] =>
        sets.map((heads) => heads.map((row) => Array.from(row)));
    return {
      policy: this.#plan.demands.compiled.label,
      kept: listed(kept ?? held),
      positions: listed(held),
      length: ids.length,
      slots,
      bytes: layers.reduce((sum, { key, value }) => sum + bytesOf(key) + bytesOf(value), 0),
      events,
      notes,
    };
  }

  #fork(cache: object): DynamicCache {
    const sequence = this.#sequence(cache),
      copy = new DynamicCache({ ...(cache as DynamicCache) });
    this.#holders.add(sequence.layers, 1);
    this.#sequences.set(copy, sequence);
    return copy;
  }
}

function joined(a: Uint32Array, b: Uint32Array): Uint32Array {
  const out = new Uint32Array(a.length + b.length);
  out.set(a);
  out.set(b, a.length);
  return out;
}
