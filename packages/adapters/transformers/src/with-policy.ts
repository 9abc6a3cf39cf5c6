import { KvError } from '@kv/core';
import { allowanceOf, expectObject } from '@kv/core/engine';
import type { Backend, Budget, Policy } from '@kv/core';
import { AutoTokenizer, DynamicCache, Tensor } from '@huggingface/transformers';
import type { PreTrainedModel } from '@huggingface/transformers';
import { demandsOf } from './demands.ts';
import { afterEvent, afterStep, type EventPlan } from './event.ts';
import { appendQueries, takeOutput } from './feed.ts';
import type { QueryOutputs } from './graph/queries.ts';
import type { SessionCache, Record as Sequence } from './record.ts';
import { ropeOf } from './rope.ts';
import { shapeOf, type TransformersModel, type SessionShape } from './shape.ts';
import { queryGraph, type GraphSource } from './source.ts';
import { SequenceText, type Decodes } from './text.ts';

/** Options of `withPolicy`. */
export interface WithPolicyOptions {
  /** A policy, or its text, such as `'snapkv | caote | topK'`. */
  readonly policy: Policy | string;
  /**
   * Slots per layer and KV head, or a share of the prompt such as '25%'. @defaultValue none, for a policy that evicts
   * nothing
   */
  readonly budget?: Budget;
  /** Prefill in blocks of this many tokens, each followed by an event. @defaultValue the whole prompt */
  readonly block?: number;
  /** Generated tokens between two events. @defaultValue the policy's own cadence, else none after the prompt */
  readonly every?: number;
  /** Tokenizer, needed by policies that read text. @defaultValue that of `source`, if it is a name or a folder */
  readonly tokenizer?: Decodes;
  /**
   * Where the model was loaded from, and its load options. Needed by policies that read queries: a graph that outputs
   * them is made from it. @defaultValue none
   */
  readonly source?: GraphSource;
  /** Backend that runs the pieces. @defaultValue the CPU */
  readonly backend?: Backend;
}

/** The current state of a sequence. */
export interface Stats {
  /** The policy as a text. */
  readonly policy: string;
  /** Positions that the last event kept (all positions fed, if there was none), `[layer][kvHead]`, ascending. */
  readonly kept: readonly (readonly (readonly number[])[])[];
  /** Positions in the cache now, likewise. */
  readonly positions: readonly (readonly (readonly number[])[])[];
  /** Tokens fed, evicted ones included. */
  readonly length: number;
  /** Slots per head. */
  readonly slots: number;
  /** Bytes of its keys and values. */
  readonly bytes: number;
  /** Number of events so far. */
  readonly events: number;
  /** Notes on budgets that could not be met as asked for. */
  readonly notes: readonly string[];
}
/** A model that generates as before, with a cache that a policy keeps within its budget. */
export type PolicyModel<M> = M & {
  /** Returns the state of a sequence. @param cache its cache. @defaultValue that of the last call */
  stats(cache?: DynamicCache): Stats;
  /**
   * Runs an event now; if it throws, nothing has changed. @param slots to keep. @defaultValue as many as at the last
   * event
   * @throws KvError for a cache of another model; and whatever a piece throws
   */
  evict(cache: DynamicCache, slots?: number): Promise<void>;
  /** Returns an independent copy of a cache. @throws KvError for a cache of another model */
  fork(cache: DynamicCache): DynamicCache;
};

type Inputs = {
  input_ids?: Tensor;
  attention_mask?: Tensor;
  position_ids?: Tensor | null;
  past_key_values?: DynamicCache | null;
} & { [name: string]: unknown };
type Outputs = { [name: string]: Tensor };
/** Internal members of a transformers.js model that are used. */
interface Inner extends TransformersModel {
  _forward(self: unknown, inputs: Inputs): Promise<Outputs>;
  prepare_inputs_for_generation(ids: unknown, inputs: Inputs, config: unknown): Inputs;
}

