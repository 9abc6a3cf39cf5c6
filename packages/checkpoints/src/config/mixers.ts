import { KvError } from '@kv/core';
import type { Architecture } from './architectures.ts';
import { boolean, integer, show, type JsonFields } from '../read/fields.ts';

/**
 * What mixes the tokens of a layer, and so what a sequence keeps in it: attention keeps a slot (key and value) of every
 * token, which policies may evict; any other mixer keeps a state of fixed size, which holds a trace of every token so
 * far and cannot be cut back.
 */
export type Mixer = AttentionMixer | ShortConvolution | GatedDelta | StateSpace;

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

/**
 * Selective state space (Mamba-2, in Granite 4.0 h): a memory `S`, `[stateDim, headDim]` of each head, that decays and
 * takes up every token. The product of the normed input gives `[z | x | B | C | dt]`.
 *
 * - `x | B | C` (`channels`) pass a convolution of each channel over the last `kernel` tokens, `sum_j kernel[j] x_(t - L + 1
 *   + j)`, a bias and SiLU. Each group of heads has its own B and C.
 * - With `dt = clamp(softplus(dt_h + timeBias_h))` and `g = exp(decay_h * dt)`: `S = g S + B (dt x)^T; y = S^T C + skip_h x`.
 * - Its result is `y * silu(z)` of all heads, joined, then a norm of each group `u / sqrt(mean u^2 + normEps) * gain`, then
 *   the output product.
 *
 * Its state is the convolution's columns `[kernel - 1, channels]`, x | B | C of the last tokens before the convolution,
 * oldest first and zeros before the first token, then `S`, `[heads, stateDim, headDim]`.
 */
export interface StateSpace {
  readonly kind: 'stateSpace';
  /** Heads of x and z, a multiple of `groups`; each has its own time step, decay and memory. */
  readonly heads: number;
  /** Channels of a head of x and z. */
  readonly headDim: number;
  /** Groups of consecutive heads that share B, C and the norm of their result. */
  readonly groups: number;
  /** Channels of B and C of a group. */
  readonly stateDim: number;
  /** Tokens L that a kernel spans, its own included. */
  readonly kernel: number;
  /** Whether both products add a bias. */
  readonly bias: boolean;
  /** Whether the convolution adds a bias. */
  readonly convolutionBias: boolean;
  /** Bounds of a time step. */
  readonly timeStep: readonly [least: number, most: number];
}

/** Returns the channels of x, B and C together, which the convolution of a state space reads. */
export const spaceChannels = ({
  heads,
  headDim,
  groups,
  stateDim,
}: Pick<StateSpace, 'heads' | 'headDim' | 'groups' | 'stateDim'>): number => heads * headDim + 2 * groups * stateDim;

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
  return mixer.kind === 'gatedDelta'
    ? (mixer.kernel - 1) * deltaChannels(mixer) + mixer.valueHeads * mixer.keyDim * mixer.valueDim
    : (mixer.kernel - 1) * spaceChannels(mixer) + mixer.heads * mixer.stateDim * mixer.headDim;
}

/** Returns mixers of layers that all have attention with the same heads. */
export const onlyAttention = (layers: number, { kvHeads, headDim }: KvHeads): readonly AttentionMixer[] =>
  Array.from({ length: layers }, () => ({ kind: 'attention', kvHeads, headDim }));

/** The longest kernel of a convolution. */
export const longestKernel = 256;

/** A mixer that keeps a state. */
export type StateMixer = Exclude<Mixer, AttentionMixer>;

/** What `layer_types` of config.json calls a layer with such a mixer and one with attention; the first is written. */
export const layerTypes: Readonly<
  Record<StateMixer['kind'], { readonly state: readonly string[]; readonly attention: readonly string[] }>
> = {
  shortConvolution: { state: ['conv'], attention: ['full_attention'] },
  gatedDelta: { state: ['linear_attention'], attention: ['full_attention'] },
  stateSpace: { state: ['mamba', 'linear_attention'], attention: ['attention', 'full_attention'] },
};

/** What a layer with such a mixer has, in errors. */
const called: Readonly<Record<StateMixer['kind'], string>> = {
  shortConvolution: 'a short convolution',
  gatedDelta: 'a gated delta rule',
  stateSpace: 'a state space',
};

/**
 * Returns each layer's mixer by `layer_types`, or as older files spell it: LFM2's by `full_attn_idxs`, Qwen 3.5's by
 * `full_attention_interval`.
 * @throws KvError naming the field that does not fit the layers
 */
