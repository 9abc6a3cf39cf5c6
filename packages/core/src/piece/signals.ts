import type { Ops } from '../tensor/maths.ts';
import type { Tensor } from '../tensor/tensor.ts';

/** Arguments of a signal, such as the window of `attentionWindow`. */
export type Args = Readonly<Record<string, number | string>>;
/**
 * `free`: already in the cache. `window`: a pass over the last queries. `pass`: a statistic over every query, or
 * another forward pass. `artifact`: a file stored next to the model.
 */
export type SignalCost = 'free' | 'window' | 'pass' | 'artifact';

/**
 * A value that an engine offers and a piece reads. Compared by `id` and `args`; a piece reads it under the name `as`.
 */
export interface Signal<As extends string = string, Value = Tensor> {
  /** Identity together with `args`, such as `'attention.window'`. */
  readonly id: string;
  /** Name under which a piece reads it. */
  readonly as: As;
  /** What distinguishes signals of one id. @defaultValue none */
  readonly args?: Args;
  /** What it costs the engine. */
  readonly cost: SignalCost;
  /** A provider published with the signal, for values that no engine computes itself (KVzip's reconstruction pass). */
  readonly provide?: SignalProvider<Value>;
  /**
   * Returns the ids that the provider feeds after the whole prompt, so that an engine can say before it reads a prompt that
   * both exceed the context. @defaultValue it feeds none
   */
  readonly feeds?: (of: Pick<ProviderEngine, 'encode' | 'ids'>) => readonly number[];
  /** The provider uses `hiddenNumbers`: their input is recorded while tokens are fed. */
  readonly hidden?: true;
  /** Present in the type only: the value that a piece is given. */
  readonly value?: Value;
}
/** A signal of any name and value. */
export type AnySignal = Signal<string, any>;

/** Tokens `first` to `end` of a sequence, whose queries from `from` on are processed together. */
export interface QueryRange {
  /** First token of the range. */
  readonly first: number;
  /** First token whose query is processed. */
  readonly from: number;
  /** End of the range, exclusive. */
  readonly end: number;
  /** Whether a query's strongest weights may be on any token before it; else only on tokens before `first`. */
  readonly inside: boolean;
}
/** The attention of one stretch, reduced where it was computed: its size does not grow with the sequence. */
export interface FoldedQueryRange {
  /** Operations of the backend that holds the tensors. */
  readonly ops: Ops;
  /**
   * Mean over heads of the weights that the queries of the stretch give its tokens, `[1, end - first, end - first]`, 0
   * where a query sees nothing. Only for a stretch with all of its queries that is not `inside`.
   */
  readonly mean?: Tensor;
  /** Sum of the weights that each token of the stretch receives from its queries, `[H, end - first]`. */
  readonly received: Tensor;
  /**
   * For each query the `most` largest mean weights over heads above `above`, ties to the earlier token: alternating
   * token and weight, `[end - from, 2 * most]`, f32; 0 and 0 where there are fewer.
   */
  readonly strongest: Tensor;
}

/** Queries of some tokens after RoPE, f32 `[H, w, d]`, and their positions in ascending order, `[w]`. */
export interface PlacedQueries {
  readonly queries: Tensor;
  readonly positions: Uint32Array;
}

