import { KvError } from '@kv/core';
import type { Architecture } from './architectures.ts';
import { boolean, integer, show, type JsonFields } from '../read/fields.ts';

/**
 * What mixes the tokens of a layer, and so what a sequence keeps in it: attention keeps a slot (key and value) of every
 * token, which policies may evict; any other mixer keeps a state of fixed size, which holds a trace of every token so
 * far and cannot be cut back.
 */
export type Mixer = AttentionMixer | ShortConvolution;

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

/** Returns the layers that keep slots, in order: those with attention. */
export const slotLayers = ({ mixers }: { readonly mixers: readonly Mixer[] }): readonly number[] =>
  [...mixers.keys()].filter((layer) => mixers[layer].kind === 'attention');

/** Returns the numbers of a layer's state; 0 for a layer that keeps slots. */
export const stateNumbers = (mixer: Mixer): number =>
  mixer.kind === 'shortConvolution' ? (mixer.kernel - 1) * mixer.channels : 0;

/** Returns mixers of layers that all have attention. */
export const onlyAttention = (layers: number): readonly Mixer[] =>
  Array.from({ length: layers }, () => ({ kind: 'attention' }));

/** The longest kernel of a short convolution. */
export const longestKernel = 256;

/**
 * Returns each layer's mixer by `layer_types`, or by `full_attn_idxs` as older files spell it.
 * @throws KvError naming the field that does not fit the layers
 */
export function parseMixers(
  { shortConvolutions }: Architecture,
  fields: JsonFields,
  { layers, hidden, where }: { readonly layers: number; readonly hidden: number; readonly where: string },
): readonly Mixer[] {
  if (!shortConvolutions) return onlyAttention(layers);
  const other: ShortConvolution = {
    kind: 'shortConvolution',
    channels: hidden,
    kernel: integer(fields, 'conv_L_cache', where, 3, longestKernel, 2),
    bias: boolean(fields, 'conv_bias', where, false),
  };
  return mixersOf(attends(fields, layers, where), other, where);
}

/** Returns mixers by whether each layer has attention. @throws KvError if none has, so that nothing could be kept */
export function mixersOf(attends: readonly boolean[], other: Mixer, where: string): readonly Mixer[] {
  if (attends.includes(true)) return attends.map((attention) => (attention ? { kind: 'attention' } : other));
  throw new KvError(where, `expected a layer with attention, got ${attends.length} with a short convolution`);
}

function attends(fields: JsonFields, layers: number, where: string): readonly boolean[] {
  const { layer_types: types, full_attn_idxs: indices } = fields,
    all = Array.from({ length: layers }, (_, l) => l);
  if (types != null) {
    if (Array.isArray(types) && types.length === layers && types.every((x) => x === 'conv' || x === 'full_attention'))
      return types.map((type) => type === 'full_attention');
    throw new KvError(where, `layer_types must be ${layers} of conv and full_attention, got ${show(types)}`);
  }
  if (indices == null) return all.map(() => true);
  const listed = new Set<unknown>(Array.isArray(indices) ? indices : [NaN]);
  if ([...listed].every((index) => all[index as number] === index)) return all.map((l) => listed.has(l));
  throw new KvError(where, `full_attn_idxs must be a list of layers below ${layers}, got ${show(indices)}`);
}