export function parseMixers(
  { mixer, windows, defaults }: Architecture,
  fields: JsonFields,
  {
    layers,
    hidden,
    heads,
    where,
  }: { readonly layers: number; readonly hidden: number; readonly heads: KvHeads; readonly where: string },
): readonly Mixer[] {
  if (mixer === undefined) return onlyAttention(layers, heads);
  const attending = attends(mixer, windows !== 'none', fields, layers, where);
  if (attending.every(Boolean)) return onlyAttention(layers, heads);
  const other =
    mixer === 'gatedDelta'
      ? gatedDelta(fields, where)
      : mixer === 'stateSpace'
        ? stateSpace(fields, hidden, where)
        : shortConvolution(fields, hidden, defaults.kernel, where);
  return mixersOf(attending, other, heads, where);
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

function stateSpace(fields: JsonFields, hidden: number, where: string): StateSpace {
  const heads = integer(fields, 'mamba_n_heads', where, 128),
    inner = integer(fields, 'mamba_expand', where, 2) * hidden,
    auto = fields.mamba_d_head === 'auto' ? { mamba_d_head: null } : fields,
    headDim = integer(auto, 'mamba_d_head', where, inner / heads);
  if (heads * headDim !== inner)
    throw new KvError(
      where,
      `mamba_n_heads times mamba_d_head must be mamba_expand times hidden_size (${inner}), got ${heads * headDim}`,
    );
  return fitting(
    {
      kind: 'stateSpace',
      ...{ heads, headDim },
      groups: integer(fields, 'mamba_n_groups', where, 1),
      stateDim: integer(fields, 'mamba_d_state', where, 256),
      kernel: integer(fields, 'mamba_d_conv', where, 4, longestKernel, 2),
      bias: boolean(fields, 'mamba_proj_bias', where, false),
      convolutionBias: boolean(fields, 'mamba_conv_bias', where, true),
      timeStep: timeStepOf(fields.time_step_limit ?? unlimited, where),
    },
    'mamba_n_heads',
    where,
  );
}

/** Bounds of a time step where nothing bounds it, and infinity as transformers writes it. */
export const unlimited: readonly [number, number] = [0, Infinity];
const infinity = { __float__: 'Infinity' };

/** Returns a number of config.json as transformers writes it. */
export const floatJson = (value: number): unknown => (value === Infinity ? infinity : value);

function timeStepOf(value: unknown, where: string): readonly [number, number] {
  const number = (x: unknown): unknown => (show(x) === show(infinity) ? Infinity : x),
    [least, most, ...rest] = Array.isArray(value) ? value.map(number) : [];
  if (typeof least === 'number' && typeof most === 'number' && least >= 0 && least <= most && rest.length === 0)
    return [least, most];
  throw new KvError(where, `time_step_limit must be two ascending numbers from 0 on, got ${show(value)}`);
}

/**
 * Returns a mixer whose heads can be grouped and whose state can be counted.
 * @param heads name of the field or key of the heads that are grouped
 * @throws KvError naming it otherwise
 */
export function fitting<M extends GatedDelta | StateSpace>(mixer: M, heads: string, where: string): M {
  const [all, groups, what] =
    mixer.kind === 'gatedDelta'
      ? [mixer.valueHeads, mixer.keyHeads, 'key heads']
      : [mixer.heads, mixer.groups, 'groups'];
  if (all % groups !== 0)
    throw new KvError(where, `${heads} must be a multiple of the ${what} (${groups}), got ${all}`);
  const numbers = stateNumbers(mixer);
  if (numbers < 2 ** 31) return mixer;
  throw new KvError(
    where,
    `${heads}, the width of heads and the kernel must give a state of less than ${2 ** 31} numbers, got ${numbers}`,
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
  throw new KvError(where, `expected a layer with attention, got ${attends.length} with ${called[other.kind]}`);
}

function attends(
  kind: StateMixer['kind'],
  slides: boolean,
  fields: JsonFields,
  layers: number,
  where: string,
): readonly boolean[] {
  const { layer_types: types = fields.layers_block_type, full_attn_idxs: indices } = fields,
    all = Array.from({ length: layers }, (_, l) => l),
    { state, attention } = layerTypes[kind];
  if (types != null) {
    const sliding = slides ? ['sliding_attention'] : [],
      attending = [...attention, ...sliding];
    if (
      Array.isArray(types) &&
      types.length === layers &&
      types.every((type: string) => [...state, ...attending].includes(type))
    )
      return types.map((type: string) => attending.includes(type));
    throw new KvError(
      where,
      `layer_types must be ${layers} of ${asList([state[0], attention[0], ...sliding])}, got ${show(types)}`,
    );
  }
  if (kind === 'stateSpace') return all.map(() => false);
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