/**
 * Wraps a loaded model so that a policy keeps its caches within a budget. `generate`, pipelines and streamers use it
 * unchanged, and `model` itself is not modified.
 * @param model a causal model that transformers.js has loaded
 * @returns the model with `stats`, `evict` and the policy's caches
 * @throws KvError for a model that has not only attention caches, and for a policy that needs what this engine does not
 * provide.
 * @example
 * ```ts
 * const bounded = await withPolicy(model, { policy: 'taFast', budget: 1024, tokenizer });
 * await bounded.generate(inputs); // as `model.generate`
 * ```
 */
export async function withPolicy<M extends object = PreTrainedModel>(
  model: M,
  options: WithPolicyOptions,
): Promise<PolicyModel<M>> {
  expectObject({ name: 'withPolicy' }, 'options such as { policy, budget }', options);
  const { budget, block, every, tokenizer, source, backend } = options,
    policy = await policyOf(options.policy);
  for (const [name, n] of Object.entries({ block, every }))
    if (n !== undefined && !(Number.isInteger(n) && n > 0))
      throw new KvError(name, `must be a positive whole number of tokens, got ${n}`);
  if (tokenizer !== undefined && typeof tokenizer?.decode !== 'function')
    throw new KvError('tokenizer', 'expected a tokenizer of transformers.js, got something without decode');
  const inner = model as unknown as Inner,
    shape = shapeOf(inner),
    demands = demandsOf(policy, budget, shape, {
      queries: source !== undefined,
      text: tokenizer !== undefined || nameOf(source) !== undefined,
    }),
    reader = demands.text ? (tokenizer ?? (await tokenizerOf(source))) : undefined;
  const graph = demands.window > 0 && source !== undefined ? await queryGraph(source, inner, shape) : undefined,
    turns = demands.rope || shape.fromMask,
    course: EventPlan = {
      policy,
      demands,
      shape,
      rope: turns ? ropeOf(inner.config, shape.headDim) : undefined,
      backend,
    };
  if (shape.fromMask && shape.type !== 'float32')
    throw new KvError('withPolicy', `expected a cache of float32, whose kept keys can be turned, got ${shape.type}`);
  const engine = new Engine(inner, course, {
    budget: budget ?? '100%',
    block: block ?? demands.compiled.hooks('cadence')[0]?.block,
    every: every ?? demands.compiled.hooks('cadence')[0]?.every,
    reader,
    ...(graph && { graph }),
  });
  return engine.model as PolicyModel<M>;
}

/** Returns the policy, parsed if it is text; the catalogue is loaded only for text. */
const policyOf = async (policy: Policy | string): Promise<Policy> =>
  typeof policy === 'string' ? (await import('@kv/policies')).policy(policy) : policy;

/** Returns the folder or name of a source. */
const nameOf = (source: GraphSource | undefined): string | undefined => {
  const model = source instanceof Uint8Array || typeof source === 'string' ? source : source?.model;
  return typeof model === 'string' ? model : undefined;
};

async function tokenizerOf(source: GraphSource | undefined): Promise<Decodes | undefined> {
  const name = nameOf(source),
    options = typeof source === 'object' && !(source instanceof Uint8Array) ? { ...source, model: undefined } : {};
  return name === undefined ? undefined : AutoTokenizer.from_pretrained(name, options);
}

interface Running {
  readonly budget: Budget;
  readonly block: number | undefined;
  readonly every: number | undefined;
  readonly reader: Decodes | undefined;
  readonly graph?: { readonly session: object; readonly outputs: QueryOutputs };
}

class Engine {
  readonly model: object;
  readonly #inner: Inner;
  readonly #course: EventPlan;
  readonly #running: Running;
  readonly #sequences = new WeakMap<object, Sequence>();
  /** Inputs whose generation has fed the prompt: what follows are generated tokens. */
  readonly #begun = new WeakSet<object>();
  /** Inputs of a generation. */
  readonly #asked = new WeakSet<object>();
  #last: Sequence | undefined;
  readonly #holders = new WeakMap<Tensor, number>();

