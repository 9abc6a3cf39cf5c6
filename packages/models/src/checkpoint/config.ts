import { KvError } from '@kv/core';
import { boolean, integer, object, positive, show, type Fields } from './fields.ts';

/** The shape of a Llama decoder. All counts are positive integers; `queryHeads % kvHeads === 0`; `headDim` is even. */
export interface LlamaConfig {
  readonly layers: number;
  readonly queryHeads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** Width of the residual stream (D). */
  readonly hidden: number;
  /** Width of the gated feed-forward layer. */
  readonly ffn: number;
  readonly vocab: number;
  readonly ropeTheta: number;
  readonly normEps: number;
  /** Positions the model was trained for. */
  readonly maxPositions: number;
  /** Whether the embedding is also the head. */
  readonly tied: boolean;
  readonly bosId?: number;
  readonly eosIds: readonly number[];
}

/**
 * Reads a Hugging Face `config.json` of a Llama model; defaults are those of `LlamaConfig` in transformers.
 * @throws KvError `where: field must be …, got …` for a field that is missing or out of range, and for what this decoder does not compute.
 */
export function parseConfig(json: unknown, where: string): LlamaConfig {
  const fields = object(json, where, 'the configuration');
  refuse(fields, where);
  const hidden = integer(fields, 'hidden_size', where);
  const queryHeads = integer(fields, 'num_attention_heads', where);
  const kvHeads = integer(fields, 'num_key_value_heads', where, queryHeads);
  const headDim = integer(fields, 'head_dim', where, hidden / queryHeads);
  const vocab = integer(fields, 'vocab_size', where);
  if (queryHeads % kvHeads !== 0)
    throw new KvError(where, `num_attention_heads must be a multiple of num_key_value_heads (${kvHeads}), got ${queryHeads}`);
  if (headDim % 2 !== 0) throw new KvError(where, `head_dim must be even, got ${headDim}`);
  const rope = fields.rope_parameters == null ? {} : object(fields.rope_parameters, where, 'rope_parameters');
  const bosId = tokenIds(fields, 'bos_token_id', vocab, where)[0];
  return {
    layers: integer(fields, 'num_hidden_layers', where),
    queryHeads,
    kvHeads,
    headDim,
    hidden,
    ffn: integer(fields, 'intermediate_size', where),
    vocab,
    ropeTheta: positive(rope.rope_theta == null ? fields : rope, 'rope_theta', where, 10_000),
    normEps: positive(fields, 'rms_norm_eps', where, 1e-6),
    maxPositions: integer(fields, 'max_position_embeddings', where, 2048),
    tied: boolean(fields, 'tie_word_embeddings', where, false),
    ...(bosId === undefined ? {} : { bosId }),
    eosIds: tokenIds(fields, 'eos_token_id', vocab, where),
  };
}

/** Fields whose other values change the arithmetic: [path, what is computed]. Absent means default. */
const computed: readonly (readonly [string, readonly unknown[]])[] = [
  ['hidden_act', ['silu', 'swish']],
  ['attention_bias', [false]],
  ['mlp_bias', [false]],
  ['partial_rotary_factor', [1]],
  ['rope_scaling.rope_type', ['default']],
  ['rope_scaling.type', ['default']],
  ['rope_parameters.rope_type', ['default']],
  ['rope_parameters.partial_rotary_factor', [1]],
  ['quantization_config', []],
];

function refuse(fields: Fields, where: string): void {
  if (fields.model_type !== 'llama') throw new KvError(where, `model_type must be "llama", got ${show(fields.model_type)}`);
  for (const [path, allowed] of computed) {
    const value = path.split('.').reduce<unknown>((at, key) => (at == null ? at : (at as Fields)[key]), fields);
    if (value == null || allowed.includes(value)) continue;
    throw new KvError(where, `${path} must be ${allowed.length === 0 ? 'absent' : JSON.stringify(allowed[0])}, got ${show(value)}`);
  }
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
