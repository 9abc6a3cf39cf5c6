import { isState, mostKept, slotState, withProtected } from '@kv/core/engine';
import { range, sumOf } from '@kv/core/shared';
import type { AnySignal, PositionSpan } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import {
  movedForm,
  foldedBytes,
  givesBiases,
  movesTogether,
  observationPlan,
  slotBytes,
  slotModel,
  snapshotsOfPrefix,
  stateBytes,
  waits,
  headDims,
  joinedHeads,
  keptLayers,
  slotHeads,
  type Heads,
  type KvHeads,
} from '@kv/engine';

import type { Model, ModelConfig, Sequence } from '@kv/models';
import type { SequenceRequest } from './job.ts';
import type { SequencePolicy } from './sequence-policy.ts';

/** Threads that choose slots, each with scratch of its own: as many as an engine starts by itself. */
const mostThreads = 8;

/** What the bytes of a model's caches follow from. */
type StoredModel = Pick<Model, 'config' | 'cacheForm'>;

/** Signals that a sequence under this policy records. */
const recordedSignals = ({ policy }: SequencePolicy): readonly AnySignal[] =>
  policy ? [...policy.needs, ...[...policy.hooks('view'), ...policy.hooks('step')].flatMap(({ needs }) => needs)] : [];

/** Returns the policy if its events evict. */
const evicting = ({ policy, budget }: SequencePolicy): CompiledPolicy | undefined =>
  policy?.evicts && (budget !== undefined || policy.choosesBudget) ? policy : undefined;

/** Returns the policy of a sequence that protects these positions too: a share of a budget yields to them. */
export const protectingPolicy = (
  { policy, ...way }: SequencePolicy,
  spans: readonly PositionSpan[],
): SequencePolicy => ({ ...way, policy: policy && withProtected(policy, spans) });

/** Whether every head keeps the number of slots that the budget says. */
const even = ({ steps, choosesBudget }: CompiledPolicy): boolean =>
  !choosesBudget && steps.every(({ kind }) => kind !== 'allocator');

/** Whether a prompt may start from a cached prefix, because the policy needs nothing of the prefix but its cache. */
export function startsFromPrefix(sequencePolicy: SequencePolicy, rest: number): boolean {
  const needs = recordedSignals(sequencePolicy),
    { window, accumulated, block, inputs } = observationPlan(needs);
  const hooks = sequencePolicy.policy && [
    ...sequencePolicy.policy.hooks('view'),
    ...sequencePolicy.policy.hooks('step'),
    ...sequencePolicy.policy.hooks('freeze'),
  ];
  return (
    sequencePolicy.block === undefined &&
    (hooks?.length ?? 0) === 0 &&
    window <= rest &&
    !accumulated &&
    !block &&
    inputs.length === 0 &&
    !needs.some((signal) => signal.hidden || isState(signal))
  );
}

/**
 * What a prompt goes on from: tokens, slots of the longest head that is left of them, and slots that the storage of each
 * layer has room for.
 */
export interface RequestHoldings {
  readonly length: number;
  readonly slots: number;
  readonly stored?: readonly number[];
}
const NOTHING: RequestHoldings = { length: 0, slots: 0 };

/**
 * Returns an upper bound on the slots of a layer's longest head while `tokens` tokens are read after those that are held.
 */
export function prefillSlots(sequencePolicy: SequencePolicy, tokens: number, { length, slots } = NOTHING): number {
  const policy = evicting(sequencePolicy),
    { budget, sizes, block = policy?.hooks('cadence')[0]?.block } = sequencePolicy;
  if (!policy || waits(policy) || !even(policy) || block === undefined || budget === undefined) return slots + tokens;
  return Math.min(slots + tokens, Math.max(slots, mostKept(policy, budget, length + tokens, { sizes }) + block));
}

/**
 * Returns an upper bound on the slots that a head of `slots` slots gains while `tokens` tokens are generated after a
 * prompt of `prompt` tokens: all of them, or, where events evict to an even budget, what is left of the budget plus the
 * tokens between two events.
 */