  constructor(inner: Inner, course: EventPlan, running: Running) {
    this.#inner = inner;
    this.#course = course;
    this.#running = running;
    const own: { readonly [name: PropertyKey]: unknown } = {
      forward: (inputs: Inputs) => this.#forward(inputs),
      prepare_inputs_for_generation: (ids: unknown, inputs: Inputs, config: unknown) =>
        this.#prepare(ids, inputs, config),
      stats: (cache?: object) => this.#stats(cache),
      fork: (cache: object) => this.#fork(cache),
      evict: (cache: DynamicCache, slots?: number) => this.#evict(cache, slots),
      ...(running.graph && { sessions: { ...inner.sessions, model: running.graph.session } }),
    };
    const wrapped: object = new Proxy(inner, {
      get: (target, name) => (Object.hasOwn(own, name) ? own[name] : Reflect.get(target, name)),
      apply: (_, __, [inputs]: [Inputs]) => this.#forward(inputs),
    });
    this.model = wrapped;
  }

  /** Removes from the input what this cache has already seen. */
  #prepare(ids: unknown, inputs: Inputs, config: unknown): Inputs {
    const { past_key_values: cache, input_ids: all } = inputs,
      seen = cache && this.#sequences.get(cache);
    this.#asked.add(inputs);
    if (!all || !cache) return this.#inner.prepare_inputs_for_generation(ids, inputs, config);
    if (seen && !this.#begun.has(inputs) && all.dims[1] > seen.ids.length) {
      const whole = Array.from(all.data as BigInt64Array, Number);
      if (seen.ids.some((id, i) => whole[i] !== id))
        throw new KvError(
          'generate',
          `expected a conversation that begins with the ${seen.ids.length} tokens that its cache has seen, got another beginning`,
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

  async #forward(inputs: Inputs): Promise<Outputs> {
    const ids = idsOf(inputs),
      cache = inputs.past_key_values ?? new DynamicCache(),
      before = this.#sequences.get(cache) ?? (await this.#empty(cache)),
      decoding = before.ids.length > 0 && ids.length === 1 && (this.#begun.has(inputs) || !this.#asked.has(inputs));
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
    this.#count(sequence.layers, 1);
    if (before) this.#count(before.layers, -1);
    // not `update`, which frees device memory that a fork may hold
    Object.assign(cache, entries(sequence.layers, 'past_key_values'));
    this.#sequences.set(cache, sequence);
    this.#last = sequence;
  }

  /** Adds `by` to the reference count of device tensors and frees those that no cache holds. */
  #count(layers: readonly SessionCache[], by: number): void {
    for (const tensor of layers.flatMap(({ key, value }) => [key, value])) {
      if (tensor.location !== 'gpu-buffer') continue;
      const holders = (this.#holders.get(tensor) ?? 0) + by;
      this.#holders.set(tensor, holders);
      if (holders <= 0) tensor.dispose();
    }
  }

  /** Frees the device tensors of `before` that no cache holds, if `after` replaced them. Returns `after`. */
  #freeing(before: Sequence, after: Sequence): Sequence {
    if (after.layers !== before.layers) this.#count(before.layers, 0);
    return after;
  }

  async #evict(cache: DynamicCache, slots: number | undefined): Promise<void> {
    const sequence = this.#sequence(cache),
      budget =
        slots === undefined ? sequence.budget : allowanceOf(this.#course.demands.compiled, slots, sequence.ids.length);
    this.#hold(cache, await afterEvent({ ...sequence, budget }, this.#course));
  }

  async #prompt(before: Sequence, ids: readonly number[], inputs: Inputs): Promise<Fed> {
    const { demands } = this.#course,
      { compiled } = demands,
      total = before.ids.length + ids.length,
      late = compiled.needsFullPrompt || compiled.reach === 'model',
      size = this.#running.block ?? ids.length;
    let sequence: Sequence = {
        ...before,
        budget: allowanceOf(compiled, this.#running.budget, total),
        promptLength: total,
        notes:
          late && size < ids.length
            ? [...before.notes, `${compiled.label} looks at the whole prompt: it evicts once, at its end`]
            : before.notes,
      },
      outputs: Outputs = {};
    for (let from = 0; from < ids.length; from += size) {
      const last = from + size >= ids.length;
      const fed = await this.#feed(sequence, ids.slice(from, from + size), inputs);
      outputs = fed.outputs;
      sequence = this.#freeing(sequence, fed.sequence);
      if (!late || last) sequence = this.#freeing(sequence, await afterEvent(sequence, this.#course));
    }
    return { sequence, outputs };
  }

  async #token(before: Sequence, ids: readonly number[], inputs: Inputs): Promise<Fed> {
    const { every } = this.#running,
      fed = await this.#feed({ ...before, step: before.step + 1 }, ids, inputs);
    let sequence = await afterStep(fed.sequence, this.#course);
    if (every !== undefined && sequence.step % every === 0)
      sequence = this.#freeing(sequence, await afterEvent(sequence, this.#course));
    return { sequence, outputs: fed.outputs };
  }

  /** Runs the graph over the kept slots. */
  async #feed(before: Sequence, ids: readonly number[], inputs: Inputs): Promise<Fed> {
    const { shape, demands, rope } = this.#course,
      { graph } = this.#running,
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
    const { shape } = this.#course,
      { reader } = this.#running;
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
      policy: this.#course.demands.compiled.label,
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
    this.#count(sequence.layers, 1);
    this.#sequences.set(copy, sequence);
    return copy;
  }
}

