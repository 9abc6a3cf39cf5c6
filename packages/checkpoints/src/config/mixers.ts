import { KvError } from '@kv/core';
import type { Architecture } from './architectures.ts';
import { boolean, integer, show, type JsonFields } from '../read/fields.ts';

/**
 * What mixes the tokens of a layer, and so what a sequence keeps in it: attention keeps a slot (key and value) of every
 * token, which policies may evict; any other mixer keeps a state of fixed size, which holds a trace of every token so
 * far and cannot be cut back.
 */
export type Mixer = AttentionMixer | ShortConvolution | GatedDelta;

/** Attention; its heads, window and RoPE are fields of the configuration. */
export interface AttentionMixer {
  readonly kind: 'attention';
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

/** Returns the layers that keep slots, in order: those with attention. */
export const slotLayers = ({ mixers }: { readonly mixers: readonly Mixer[] }): readonly number[] =>
  [...mixers.keys()].filter((layer) => mixers[layer].kind === 'attention');

/** Returns the numbers of a layer's state; 0 for a layer that keeps slots. */
export function stateNumbers(mixer: Mixer): number {
  if (mixer.kind === 'attention') return 0;
  if (mixer.kind === 'shortConvolution') return (mixer.kernel - 1) * mixer.channels;
  return (mixer.kernel - 1) * deltaChannels(mixer) + mixer.valueHeads * mixer.keyDim * mixer.valueDim;
}

/** Returns mixers of layers that all have attention. */
export const onlyAttention = (layers: number): readonly Mixer[] =>
  Array.from({ length: layers }, () => ({ kind: 'attention' }));

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
  { mixer, windows, defaults }: Architecture,
  fields: JsonFields,
  { layers, hidden, where }: { readonly layers: number; readonly hidden: number; readonly where: string },
): readonly Mixer[] {
  if (mixer === undefined) return onlyAttention(layers);
  const other =
    mixer === 'gatedDelta' ? gatedDelta(fields, where) : shortConvolution(fields, hidden, defaults.kernel, where);
  return mixersOf(attends(other.kind, windows !== 'none', fields, layers, where), other, where);
}

function shortConvolution(fields: JsonFields, channels: number, length = 3, where: string): ShortConvolution {
  return {
    kind: 'shortConvolution',
    channels,
    kernel: integer(fields, 'conv_L_cache', where, length, longestKernel, 2),
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
export function mixersOf(attends: readonly boolean[], other: StateMixer, where: string): readonly Mixer[] {
  if (attends.includes(true)) return attends.map((attention) => (attention ? { kind: 'attention' } : other));
  const what = other.kind === 'gatedDelta' ? 'a gated delta rule' : 'a short convolution';
  throw new KvError(where, `expected a layer with attention, got ${attends.length} with ${what}`);
}

function attends(
  kind: StateMixer['kind'],
  slides: boolean,
  fields: JsonFields,
  layers: number,
  where: string,
): readonly boolean[] {
  const { layer_types: types, full_attn_idxs: indices } = fields,
    all = Array.from({ length: layers }, (_, l) => l),
    word = layerType[kind];
  if (types != null) {
    const known = [word, 'full_attention', ...(slides ? ['sliding_attention'] : [])];
    if (Array.isArray(types) && types.length === layers && types.every((x) => known.includes(x as string)))
      return types.map((type) => type !== word);
    throw new KvError(where, `layer_types must be ${layers} of ${asList(known)}, got ${show(types)}`);
  }
  if (kind === 'gatedDelta') return everyNth(layers, integer(fields, 'full_attention_interval', where, 4));
  if (indices == null) return all.map(() => true);
  const listed = new Set<unknown>(Array.isArray(indices) ? indices : [NaN]);
  if ([...listed].every((index) => all[index as number] === index)) return all.map((l) => listed.has(l));
  throw new KvError(where, `full_attn_idxs must be a list of layers below ${layers}, got ${show(indices)}`);
}

/** Returns names as a list in a sentence. */
export const asList = (names: readonly string[]): string => `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;

/** Returns true for every n-th of the layers. */
export const everyNth = (layers: number, n: number): readonly boolean[] =>
  Array.from({ length: layers }, (_, l) => (l + 1) % n === 0);