export function decodeSlots(sequencePolicy: SequencePolicy, slots: number, prompt: number, tokens: number): number {
  const policy = evicting(sequencePolicy),
    { budget, sizes, every = policy?.hooks('cadence')[0]?.every } = sequencePolicy;
  if (!policy || !even(policy) || every === undefined || budget === undefined) return tokens;
  return Math.min(
    tokens,
    Math.max(0, mostKept(policy, budget, prompt, { present: prompt + tokens, sizes }) - slots) + every,
  );
}

/** Returns what storage of n slots grows to. */
const grown = (n: number): number => Math.ceil(1.25 * n) + 2;

/**
 * Returns an upper bound on the slots that each layer's storage has room for: after an event up to twice as many as were
 * kept, where the ledger counts that much.
 */
export function storedSlots({ memory, progress, model }: Pick<Sequence, 'memory' | 'progress' | 'model'>): number[] {
  const { cache, ledger, slots } = memory,
    { allocated, live } = ledger.entry('cache'),
    heads = joinedHeads(model.config);
  return slots.lengths().map((lengths, l) => {
    const { kvHeads, headDim } = heads[l],
      longest = Math.max(...lengths),
      unused = Math.ceil((allocated - live) / (kvHeads * slotBytes(cache.form, headDim)));
    return Math.min(longest + Math.min(longest, unused), grown(progress.length));
  });
}

/** What a sequence holds of its layers, of those that keep slots: bytes of n slots of one of them. */
interface LayerBytes {
  readonly heads: readonly Heads[];
  cache(n: number, of: Heads): number;
  /** What is recorded in addition to slots. */
  recorded(of: Heads): number;
}

function layerBytes({ config, cacheForm }: StoredModel, tokens: number, sequencePolicy: SequencePolicy): LayerBytes {
  const needs = recordedSignals(sequencePolicy),
    { window, accumulated, block, inputs } = observationPlan(needs),
    { policy } = sequencePolicy,
    moves = tokens > config.maxPositions || (policy !== undefined && movesTogether(policy)),
    form = moves ? movedForm(cacheForm) : cacheForm,
    bias = policy !== undefined && givesBiases(policy) ? 4 : 0;
  const rows = ({ queryHeads: H, kvHeads: G }: Heads): number =>
    (accumulated === 'kv' ? G : accumulated ? H : 0) +
    (block ? H : 0) +
    [...needs.filter(isState), ...inputs.map(slotState)].reduce(
      (sum, { state }) => sum + (state.rows === 'query' ? H : state.rows === 'kv' ? G : 1),
      0,
    );
  return {
    heads: joinedHeads(config),
    cache: (n, { kvHeads, headDim }) => kvHeads * n * (slotBytes(form, headDim, true) + bias),
    recorded: (of) =>
      4 * (rows(of) * grown(tokens) + Math.min(window, grown(tokens)) * (of.queryHeads * (of.headDim + 1) + 1)),
  };
}

/**
 * Returns the bytes of what a sequence has in storage with room for `stored[l]` slots a head, one layer of it being
 * replaced.
 */
function heldBytes(
  model: StoredModel,
  stored: readonly number[],
  tokens: number,
  sequencePolicy: SequencePolicy,
): number {
  const { config } = model,
    { heads, cache, recorded } = layerBytes(model, tokens, sequencePolicy),
    each = (bytes: LayerBytes['cache']): number[] => stored.map((n, l) => bytes(n, heads[l])),
    [slots, records] = [each(cache), each((_, of) => recorded(of))];
  return (
    sumOf(slots) +
    sumOf(records) +
    Math.max(...slots) +
    Math.max(...records) +
    (sequencePolicy.policy ? foldedBytes(sequencePolicy.policy, config) : 0) +
    (1 + snapshotsOfPrefix) * stateBytes(config) +
    (recordedSignals(sequencePolicy).some((signal) => signal.hidden) ? 8 * tokens * config.hidden : 0)
  );
}

