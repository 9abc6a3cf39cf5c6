import { KvError } from '@kv/core';
import type { Architecture } from './architectures.ts';
import { boolean, integer, object, optional, positive, show, type JsonFields } from '../read/fields.ts';

/** Rotary position embedding of a layer: pair i of `rotary / 2` turns by position * theta^(-2i / rotary) / divisor. */
export interface RopeConfig {
  /** Base of the frequencies. */
  readonly theta: number;
  /** Leading channels of a head that are rotated, as pairs (i, i + rotary / 2); 0 for a layer without positions. */
  readonly rotary: number;
  /** Divisors of the frequencies, `[rotary / 2]`; Infinity for a pair that does not turn. @defaultValue 1 */
  readonly divisors?: readonly number[];
  /** Divisors for sequences of more than `beyond` tokens (LongRoPE, arXiv:2402.13753). */
  readonly long?: { readonly divisors: readonly number[]; readonly beyond: number };
  /** Factor applied to cos and sin. @defaultValue 1 */
  readonly attentionFactor?: number;
  /** Number of positions that the scaling extends the trained range to, if it says so (YaRN). */
  readonly reach?: number;
}

/** RoPE of a layer without rotation. */
const unturned: RopeConfig = { theta: 1, rotary: 0 };

/**
 * Returns each layer's RoPE: the model's own; that of windowed layers, where the architecture has one; or none, where
 * `turns` says so.
 */
export function ropesByLayer(
  rope: RopeConfig,
  local: RopeConfig | undefined,
  windows: readonly number[],
  turns: readonly boolean[],
): readonly RopeConfig[] {
  return windows.map((window, l) => (turns[l] ? (window === Infinity ? rope : (local ?? rope)) : unturned));
}

/** Known scaling parameters. `finetuned` only says where a checkpoint comes from. */
const known: ReadonlySet<string> = new Set([
  'type',
  'rope_type',
  'rope_theta',
  'partial_rotary_factor',
  'factor',
  'original_max_position_embeddings',
  'attention_factor',
  'beta_fast',
  'beta_slow',
  'mscale',
  'mscale_all_dim',
  'truncate',
  'low_freq_factor',
  'high_freq_factor',
  'short_factor',
  'long_factor',
  'finetuned',
]);

/** Parameters of some architectures alone. */
const ownParameters = (kind: Architecture, field: string): boolean =>
  (kind.imagePositions && field.startsWith('mrope_')) ||
  (kind.queryScale && (field === 'llama_4_scaling_beta' || field === 'max_position_embeddings'));

interface Around {
  readonly headDim: number;
  /** Width of heads in windowed layers, where it differs. */
  readonly localHeadDim?: number | undefined;
  readonly maxPositions: number;
  readonly layers: number;
  readonly kind: Architecture;
  readonly where: string;
}

/** Parameters that say how a model was trained, not how its positions are scaled. */
const trained = ['rope_theta', 'partial_rotary_factor', 'llama_4_scaling_beta'];

/**
 * Returns `rope_parameters` and `rope_scaling` with one of the two at most: a scaling counts before parameters, as in
 * transformers, and those of the class count where a file has neither. Users add a scaling to a file that has parameters, whose
 * base is then still the model's; transformers would take that of the class.
 */
export function ropeFields(kind: Architecture, fields: JsonFields, where: string): JsonFields {
  const { rope_scaling: given, rope_parameters: parameters } = fields,
    scaling = given == null ? {} : object(given, where, 'rope_scaling');
  if (Object.keys(scaling).length === 0)
    return { rope_scaling: undefined, rope_parameters: parameters ?? kind.defaults.rope };
  if (parameters == null) return {};
  const before = object(parameters, where, 'rope_parameters'),
    kept = (of: JsonFields, keeps: (field: string) => boolean): JsonFields =>
      Object.fromEntries(Object.entries(of).filter(([field]) => keeps(field)));
  if (!isNested(kind, before))
    return {
      rope_scaling: undefined,
      rope_parameters: { ...kept(before, (field) => trained.includes(field) && fields[field] == null), ...scaling },
    };
  const full =
      before.full_attention == null ? {} : object(before.full_attention, where, 'full_attention of rope_parameters'),
    typed = (scaling.rope_type ?? scaling.type) != null,
    rest = kept(full, (field) => !typed || (field !== 'rope_type' && field !== 'type'));
  return { rope_scaling: undefined, rope_parameters: { ...before, full_attention: { ...rest, ...scaling } } };
}

/** Whether parameters are of each kind of layer apart. */
const isNested = (kind: Architecture, all: JsonFields): boolean =>
  kind.localTheta !== undefined && (all.full_attention != null || all.sliding_attention != null);

/** Returns the number of positions in training, which a file may say next to its scaling. */
export const originalPositions = (
  fields: JsonFields,
  rope: JsonFields,
  maxPositions: number | undefined,
  where: string,
): number =>
  integer(
    fields.original_max_position_embeddings == null ? rope : fields,
    'original_max_position_embeddings',
    where,
    maxPositions,
  );

