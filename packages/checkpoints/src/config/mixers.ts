import { KvError } from '@kv/core';
import type { Architecture } from './architectures.ts';
import { boolean, integer, show, type JsonFields } from '../read/fields.ts';

/**
 * What mixes the tokens of a layer, and so what a sequence keeps in it: attention keeps a slot (key and value) of every
 * token, which policies may evict; any other mixer keeps a state of fixed size, which holds a trace of every token so
 * far and cannot be cut back.
 */
export type Mixer = AttentionMixer | ShortConvolution | GatedDelta;

/** Attention; its query heads, window and RoPE are fields of the configuration. */
export interface AttentionMixer extends KvHeads {
  readonly kind: 'attention';
  /**
   * The earlier layer whose slots it reads, of the same heads and window; it then computes no keys and values.
   * @defaultValue it has slots of its own
   */
  readonly slotsOf?: number;
  /**
   * Query heads of all layers that read its slots, in the configuration that policies see, where these layers are one.
   * @defaultValue those of the configuration
   */
  readonly queryHeads?: number;
  /** Whether values are what the keys' product gives, before the keys' norm and rotation. @defaultValue false */
  readonly valuesOfKeys?: boolean;
}

/** Heads of keys and values; layers of a model may differ in both. */
export interface KvHeads {
  /** KV heads G. */
  readonly kvHeads: number;
  /** Channels d of a head, of queries too. */
  readonly headDim: number;
}

/** Head counts and width of a layer's attention. */
export interface Heads extends KvHeads {
  /** Query heads H. */
  readonly queryHeads: number;
}

/**
 * Gated short convolution (LFM2). With B, C, u the thirds of a product of the normed input: `z = B * u`, then `y_t = C_t
 * * sum_j kernel[j] z_(t - L + 1 + j)` in every channel, then the output product. Its state is `z` of the last L - 1
 * tokens, zeros before the first.
 */
export interface ShortConvolution {
  readonly kind: 'shortConvolution';
  /** Channels of B, C and u. */
  readonly channels: number;
  /** Tokens L that a kernel spans, its own included. */
  readonly kernel: number;
  /** Whether the kernel and both products add a bias. */
  readonly bias: boolean;
}

/**
 * Gated delta rule (Qwen 3.5): a linear attention whose memory `S`, `[keyDim, valueDim]` of each value head, is
 * corrected by every token. The product of the normed input gives `[q | k | v | z | b | a]`.
 *
 * - `q | k | v` (`channels`) pass a convolution of each channel over the last `kernel` tokens, `sum_j kernel[j] x_(t - L + 1
 *   + j)`, and SiLU. Then q and k of each key head become `x / sqrt(sum x^2 + 1e-6)`, and q is divided by sqrt(keyDim).
 * - Value head h reads q and k of one key head, which `DeltaWeights.keyHeadOf` tells. With `beta = sigmoid(b_h)` and `g =
 *   exp(decay_h * softplus(a_h + timeBias_h))`: `S *= g; S += k (beta * (v - S^T k))^T; o = S^T q`.
 * - Its result is `o / sqrt(mean o^2 + normEps) * gain * silu(z)` of each value head, joined, then the output product.
 *
 * Its state is the convolution's columns `[kernel - 1, channels]`, q | k | v of the last tokens before the convolution,
 * oldest first and zeros before the first token, then `S`, `[valueHeads, keyDim, valueDim]`.
 */
export interface GatedDelta {
  readonly kind: 'gatedDelta';
  /** Heads of q and k. */
  readonly keyHeads: number;
  /** Heads of v and z, a multiple of `keyHeads`; each has its own beta, decay and memory. */
  readonly valueHeads: number;
  /** Channels of a head of q and k. */
  readonly keyDim: number;
  /** Channels of a head of v and z. */
  readonly valueDim: number;
  /** Tokens L that a kernel spans, its own included. */
  readonly kernel: number;
}