/**
 * Returns an upper bound on the bytes of a sequence with `slots[l]` slots a head in layer `l` of those that keep slots,
 * including storage that is being replaced, the states of the other layers, and snapshots of them.
 *
 * @param stored slots that its storage has room for now. @defaultValue no more than these
 */
export function sequenceBytes(
  model: StoredModel,
  slots: readonly number[],
  tokens: number,
  sequencePolicy: SequencePolicy,
  stored: readonly number[] = [],
): number {
  const heads = joinedHeads(model.config),
    mostHeads = Math.max(...heads.map(({ queryHeads }) => queryHeads)),
    rooms = slots.map((n, l) => Math.max(grown(n), stored[l] ?? 0)),
    most = (bytes: LayerBytes['cache']): number => Math.max(...slots.map((n, l) => bytes(n, heads[l]))),
    // what pieces read, one layer at a time, where it is not stored as they read it
    decoded =
      model.cacheForm === 'f32' || recordedSignals(sequencePolicy).length === 0
        ? 0
        : most((n, { kvHeads, headDim }) => 8 * kvHeads * headDim * n);
  const loops = sequencePolicy.policy?.hooks('view').flatMap(({ chooses }) => chooses?.loops ?? []) ?? [],
    // what loops keep about keys, and the scores, lists and scratch of the layer that chooses
    indexes = (n: number, { kvHeads: G, headDim: d }: KvHeads): number =>
      sumOf(loops.map(({ index }) => (index ? 4 * G * (Math.ceil(n / index.slots) + 1) * index.numbers(d) : 0))),
    choosing = loops.length === 0 ? 0 : 4 * (2 * mostHeads + 4 * mostThreads) * (Math.max(...slots) + 2048);
  return (
    heldBytes(model, rooms, tokens, sequencePolicy) +
    sumOf(slots.map((n, l) => indexes(grown(n), heads[l]))) +
    most(indexes) +
    decoded +
    choosing
  );
}

/**
 * Returns an upper bound on the bytes of the copy that a second pass of an event fills, of a sequence with `slots[l]` slots
 * a head after `tokens` tokens: the same and what is fed after it, or the whole text, layer by layer.
 */
export function copyBytes(
  model: Pick<Model, 'config' | 'cacheForm' | 'tokenizer'>,
  slots: readonly number[],
  tokens: number,
  sequencePolicy: SequencePolicy,
): number {
  const passes = (evicting(sequencePolicy)?.needs ?? []).filter(({ cost, provide }) => cost === 'pass' && provide),
    { config, tokenizer } = model,
    encode = (text: string): readonly number[] => tokenizer.encode(text, { special: false }).ids;
  return Math.max(
    0,
    ...passes.map(({ feeds }) => {
      const fed = feeds?.({ encode, ids: Array.from(range(0, tokens)) }).length;
      if (fed === undefined) {
        const { heads, cache } = layerBytes(model, tokens, {}),
          layers = heads.map((of) => cache(tokens, of)),
          shared = keptLayers(config).readers.some((readers) => readers.length > 1);
        return (shared ? sumOf(layers) : 0) + Math.ceil(2.25 * Math.max(...layers)) + stateBytes(config);
      }
      const stored = slots.map((n) => Math.max(grown(n), Math.min(n + fed, config.maxPositions)));
      return heldBytes(model, stored, tokens + fed, sequencePolicy);
    }),
  );
}

/**
 * Returns an upper bound on the bytes of a prompt of `tokens` tokens, after those that are held, and of its answers,
 * during prefill or decoding.
 */
export function requestBytes(
  { sequencePolicy, limits, n }: Pick<SequenceRequest, 'sequencePolicy' | 'limits' | 'n'>,
  model: Pick<Model, 'config' | 'cacheForm' | 'tokenizer'>,
  tokens: number,
  held = NOTHING,
): number {
  const layers = (slots: number): number[] =>
      // what a head holds fits the context
      Array<number>(slotModel(model.config).layers).fill(Math.min(slots, model.config.maxPositions)),
    prompt = held.length + tokens,
    all = prompt + limits.maxNewTokens,
    read = prefillSlots(sequencePolicy, tokens, held),
    reading =
      sequenceBytes(model, layers(read), all, sequencePolicy, held.stored) +
      copyBytes(model, layers(read), prompt, sequencePolicy),
    answer = answerBytes(
      model,
      layers(read + decodeSlots(sequencePolicy, read, prompt, limits.maxNewTokens)),
      all,
      sequencePolicy,
    );
  return Math.max(reading, answer) + (n - 1) * answer;
}

