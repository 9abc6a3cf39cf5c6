import { KvError } from '@kv/core';
import { architectures, type Architecture, type ArchitectureName } from '../architectures.ts';
import { boolean, integer, object, optional, positive, show, type Fields } from './fields.ts';
import { parseRope, type RopeConfig } from './rope-config.ts';

/** The shape of a decoder. All counts are positive integers; `queryHeads % kvHeads === 0`; `headDim` is even. */
export interface ModelConfig {
  readonly architecture: ArchitectureName;
  readonly layers: number;
  readonly queryHeads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** Width of the residual stream (D). */
  readonly hidden: number;
  /** Width of the gated feed-forward layer. */
  readonly ffn: number;
  readonly vocab: number;
  readonly rope: RopeConfig;
  readonly attention: AttentionConfig;
  /** Products that add a bias. */
  readonly biases: { readonly qkv: boolean; readonly output: boolean; readonly ffn: boolean };
  /** What gates the feed-forward layer; gelu is the tanh form. */
  readonly activation: 'silu' | 'gelu';
  readonly normEps: number;
  /** Multiplies embeddings. */
  readonly embeddingScale: number;
  /** Logits become `cap * tanh(logits / cap)`. */
  readonly finalSoftcap?: number;
  /** Positions the model was trained for. */
  readonly maxPositions: number;
  /** Whether the embedding is also the head. */
  readonly tied: boolean;
  readonly bosId?: number;
  readonly eosIds: readonly number[];
}

/** How scores are made of q·k. */
export interface AttentionConfig {
  readonly scale: number;
  /** Scores become `cap * tanh(score / cap)`. */
  readonly softcap?: number;
  /** Per layer, how many positions a query sees, its own included; Infinity for all. */
  readonly windows: readonly number[];
}

/** Lists by layer and by pair of a head are made before any weight proves the counts: no model is larger. */
export const mostLayers = 4096;
export const mostHeadDim = 65_536;

/**
 * Reads a Hugging Face `config.json`; defaults are those of transformers.
 * @throws KvError `where: field must be …, got …` for a field that is missing or out of range, and for what this
 * decoder does not compute.
 */
export function parseConfig(json: unknown, where: string): ModelConfig {
  const fields = object(json, where, 'the configuration');
  const name = architectureOf(fields.model_type, 'model_type', where);
  const kind = architectures[name];
  for (const field of ['quantization_config', 'use_bidirectional_attention'])
    if (fields[field] != null && fields[field] !== false)
      throw new KvError(where, `${field} must be absent, got ${show(fields[field])}`);
  const hidden = integer(fields, 'hidden_size', where);
  const queryHeads = integer(fields, 'num_attention_heads', where);
  const kvHeads = integer(fields, 'num_key_value_heads', where, queryHeads);
  const headDim = integer(fields, 'head_dim', where, kind.defaults.headDim ?? hidden / queryHeads, mostHeadDim);
  checkHeads(queryHeads, kvHeads, headDim, where);
  const layers = integer(fields, 'num_hidden_layers', where, undefined, mostLayers);
  const vocab = integer(fields, 'vocab_size', where);
  const maxPositions = integer(fields, 'max_position_embeddings', where, kind.defaults.maxPositions);
  const bias = (of: boolean | string): boolean => (typeof of === 'boolean' ? of : boolean(fields, of, where, false));
  const bosId = tokenIds(fields, 'bos_token_id', vocab, where)[0];
  return {
    architecture: name,
    layers,
    queryHeads,
    kvHeads,
    headDim,
    hidden,
    ffn: integer(fields, 'intermediate_size', where),
    vocab,
    rope: parseRope(fields, { headDim, maxPositions, partial: kind.partialRotary, where }),
    attention: {
      scale: (kind.softcaps ? positive(fields, 'query_pre_attn_scalar', where, 256) : headDim) ** -0.5,
      ...(kind.softcaps ? optional('softcap', softcap(fields, 'attn_logit_softcapping', where, 50)) : {}),
      windows: windowsOf(kind, fields, layers, where),
    },
    biases: { qkv: bias(kind.biases.qkv), output: bias(kind.biases.output), ffn: bias(kind.biases.ffn) },
    activation: activationOf(fields, where),
    normEps: positive(fields, 'rms_norm_eps', where, kind.defaults.normEps),
    embeddingScale: kind.scaledEmbedding ? Math.fround(Math.sqrt(hidden)) : 1,
    ...(kind.softcaps ? optional('finalSoftcap', softcap(fields, 'final_logit_softcapping', where, 30)) : {}),
    maxPositions,
    tied: boolean(fields, 'tie_word_embeddings', where, kind.defaults.tied),
    ...optional('bosId', bosId),
    eosIds: tokenIds(fields, 'eos_token_id', vocab, where),
  };
}