/** Returns the channels of q, k and v together, which the convolution of a gated delta rule reads. */
export const deltaChannels = ({ keyHeads, valueHeads, keyDim, valueDim }: GatedDelta): number =>
  2 * keyHeads * keyDim + valueHeads * valueDim;

/** The mixers of a model's layers. */
type Mixers = { readonly mixers: readonly Mixer[] };

/** Whether a layer keeps slots of its own: it has attention, and reads no other layer's. */
export const keepsSlots = (mixer: Mixer): mixer is AttentionMixer =>
  mixer.kind === 'attention' && mixer.slotsOf === undefined;

/** Returns the layers that keep slots, in order. */
export const slotLayers = ({ mixers }: Mixers): readonly number[] =>
  [...mixers.keys()].filter((layer) => keepsSlots(mixers[layer]));

/** Returns the heads of the layers that keep slots, in order. */
export const slotHeads = ({ mixers }: Mixers): readonly KvHeads[] => mixers.filter(keepsSlots);

/** Returns the KV heads of all layers that keep slots together. */
export const slotRows = (config: Mixers): number => slotHeads(config).reduce((sum, { kvHeads }) => sum + kvHeads, 0);

/**
 * Returns the heads that all layers with attention have.
 * @param name what needs them alike, for the error @defaultValue 'model'
 * @throws KvError for a model whose layers differ
 */
export function commonHeads(config: Mixers & Pick<Heads, 'queryHeads'>, name = 'model'): Heads {
  const [first, ...others] = slotLayers(config).map((layer) => headsOf(config, layer)),
    { queryHeads, kvHeads, headDim } = first,
    text = (of: Heads): string => `${of.queryHeads} query and ${of.kvHeads} KV heads of ${of.headDim} channels`;
  for (const other of others)
    if (other.queryHeads !== queryHeads || other.kvHeads !== kvHeads || other.headDim !== headDim)
      throw new KvError(
        name,
        `expected a model whose layers have the same heads, got ${text(first)} and ${text(other)}`,
      );
  return first;
}

/** Returns the different widths of heads in a model. */
export const headDims = (config: Mixers): readonly number[] => [
  ...new Set(slotHeads(config).map(({ headDim }) => headDim)),
];

/** Returns the heads of a layer with attention. @throws KvError for a layer without */
export function headsOf({ queryHeads, mixers }: Mixers & Pick<Heads, 'queryHeads'>, layer: number): Heads {
  const mixer = mixers[layer];
  if (mixer?.kind !== 'attention')
    throw new KvError('model', `expected layer ${layer} to have attention, got ${mixer?.kind ?? 'no such layer'}`);
  return { queryHeads: mixer.queryHeads ?? queryHeads, kvHeads: mixer.kvHeads, headDim: mixer.headDim };
}

/** Returns the numbers of a layer's state; 0 for a layer that keeps slots. */
export function stateNumbers(mixer: Mixer): number {
  if (mixer.kind === 'attention') return 0;
  if (mixer.kind === 'shortConvolution') return (mixer.kernel - 1) * mixer.channels;
  return (mixer.kernel - 1) * deltaChannels(mixer) + mixer.valueHeads * mixer.keyDim * mixer.valueDim;
}

/** Returns mixers of layers that all have attention with the same heads. */
export const onlyAttention = (layers: number, { kvHeads, headDim }: KvHeads): readonly AttentionMixer[] =>
  Array.from({ length: layers }, () => ({ kind: 'attention', kvHeads, headDim }));

/** The longest kernel of a convolution. */
export const longestKernel = 256;

/** A mixer that keeps a state. */
export type StateMixer = Exclude<Mixer, AttentionMixer>;

/** What `layer_types` of config.json calls a layer with such a mixer. */
export const layerType: Readonly<Record<StateMixer['kind'], string>> = {
  shortConvolution: 'conv',
  gatedDelta: 'linear_attention',
};

/**
 * Returns each layer's mixer by `layer_types`, or as older files spell it: LFM2's by `full_attn_idxs`, Qwen 3.5's by
 * `full_attention_interval`.
 * @throws KvError naming the field that does not fit the layers
 */