/** What an engine lets a provider do. */
export interface ProviderEngine {
  /** Token ids of the sequence so far. */
  readonly ids: readonly number[];
  /** Number of them in the prompt; the others were generated. */
  readonly promptLength: number;
  /** Returns the ids of a text, without special tokens. */
  encode(text: string): readonly number[];
  /** Returns the text of ids. */
  decode(ids: readonly number[]): string;
  /**
   * Feeds `ids` after the present cache without keeping them, and returns for `layer` the largest attention weight that
   * each slot of the cache received from them, `[H, n]`; `over` `hidden` divides the weights of each query by |h|_2,
   * where h is the token's input to the layer's projections.
   */
  observeMax(ids: readonly number[], layer: number, over?: 'hidden'): Promise<Tensor>;
  /**
   * Feeds `ids` after the present cache without keeping them, and returns for `layer` the queries of those at the indices
   * `chosen`, in ascending order.
   */
  queriesOf(ids: readonly number[], chosen: readonly number[], layer: number): Promise<PlacedQueries>;
  /**
   * Reads a file stored next to the model: of that name in its folder, or, for a `.gguf`, of that name after the
   * model's own name and a dot.
   */
  artifact(name: string): Promise<Uint8Array | undefined>;
  /**
   * Runs the model up to `layer` again over the whole sequence, with nothing evicted, and gives the causal attention of
   * every query from `from` on, in order: `visit(query, rows)`, rows `[H, query + 1]`.
   */
  attentionRows(layer: number, visit: (query: number, rows: Float32Array) => void, from?: number): Promise<void>;
  /**
   * The same without bringing rows to the host: each stretch is reduced where it is computed, `record` says which of
   * its tensors are wanted, and those of all stretches are read at once. Stretches are in order.
   */
  attentionStretches?(
    layer: number,
    stretches: readonly QueryRange[],
    strongest: { readonly most: number; readonly above: number },
    record: (folded: FoldedQueryRange, stretch: QueryRange) => readonly Tensor[],
  ): Promise<readonly (readonly Float32Array[])[]>;
  /**
   * Returns a number for every token of the sequence so far, by position, evicted ones included, from its hidden state
   * after the last layer and the final norm. `fold` maps the rows `[m, width]` of new tokens, in order, to m numbers;
   * results for earlier tokens are cached under `key`.
   */
  hiddenNumbers(key: string, fold: (rows: Float32Array, width: number) => Float32Array): Promise<Float32Array>;
}
/** Computes a signal's value for one layer, from what the engine offers. */
export type SignalProvider<Value> = (engine: ProviderEngine, layer: number) => Promise<Value>;

/** Token ids, text and exact offsets (UTF-16) of the whole sequence, evicted tokens included; index = position. */
export interface Tokens {
  /** Token ids. */
  readonly ids: readonly number[];
  /** The text that they decode to. */
  readonly text: string;
  /** `[start, end)` of each token in `text`. */
  readonly offsets: readonly (readonly [start: number, end: number])[];
}

export const sameSignal = (a: AnySignal, b: AnySignal): boolean => signalKey(a) === signalKey(b);
/** Returns a signal's identity as text: `attention.window(w=32)`. */
export function signalKey({ id, args = {} }: Pick<AnySignal, 'id' | 'args'>): string {
  const names = Object.keys(args).sort();
  return names.length === 0 ? id : `${id}(${names.map((k) => `${k}=${args[k]}`).join(',')})`;
}

/** Cached keys after RoPE, f32 `[G, n, d]`. */
export const keys: Signal<'keys'> = { id: 'keys', as: 'keys', cost: 'free' };
/** Cached values, f32 `[G, n, d]`. */
export const values: Signal<'values'> = { id: 'values', as: 'values', cost: 'free' };
/** Original position of every slot, u32 `[G, n]`, ascending in each row. */
export const positions: Signal<'positions'> = { id: 'positions', as: 'positions', cost: 'free' };
/**
 * What each slot adds to its logit, after scale and soft cap: the logarithm of the number of slots that it stands for, f32
 * `[G, n]`; zeros where no piece gave any.
 */
export const biases: Signal<'biases'> = { id: 'biases', as: 'biases', cost: 'free' };
/** Ids, text and offsets on the host. */
export const tokens: Signal<'tokens', Tokens> = { id: 'tokens', as: 'tokens', cost: 'free' };
/** The last w queries after RoPE, f32 `[H, w, d]`. */
export const queries = (w: number): Signal<'queries'> => ({ id: 'queries', as: 'queries', args: { w }, cost: 'free' });
/**
 * What the layer's projections read of the newest token: the residual stream after the norm before attention, f32 `[1, 1,
 * D]`. Views read it, of a token that is generated; nothing else does, and other tokens have none. A token then passes
 * layer by layer.
 */
export const layerInput: Signal<'layerInput'> = { id: 'layer.input', as: 'layerInput', cost: 'free' };
/** Attention weights of the newest query, f32 `[H, n]`. */
export const attentionLast: Signal<'attention'> = { id: 'attention.last', as: 'attention', cost: 'window' };
/**
 * Statistics of a window, per slot, other than the mean. With a_ij the weight that query i of the window gives slot j
 * (0 if it does not see it) and n_i the number of slots of the KV head that it sees, each is a mean over the queries:
 * - `squares`: a_ij², so that `squares` - mean² is the variance;
 * - `votes`: 1 where a_ij > 1 / n_i, else 0: the share of queries that give it more than the mean weight (of a row that sums
 *   to 1: a query that looks at a learned sink votes for fewer);
 * - `normalized`: a_ij (n_i - 1), so that queries count equally regardless of the number of slots they see;
 * - `entropy`: -a_ij ln a_ij, whose sum over a row is the entropy of its queries' attention.
 */