/** @throws KvError for heads that cannot be grouped or halved. */
export function checkHeads(queryHeads: number, kvHeads: number, headDim: number, where: string): void {
  if (queryHeads % kvHeads !== 0)
    throw new KvError(
      where,
      `num_attention_heads must be a multiple of num_key_value_heads (${kvHeads}), got ${queryHeads}`,
    );
  if (headDim % 2 !== 0) throw new KvError(where, `head_dim must be even, got ${headDim}`);
}

/** @throws KvError that lists the architectures. */
export function architectureOf(value: unknown, field: string, where: string): ArchitectureName {
  if (typeof value === 'string' && Object.hasOwn(architectures, value)) return value as ArchitectureName;
  throw new KvError(where, `${field} must be one of ${Object.keys(architectures).join(', ')}, got ${show(value)}`);
}

/** Windows by layer from the size, or everything. */
export function slidingWindows(
  kind: Architecture,
  size: number | undefined,
  layers: number,
  slides?: (layer: number) => boolean,
): number[] {
  const by =
    slides ?? { none: () => false, all: () => true, even: (l: number) => l % 2 === 0, from: () => false }[kind.windows];
  return Array.from({ length: layers }, (_, l) => (size !== undefined && by(l) ? size : Infinity));
}

function windowsOf(kind: Architecture, fields: Fields, layers: number, where: string): number[] {
  const { windows, defaults } = kind;
  const wanted =
    windows !== 'none' &&
    fields.sliding_window !== null &&
    (windows !== 'from' || boolean(fields, 'use_sliding_window', where, false));
  const absent = fields.sliding_window === undefined && defaults.window === undefined;
  const size = wanted && !absent ? integer(fields, 'sliding_window', where, defaults.window) : undefined;
  if ((windows === 'even' || windows === 'from') && fields.layer_types != null) {
    const types = layerTypes(fields.layer_types, layers, where);
    return slidingWindows(kind, size, layers, (l) => types[l] === 'sliding_attention');
  }
  if (windows !== 'from' || size === undefined) return slidingWindows(kind, size, layers);
  const first = fields.max_window_layers === 0 ? 0 : integer(fields, 'max_window_layers', where, 28);
  return slidingWindows(kind, size, layers, (l) => l >= first);
}

function layerTypes(value: unknown, layers: number, where: string): readonly unknown[] {
  const known = ['full_attention', 'sliding_attention'];
  if (Array.isArray(value) && value.length === layers && value.every((type) => known.includes(type as string)))
    return value;
  throw new KvError(where, `layer_types must be ${layers} of ${known.join(' and ')}, got ${show(value)}`);
}

function softcap(fields: Fields, name: string, where: string, fallback: number): number | undefined {
  return fields[name] === null ? undefined : positive(fields, name, where, fallback);
}

function activationOf(fields: Fields, where: string): 'silu' | 'gelu' {
  const name = fields.hidden_activation == null ? 'hidden_act' : 'hidden_activation';
  const value = fields[name] ?? (fields.model_type === 'gemma2' ? 'gelu_pytorch_tanh' : 'silu');
  if (value === 'silu' || value === 'swish') return 'silu';
  if (value === 'gelu_pytorch_tanh' || value === 'gelu_new') return 'gelu';
  throw new KvError(where, `${name} must be "silu" or "gelu_pytorch_tanh", got ${show(value)}`);
}

/** One id, a list or nothing. */
function tokenIds(fields: Fields, name: string, vocab: number, where: string): readonly number[] {
  const value = fields[name];
  const ids = value == null ? [] : Array.isArray(value) ? (value as unknown[]) : [value];
  return ids.map((id) => {
    if (Number.isInteger(id) && (id as number) >= 0 && (id as number) < vocab) return id as number;
    throw new KvError(where, `${name} must be a token id below vocab_size (${vocab}), got ${show(value)}`);
  });
}