/**
 * Reads `rope_parameters`, or `rope_scaling` and `rope_theta` as older files spell it; `local` is the RoPE of windowed
 * layers, where the architecture has two, `listed` that of every layer, where the file lists bases.
 * @throws KvError naming the field and the supported types
 */
export function parseRope(
  fields: JsonFields,
  { headDim, localHeadDim, maxPositions, layers, kind, where }: Around,
): { readonly rope: RopeConfig; readonly local?: RopeConfig; readonly listed?: readonly RopeConfig[] } {
  const name = fields.rope_parameters == null ? 'rope_scaling' : 'rope_parameters';
  const all = fields[name] == null ? {} : object(fields[name], where, name),
    part = (of: string): JsonFields => (all[of] == null ? {} : object(all[of], where, `${name}.${of}`)),
    nested = isNested(kind, all);
  const rope = nested ? part('full_attention') : all,
    inner = nested ? part('sliding_attention') : {};
  for (const of of nested ? [rope, inner] : [rope])
    for (const field of Object.keys(of))
      if (of[field] != null && !known.has(field) && !ownParameters(kind, field))
        throw new KvError(where, `${field} of ${name} must be absent, got ${show(of[field])}`);
  const theta = (of: JsonFields, field: string, fallback: number): number =>
    of.rope_theta == null ? positive(fields, field, where, fallback) : positive(of, 'rope_theta', where);
  const share = positive(
    rope.partial_rotary_factor == null ? fields : rope,
    'partial_rotary_factor',
    where,
    kind.defaults.rotary ?? 1,
  );
  const proportional = (rope.rope_type ?? rope.type) === 'proportional';
  if (share > 1 || (share !== 1 && !kind.partialRotary && !proportional))
    throw new KvError(where, `partial_rotary_factor must be ${kind.partialRotary ? 'at most 1' : '1'}, got ${share}`);
  const rotary = proportional ? headDim : Math.floor(headDim * share);
  if (rotary % 2 !== 0 && share !== 1 && !proportional)
    throw new KvError(where, `partial_rotary_factor must leave an even part of head_dim (${headDim}), got ${share}`);
  const localType = inner.rope_type ?? inner.type ?? 'default';
  if (localType !== 'default')
    throw new KvError(where, `rope_type of sliding_attention must be default, got ${show(localType)}`);
  const turned = (base: number): RopeConfig =>
      scaled({ theta: base, rotary }, fields, rope, { maxPositions, kind, where }),
    list = kind.listedThetas ? thetasOf(fields, layers, where) : undefined,
    ropes = new Map([...new Set(list)].map((base) => [base, base === 0 ? unturned : turned(base)]));
  const base = theta(rope, 'rope_theta', kind.defaults.theta ?? 10_000);
  return {
    rope: turned(base),
    ...(list && { listed: list.map((base) => ropes.get(base)!) }), // of the list's own entry above
    ...(kind.localTheta !== undefined && {
      local: {
        theta: theta(inner, 'rope_local_base_freq', kind.localTheta === 'same' ? base : kind.localTheta),
        rotary: localHeadDim ?? rotary,
      },
    }),
  };
}

/** Returns the RoPE bases that a file lists for its layers, 0 for a layer that rotates nothing. */
function thetasOf(fields: JsonFields, layers: number, where: string): readonly number[] | undefined {
  const list = fields.layer_rope_theta;
  if (list == null) return undefined;
  if (Array.isArray(list) && list.length === layers && list.every((x) => Number.isFinite(x) && x >= 0))
    return list as readonly number[];
  throw new KvError(where, `layer_rope_theta must be ${layers} numbers of at least 0, got ${show(list)}`);
}

function scaled(
  plain: RopeConfig,
  fields: JsonFields,
  rope: JsonFields,
  { maxPositions, kind, where }: Pick<Around, 'maxPositions' | 'kind' | 'where'>,
): RopeConfig {
  const { rotary } = plain,
    type = rope.rope_type ?? rope.type ?? 'default',
    original = (): number => originalPositions(fields, rope, maxPositions, where);
  switch (type === 'yarn' && kind.longAsYarn ? 'longrope' : type) {
    case 'default':
      return plain;
    case 'linear':
      return { ...plain, divisors: new Array<number>(rotary / 2).fill(positive(rope, 'factor', where)) };
    case 'llama3':
      return { ...plain, divisors: llama3(plain, rope, original(), where) };
    case 'proportional':
      return { ...plain, divisors: proportionalDivisors(rotary, fields, rope, where) };
    case 'yarn':
      return yarn(plain, yarnFields(rope, original(), maxPositions, where));
    case 'su':
    case 'longrope':
      return { ...plain, ...longrope(rotary, rope, original(), maxPositions, where) };
    default:
      throw new KvError(
        where,
        `rope_type must be one of default, linear, llama3, proportional, yarn, longrope, got ${show(type)}`,
      );
  }
}

