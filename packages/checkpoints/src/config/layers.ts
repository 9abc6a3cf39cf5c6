import { KvError } from '@kv/core';
import { boolean, integer, object, show, type JsonFields } from '../read/fields.ts';
import type { AttentionMixer, KvHeads } from './mixers.ts';

/** Layers of attention that differ in their heads, of which the last may read the slots of earlier ones (Gemma 4). */
export interface LayerHeads {
  /** Whether each layer slides a window. */
  readonly slides: readonly boolean[];
  /** KV heads of each layer. */
  readonly heads: readonly KvHeads[];
  /** Whether a layer's values are of its keys. */
  valuesOfKeys(layer: number): boolean;
  /** How many of the last layers read slots of others. */
  readonly shared: number;
  /** Names of what says so in the file, for errors. */
  readonly names: Readonly<Record<'shared' | 'kvHeads' | 'headDim', string>>;
}

/**
 * Returns mixers of layers, where a layer that shares reads the slots of the last layer of its kind that has its own.
 * @throws KvError for layers of one kind whose heads differ in width, and for a layer without one to read
 */
export function mixersByLayer(
  { slides, heads, valuesOfKeys, shared, names }: LayerHeads,
  where: string,
): readonly AttentionMixer[] {
  const first = slides.length - shared;
  for (const kind of [true, false]) {
    const widths = [...new Set(heads.filter((_, l) => slides[l] === kind).map(({ headDim }) => headDim))];
    if (widths.length > 1)
      throw new KvError(
        where,
        `${names.headDim} must be the same in all layers ${kind ? 'with' : 'without'} a window, got ${widths.join(' and ')}`,
      );
  }
  return slides.map((sliding, l): AttentionMixer => {
    const own = { kind: 'attention', ...heads[l] } as const;
    if (l < first) return valuesOfKeys(l) ? { ...own, valuesOfKeys: true } : own;
    const slotsOf = first === 0 ? -1 : slides.lastIndexOf(sliding, first - 1);
    if (slotsOf < 0)
      throw new KvError(
        where,
        `${names.shared} must leave a layer ${sliding ? 'with' : 'without'} a window whose slots layer ${l} can read, got ${shared}`,
      );
    if (heads[slotsOf].kvHeads !== heads[l].kvHeads)
      throw new KvError(
        where,
        `${names.kvHeads} must be ${heads[slotsOf].kvHeads} in layer ${l}, which reads the slots of layer ${slotsOf}, got ${heads[l].kvHeads}`,
      );
    return { ...own, slotsOf };
  });
}

/** Fields of a configuration whose layers differ, with those that transformers fills in. */
export function layeredFields(fields: JsonFields, layers: number): JsonFields {
  const types = Array.isArray(fields.layer_types)
    ? (fields.layer_types as unknown[])
    : Array.from({ length: layers }, (_, l) => ((l + 1) % 6 === 0 ? 'full_attention' : 'sliding_attention'));
  return {
    ...fields,
    layer_types: [...types.slice(0, -1), 'full_attention'], // the last layer always is
  };
}

/** Fields of config.json. */
const names = { shared: 'num_kv_shared_layers', kvHeads: 'num_key_value_heads', headDim: 'head_dim' };

/** What config.json says of layers that differ, in addition to the fields of all models. */
export interface ParsedLayers {
  readonly mixers: readonly AttentionMixer[];
  readonly ffns?: readonly number[];
  readonly perLayer?: number;
}

/**
 * Reads the heads, shared slots, widths and inputs of layers that differ.
 * @throws KvError naming the field
 */
export function parseLayers(
  fields: JsonFields,
  {
    queryHeads,
    ffn,
    vocab,
    ...usual
  }: KvHeads & { readonly queryHeads: number; readonly ffn: number; readonly vocab: number },
  where: string,
): ParsedLayers {
  const slides = (fields.layer_types as unknown[]).map((type) => type === 'sliding_attention'),
    layers = slides.length,
    shared = integer(fields, 'num_kv_shared_layers', where, 0, layers, 0),
    equal = boolean(fields, 'attention_k_eq_v', where, false),
    heads = slides.map((sliding, l) => headsOfLayer(fields, usual, { sliding, equal, layer: l }, where));
  for (const { kvHeads } of heads)
    if (queryHeads % kvHeads !== 0)
      throw new KvError(
        where,
        `num_attention_heads must be a multiple of the KV heads of each layer (${kvHeads}), got ${queryHeads}`,
      );
  const wide = boolean(fields, 'use_double_wide_mlp', where, false) && shared > 0,
    perLayer =
      fields.hidden_size_per_layer_input === null
        ? 0
        : integer(fields, 'hidden_size_per_layer_input', where, 256, undefined, 0),
    rows = perLayer === 0 ? vocab : integer(fields, 'vocab_size_per_layer_input', where, vocab);
  if (rows !== vocab) throw new KvError(where, `vocab_size_per_layer_input must be vocab_size (${vocab}), got ${rows}`);
  return {
    mixers: mixersByLayer({ slides, heads, shared, valuesOfKeys: (l) => equal && !slides[l], names }, where),
    ...(wide && { ffns: slides.map((_, l) => (l < layers - shared ? ffn : 2 * ffn)) }),
    ...(perLayer > 0 && { perLayer }),
  };
}

/** Returns a layer's heads, by `per_layer_config`, or as older files spell it: by the fields of layers without a window. */
function headsOfLayer(
  fields: JsonFields,
  { kvHeads, headDim }: KvHeads,
  { sliding, equal, layer }: { readonly sliding: boolean; readonly equal: boolean; readonly layer: number },
  where: string,
): KvHeads {
  if (fields.per_layer_config != null) {
    const own = object(fields.per_layer_config, where, 'per_layer_config')[String(layer)],
      of = own == null ? {} : object(own, where, `per_layer_config.${layer}`);
    for (const name of Object.keys(of))
      if (name !== 'head_dim' && name !== 'num_key_value_heads')
        throw new KvError(
          where,
          `per_layer_config.${layer} must hold head_dim and num_key_value_heads, got ${show(name)}`,
        );
    return evenly(
      {
        kvHeads: integer(of, 'num_key_value_heads', where, kvHeads),
        headDim: integer(of, 'head_dim', where, headDim),
      },
      where,
    );
  }
  if (sliding) return { kvHeads, headDim };
  return evenly(
    {
      kvHeads:
        equal && fields.num_global_key_value_heads != null
          ? integer(fields, 'num_global_key_value_heads', where)
          : kvHeads,
      headDim: integer(fields, 'global_head_dim', where, 512),
    },
    where,
  );
}

function evenly(heads: KvHeads, where: string): KvHeads {
  if (heads.headDim % 2 === 0) return heads;
  throw new KvError(where, `head_dim of every layer must be even, got ${heads.headDim}`);
}