/** Returns an upper bound on the bytes of an answer, as `sequenceBytes` does, and of the second passes of its events. */
export function answerBytes(
  model: Pick<Model, 'config' | 'cacheForm' | 'tokenizer'>,
  slots: readonly number[],
  tokens: number,
  sequencePolicy: SequencePolicy,
  stored?: readonly number[],
): number {
  const every = sequencePolicy.every ?? sequencePolicy.policy?.hooks('cadence')[0]?.every;
  return (
    sequenceBytes(model, slots, tokens, sequencePolicy, stored) +
    (every === undefined ? 0 : copyBytes(model, slots, tokens, sequencePolicy))
  );
}

/** Bytes of an id that biases or penalties change: 120 at most in Node 24, and while its lists grow their copies. */
const EDIT_BYTES = 160;
/** Returns an upper bound on what the samplers of a request's answers keep. */
export function samplerBytes({ ids, limits, n }: SequenceRequest): number {
  const { repetitionPenalty = 1, frequencyPenalty = 0, presencePenalty = 0, logitBias = {} } = limits,
    prompt = repetitionPenalty === 1 ? 0 : ids.length,
    answer = repetitionPenalty === 1 && frequencyPenalty === 0 && presencePenalty === 0 ? 0 : limits.maxNewTokens;
  return n * EDIT_BYTES * (prompt + answer + Object.keys(logitBias).length);
}

/**
 * Returns the bytes that forward passes need in addition to all sequences: the rows of one prompt part in a layer,
 * logits, and attention's work space.
 */
export function scratchBytes(config: ModelConfig, part: number, running: number): number {
  const { hidden: D, experts, queryHeads: H, layers, perLayer = 0, vocab, maxPositions } = config,
    ffn = Math.max(config.ffn, ...(config.ffns ?? [])),
    heads = slotHeads(config),
    projected = Math.max(...heads.map(({ kvHeads, headDim }) => (H + 2 * kvHeads) * headDim)),
    // of experts, rows of each that a token has
    routed = experts ? experts.routing.active * (3 * experts.width + 2 * D) + (experts.shared ? 3 * ffn : 0) : 0,
    row = 4 * (4 * D + 2 * projected + Math.max(3 * ffn, routed) + 3 * layers * perLayer);
  return part * row + 2 * 4 * running * vocab + 4 * maxPositions * (2 * Math.max(...headDims(config)) + 64);
}

/**
 * Returns an upper bound on the bytes of unread events of a request: ids, text and, where tokens are scored, their most
 * likely alternatives, as objects and as JSON; and of tools, schemas and messages. For a stream at most `ahead` events are unread.
 */
export function unreadEventBytes(
  { ids, limits, n, scorePrompt, streamed, schemaBytes = 0, turns }: SequenceRequest,
  ahead: number,
): number {
  const scored = (count: number | undefined): number => (count === undefined ? 0 : 250 + 200 * (count + 1)),
    answers = streamed ? Math.min(n * limits.maxNewTokens, ahead + n) : n * limits.maxNewTokens,
    prompts = scorePrompt === undefined ? 0 : (streamed ? 1 : n) * ids.length;
  return (
    32 * ids.length +
    8 * schemaBytes +
    (turns?.bytes ?? 0) +
    answers * (64 + scored(limits.logprobs)) +
    prompts * scored(scorePrompt)
  );
}

/**
 * Returns an upper bound on the memory that a body of `bytes` bytes takes until it is tokenized: raw, as text, as
 * values, and the tokenizer's work space for at most `characters` characters.
 */
export const textBytes = (bytes: number, characters: number): number => 6 * bytes + 40 * Math.min(bytes, characters);