/** Names tensors as the graph does. */
const entries = (layers: readonly SessionCache[], prefix: 'present' | 'past_key_values'): Outputs =>
  Object.fromEntries(
    layers.flatMap(({ key, value }, l) => [
      [`${prefix}.${l}.key`, key],
      [`${prefix}.${l}.value`, value],
    ]),
  );

interface Fed {
  readonly sequence: Sequence;
  readonly outputs: Outputs;
}

const bytesOf = ({ size, type }: Tensor): number => size * (type === 'float32' ? 4 : 2);

function joined(a: Uint32Array, b: Uint32Array): Uint32Array {
  const out = new Uint32Array(a.length + b.length);
  out.set(a);
  out.set(b, a.length);
  return out;
}

function emptyLayers({ layers, kvHeads, headDim, type }: SessionShape): SessionCache[] {
  const none = (): Tensor =>
    new Tensor(type as 'float32', type === 'float32' ? new Float32Array(0) : new Uint16Array(0), [
      1,
      kvHeads,
      0,
      headDim,
    ]);
  return Array.from({ length: layers }, () => ({
    key: none(),
    value: none(),
    positions: Array.from({ length: kvHeads }, () => new Uint32Array(0)),
  }));
}

const idsTensor = (ids: readonly number[]): Tensor =>
  new Tensor('int64', BigInt64Array.from(ids, BigInt), [1, ids.length]);
const onesTensor = (n: number): Tensor => new Tensor('int64', new BigInt64Array(n).fill(1n), [1, n]);

/**
 * Returns the ids of the input. @throws KvError for more than one sequence, for padding, and for inputs without ids.
 */
function idsOf({ input_ids: ids, attention_mask: mask }: Inputs): number[] {
  if (!ids) throw new KvError('generate', 'expected input_ids, got none');
  const [batch, length] = ids.dims;
  if (ids.dims.length !== 2 || batch !== 1)
    throw new KvError('generate', `expected one sequence at a time, got input_ids of [${ids.dims.join(', ')}]`);
  if (length === 0) throw new KvError('generate', 'expected a prompt of at least one token, got none');
  if (mask && (mask.data as BigInt64Array).some((x) => Number(x) !== 1))
    throw new KvError('generate', 'expected a sequence without padding, got an attention_mask with a 0');
  return Array.from(ids.data as BigInt64Array, Number);
}