/** Gemma 4's and LFM3's: the first pairs turn as in a head that turns whole, the others do not. */
function proportionalDivisors(rotary: number, fields: JsonFields, rope: JsonFields, where: string): readonly number[] {
  const from = rope.partial_rotary_factor == null ? fields : rope,
    turning = Math.floor((positive(from, 'partial_rotary_factor', where, 1) * rotary) / 2),
    factor = positive(rope, 'factor', where, 1);
  return Array.from({ length: rotary / 2 }, (_, i) => (i < turning ? factor : Infinity));
}

/** Parameters of YaRN. */
export interface Yarn {
  readonly factor: number;
  /** Number of positions in training. */
  readonly original: number;
  /** Factor applied to cos and sin. @defaultValue the paper's, 0.1 ln(factor) + 1 */
  readonly attentionFactor?: number | undefined;
  /** Pairs that make more turns than this over the training positions keep their frequency. @defaultValue 32 */
  readonly fast?: number | undefined;
  /** Pairs that make fewer turns than this are slowed by the whole factor. @defaultValue 1 */
  readonly slow?: number | undefined;
  /** Whether the bounds between these pairs are rounded to whole pairs. @defaultValue true */
  readonly truncate?: boolean | undefined;
}

/**
 * YaRN (Peng et al. 2023, arXiv:2309.00071, section 3): slow pairs are slowed by the factor, fast pairs are unchanged,
 * and pairs between them are interpolated linearly by their index.
 */
export function yarn(
  plain: RopeConfig,
  { factor, original, attentionFactor = yarnAttention(factor), fast = 32, slow = 1, truncate = true }: Yarn,
): RopeConfig {
  const { theta, rotary } = plain,
    pairAt = (turns: number): number => (rotary * Math.log(original / (turns * 2 * Math.PI))) / (2 * Math.log(theta));
  const low = Math.max(0, truncate ? Math.floor(pairAt(fast)) : pairAt(fast)),
    high = Math.min(rotary - 1, truncate ? Math.ceil(pairAt(slow)) : pairAt(slow)),
    width = high === low ? 0.001 : high - low;
  return {
    ...plain,
    divisors: Array.from({ length: rotary / 2 }, (_, i) => {
      const slowed = Math.min(1, Math.max(0, (i - low) / width));
      return 1 / (slowed / factor + (1 - slowed));
    }),
    ...optional('attentionFactor', attentionFactor === 1 ? undefined : attentionFactor),
    reach: Math.floor(factor * original),
  };
}

/** YaRN's factor for cos and sin, which keeps attention as sharp as in training. */
export const yarnAttention = (factor: number, by = 1): number => (factor <= 1 ? 1 : 0.1 * by * Math.log(factor) + 1);

function yarnFields(rope: JsonFields, original: number, maxPositions: number, where: string): Yarn {
  const number = (name: string): number | undefined => (rope[name] == null ? undefined : positive(rope, name, where));
  const factor = positive(rope, 'factor', where, maxPositions / original),
    [one, all] = [number('mscale'), number('mscale_all_dim')];
  return {
    factor,
    original,
    attentionFactor:
      number('attention_factor') ??
      (one !== undefined && all !== undefined ? yarnAttention(factor, one) / yarnAttention(factor, all) : undefined),
    fast: number('beta_fast'),
    slow: number('beta_slow'),
    truncate: boolean(rope, 'truncate', where, true),
  };
}

/**
 * Llama 3.1's scaling: long wavelengths are slowed by `factor`, short ones are unchanged,
 * those between are interpolated.
 */
function llama3({ theta, rotary }: RopeConfig, rope: JsonFields, original: number, where: string): number[] {
  const [factor, low, high] = [
    positive(rope, 'factor', where),
    positive(rope, 'low_freq_factor', where),
    positive(rope, 'high_freq_factor', where),
  ];
  if (high <= low) throw new KvError(where, `high_freq_factor must be above low_freq_factor (${low}), got ${high}`);
  return Array.from({ length: rotary / 2 }, (_, i) => {
    const wave = 2 * Math.PI * theta ** ((2 * i) / rotary);
    const share = Math.min(1, Math.max(0, (original / wave - low) / (high - low)));
    return 1 / ((1 - share) / factor + share);
  });
}

function longrope(
  rotary: number,
  rope: JsonFields,
  beyond: number,
  maxPositions: number,
  where: string,
): Partial<RopeConfig> {
  const factor = positive(rope, 'factor', where, maxPositions / beyond);
  const attentionFactor = positive(
    rope,
    'attention_factor',
    where,
    factor <= 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(beyond)),
  );
  return {
    divisors: divisorsOf(rope.short_factor, 'short_factor', rotary, where),
    long: { divisors: divisorsOf(rope.long_factor, 'long_factor', rotary, where), beyond },
    ...optional('attentionFactor', attentionFactor === 1 ? undefined : attentionFactor),
  };
}

/** Reads a list of divisors. @throws KvError unless it holds a positive number for each pair */
function divisorsOf(value: unknown, name: string, rotary: number, where: string): readonly number[] {
  if (
    Array.isArray(value) &&
    value.length === rotary / 2 &&
    value.every((x) => typeof x === 'number' && Number.isFinite(x) && x > 0)
  )
    return value as number[];
  throw new KvError(where, `${name} must be ${rotary / 2} positive numbers, got ${show(value)}`);
}