export type WindowStatistic = 'squares' | 'votes' | 'normalized' | 'entropy';
/**
 * Column means of the causal softmax rows of the last w queries (of all, if there are fewer) over all slots, f32
 * `[H, n]`; with `of`, means of that statistic of the weights.
 */
export const attentionWindow = (w: number, of?: WindowStatistic): Signal<'attention'> => ({
  id: 'attention.window',
  as: 'attention',
  args: { w, ...(of && { of }) },
  cost: 'window',
});
/** Column sums over every query so far, carried across events and compacted with the cache, f32 `[H, n]`. */
export const attentionAccumulated: Signal<'attention'> = { id: 'attention.accumulated', as: 'attention', cost: 'pass' };
/**
 * The same summed over the query heads of each KV head, f32 `[G, n]`: it takes an engine H / G times less memory,
 * unless the sums of query heads are read too.
 */
export const attentionAccumulatedKv: Signal<'attention'> = { ...attentionAccumulated, args: { rows: 'kv' } };
/** Column sums over the queries of the newest block only, f32 `[H, n]`. */
export const attentionBlock: Signal<'attention'> = { id: 'attention.block', as: 'attention', cost: 'pass' };
/** Largest weight that each slot received from the last w queries, f32 `[H, n]`. */
export const attentionMax = (w: number): Signal<'attention'> => ({
  id: 'attention.max',
  as: 'attention',
  args: { w },
  cost: 'window',
});

/**
 * What each slot's value adds to the layer's output: |v W_O|_1 over the query head's columns of the output projection,
 * f32 `[H, n]`. Costs that product over every slot. An output gate, where heads have one, is left out.
 */
export const outputNorms: Signal<'outputNorms'> = { id: 'values.output', as: 'outputNorms', cost: 'pass' };
/** The same with the Euclidean norm, |v W_O|_2. */
export const outputLengths: Signal<'outputNorms'> = { ...outputNorms, args: { norm: 2 } };

/**
 * How the model rotates queries and keys: at position p the pairs (i, i + rotary / 2) of the first `rotary` channels,
 * by cos and sin `[positions, rotary / 2]`.
 */
export interface Rope {
  /** Channels of a head that are rotated, an even number. */
  readonly rotary: number;
  /** Returns cos and sin of every position, `[positions, rotary / 2]`. */
  angles(positions: Uint32Array): { readonly cos: Float32Array; readonly sin: Float32Array };
  /**
   * Where the keys of slots stand that were moved together: positions, and of each slot its index among them, u32 `[G,
   * n]`. @defaultValue every key stands at its slot's position
   */
  readonly moved?: { readonly positions: Uint32Array; readonly index: Tensor } | undefined;
}
/** The model's rotary position embedding, on the host; cos and sin carry any attention factor of its scaling. */
export const rope: Signal<'rope', Rope> = { id: 'rope', as: 'rope', cost: 'free' };

/** The model's input embeddings: a text's ids without special tokens, and the rows of ids, `[ids, width]`. */
export interface Embeddings {
  /** Channels of a row. */
  readonly width: number;
  /** Returns the ids of a text, without special tokens. */
  encode(text: string): readonly number[];
  /** Returns the rows of ids, `[ids, width]`, row-major. */
  rows(ids: readonly number[]): Float32Array;
}
/** Input embeddings of any token, on the host. */
export const embeddings: Signal<'embeddings', Embeddings> = { id: 'embeddings', as: 'embeddings', cost: 'free' };

/** Returns the signal under another name, for a piece that reads two of a family. */
export const as = <N extends string, V>(name: N, signal: Signal<string, V>): Signal<N, V> => ({ ...signal, as: name });

/** What a piece is given: one entry per signal, under its name. */
export type Values<S extends readonly AnySignal[]> = {
  readonly [X in S[number] as X['as']]: X extends Signal<string, infer V> ? V : never;
};