export function parseMixers(
  { mixer }: Architecture,
  fields: JsonFields,
  {
    layers,
    hidden,
    heads,
    where,
  }: { readonly layers: number; readonly hidden: number; readonly heads: KvHeads; readonly where: string },
): readonly Mixer[] {
  if (mixer === undefined) return onlyAttention(layers, heads);
  const other = mixer === 'gatedDelta' ? gatedDelta(fields, where) : shortConvolution(fields, hidden, where);
  return mixersOf(attends(other.kind, fields, layers, where), other, heads, where);
}

function shortConvolution(fields: JsonFields, channels: number, where: string): ShortConvolution {
  return {
    kind: 'shortConvolution',
    channels,
    kernel: integer(fields, 'conv_L_cache', where, 3, longestKernel, 2),
    bias: boolean(fields, 'conv_bias', where, false),
  };
}

function gatedDelta(fields: JsonFields, where: string): GatedDelta {
  const count = (name: string, fallback: number, most?: number, least?: number): number =>
    integer(fields, `linear_${name}`, where, fallback, most, least);
  return fitting(
    {
      kind: 'gatedDelta',
      keyHeads: count('num_key_heads', 16),
      valueHeads: count('num_value_heads', 32),
      keyDim: count('key_head_dim', 128),
      valueDim: count('value_head_dim', 128),
      kernel: count('conv_kernel_dim', 4, longestKernel, 2),
    },
    'linear_num_value_heads',
    where,
  );
}

/**
 * Returns a gated delta rule whose heads can be grouped and whose state can be counted.
 * @throws KvError naming the field or key `valueHeads` otherwise
 */
export function fitting(mixer: GatedDelta, valueHeads: string, where: string): GatedDelta {
  if (mixer.valueHeads % mixer.keyHeads !== 0)
    throw new KvError(
      where,
      `${valueHeads} must be a multiple of the key heads (${mixer.keyHeads}), got ${mixer.valueHeads}`,
    );
  const numbers = stateNumbers(mixer);
  if (numbers < 2 ** 31) return mixer;
  throw new KvError(
    where,
    `${valueHeads}, the width of heads and the kernel must give a state of less than ${2 ** 31} numbers, got ${numbers}`,
  );
}

/** Returns mixers by whether each layer has attention. @throws KvError if none has, so that nothing could be kept */
export function mixersOf(
  attends: readonly boolean[],
  other: StateMixer,
  { kvHeads, headDim }: KvHeads,
  where: string,
): readonly Mixer[] {
  if (attends.includes(true))
    return attends.map((attention) => (attention ? { kind: 'attention', kvHeads, headDim } : other));
  const what = other.kind === 'gatedDelta' ? 'a gated delta rule' : 'a short convolution';
  throw new KvError(where, `expected a layer with attention, got ${attends.length} with ${what}`);
}

function attends(kind: StateMixer['kind'], fields: JsonFields, layers: number, where: string): readonly boolean[] {
  const { layer_types: types, full_attn_idxs: indices } = fields,
    all = Array.from({ length: layers }, (_, l) => l),
    word = layerType[kind];
  if (types != null) {
    if (Array.isArray(types) && types.length === layers && types.every((x) => x === word || x === 'full_attention'))
      return types.map((type) => type === 'full_attention');
    throw new KvError(where, `layer_types must be ${layers} of ${word} and full_attention, got ${show(types)}`);
  }
  if (kind === 'gatedDelta') return everyNth(layers, integer(fields, 'full_attention_interval', where, 4));
  if (indices == null) return all.map(() => true);
  const listed = new Set<unknown>(Array.isArray(indices) ? indices : [NaN]);
  if ([...listed].every((index) => all[index as number] === index)) return all.map((l) => listed.has(l));
  throw new KvError(where, `full_attn_idxs must be a list of layers below ${layers}, got ${show(indices)}`);
}

/** Returns true for every n-th of the layers. */
export const everyNth = (layers: number, n: number): readonly boolean[] =>
  Array.from({ length: layers }, (_, l) => (l + 1) % n === 0);
