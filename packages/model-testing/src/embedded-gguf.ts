import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, resolve } from 'node:path';
import { readTensorFile } from '@kv/core';
import { bool, f32, i32, join, kind, list, string, u16, u32, writeGguf, type GgufValueBytes } from './gguf-file.ts';

interface Config {
  readonly hidden_size: number;
  readonly intermediate_size: number;
  readonly num_hidden_layers: number;
  readonly num_attention_heads: number;
  readonly num_key_value_heads: number;
  readonly head_dim: number;
  readonly rms_norm_eps: number;
  readonly rope_theta: number;
  readonly max_position_embeddings: number;
}
interface TokenizerFile {
  readonly model: {
    readonly vocab: Readonly<Record<string, number>>;
    readonly merges: readonly (readonly [string, string])[];
  };
  readonly added_tokens: readonly { readonly id: number; readonly content: string }[];
}

/** GGUF's names of a Llama layer's tensors. */
const LAYER: Readonly<Record<string, string>> = {
  'input_layernorm.weight': 'attn_norm.weight',
  'self_attn.q_proj.weight': 'attn_q.weight',
  'self_attn.k_proj.weight': 'attn_k.weight',
  'self_attn.v_proj.weight': 'attn_v.weight',
  'self_attn.o_proj.weight': 'attn_output.weight',
  'post_attention_layernorm.weight': 'ffn_norm.weight',
  'mlp.gate_proj.weight': 'ffn_gate.weight',
  'mlp.up_proj.weight': 'ffn_up.weight',
  'mlp.down_proj.weight': 'ffn_down.weight',
};

/**
 * Writes `@kv/model-embedded` as an f32 GGUF file, as llama.cpp's converter would (5 MB).
 *
 * @param chatTemplate the file's chat template; none by default
 */
export function writeEmbeddedGguf(path: string, chatTemplate?: string): string {
  const { metadata, tensors } = embedded(),
    template = chatTemplate === undefined ? [] : [['tokenizer.chat_template', string(chatTemplate)] as const];
  writeFileSync(path, fileOf([...metadata, ...template], tensors));
  return path;
}

/** Writes it in parts into a folder, as llama.cpp's gguf-split would, and returns their names. */
export function writeEmbeddedParts(folder: string, count: number): readonly string[] {
  const { metadata, tensors } = embedded(),
    each = Math.ceil(tensors.length / count),
    padded = (no: number): string => String(no).padStart(5, '0');
  return Array.from({ length: count }, (_, no) => {
    const name = `embedded-${padded(no + 1)}-of-${padded(count)}.gguf`,
      split: Metadata = [
        ['split.no', u16(no)],
        ['split.count', u16(count)],
        ['split.tensors.count', i32(tensors.length)],
      ];
    writeFileSync(
      resolve(folder, name),
      fileOf([...(no === 0 ? metadata : []), ...split], tensors.slice(no * each, (no + 1) * each)),
    );
    return name;
  });
}

type Metadata = readonly (readonly [string, GgufValueBytes])[];
interface StoredRows {
  readonly name: string;
  readonly dimensions: readonly number[];
  readonly rows: Float32Array;
}

function embedded(): { readonly metadata: Metadata; readonly tensors: readonly StoredRows[] } {
  const folder = dirname(createRequire(import.meta.url).resolve('@kv/model-embedded/config.json')),
    read = (file: string): Uint8Array => readFileSync(resolve(folder, file)),
    json = (file: string): unknown => JSON.parse(new TextDecoder().decode(read(file))),
    config = json('config.json') as Config,
    names = new Map([
      ['model.embed_tokens.weight', 'token_embd.weight'],
      ['model.norm.weight', 'output_norm.weight'],
    ]);
  for (let l = 0; l < config.num_hidden_layers; l++)
    for (const [from, to] of Object.entries(LAYER)) names.set(`model.layers.${l}.${from}`, `blk.${l}.${to}`);
  const { tensors: stored } = readTensorFile('model.safetensors', read('model.safetensors'), [...names.keys()]);
  const tensors = [...names].map(([from, name]) => {
    const { shape, data } = stored[from],
      heads = from.includes('q_proj')
        ? config.num_attention_heads
        : from.includes('k_proj')
          ? config.num_key_value_heads
          : 0;
    return { name, dimensions: [...shape].reverse(), rows: heads > 0 ? interleaved(data, heads, shape[1]) : data };
  });
  return { metadata: [...shapeOf(config), ...tokenizerOf(json('tokenizer.json') as TokenizerFile)], tensors };
}

function fileOf(metadata: Metadata, stored: readonly StoredRows[]): Uint8Array {
  const parts: Uint8Array[] = [];
  let offset = 0;
  const tensors = stored.map(({ name, dimensions, rows }) => {
    const at = offset,
      padding = -rows.byteLength & 31;
    parts.push(new Uint8Array(rows.buffer, rows.byteOffset, rows.byteLength), new Uint8Array(padding));
    offset += rows.byteLength + padding;
    return { name, dimensions, type: 0, offset: at };
  });
  const header = writeGguf({ metadata, tensors, data: 0 });
  return join(header, new Uint8Array(-header.length & 31), ...parts);
}

/** Reorders the rows of each head from halves to interleaved pairs, as llama.cpp rotates them. */
function interleaved(data: Float32Array, heads: number, columns: number): Float32Array {
  const out = new Float32Array(data.length),
    half = data.length / columns / heads / 2;
  for (let h = 0; h < heads; h++)
    for (let c = 0; c < half; c++)
      for (const part of [0, 1]) {
        const from = (2 * h * half + part * half + c) * columns;
        out.set(data.subarray(from, from + columns), (2 * h * half + 2 * c + part) * columns);
      }
  return out;
}

const shapeOf = (config: Config): (readonly [string, GgufValueBytes])[] => [
  ['general.architecture', string('llama')],
  ['llama.context_length', u32(config.max_position_embeddings)],
  ['llama.embedding_length', u32(config.hidden_size)],
  ['llama.block_count', u32(config.num_hidden_layers)],
  ['llama.feed_forward_length', u32(config.intermediate_size)],
  ['llama.attention.head_count', u32(config.num_attention_heads)],
  ['llama.attention.head_count_kv', u32(config.num_key_value_heads)],
  ['llama.attention.layer_norm_rms_epsilon', f32(config.rms_norm_eps)],
  ['llama.rope.dimension_count', u32(config.head_dim)],
  ['llama.rope.freq_base', f32(config.rope_theta)],
];

/**
 * Returns the tokenizer's metadata. `gpt-2` cuts words more coarsely than the model's own tokenizer, but no merge
 * crosses a cut of the latter, so the ids are the same.
 */
function tokenizerOf({ model: { vocab, merges }, added_tokens }: TokenizerFile): (readonly [string, GgufValueBytes])[] {
  const special = new Set(added_tokens.map(({ id }) => id)),
    tokens = Object.entries(vocab).sort(([, a], [, b]) => a - b),
    strings = (texts: readonly string[]): GgufValueBytes => list(kind.string, texts.map(string));
  return [
    ['tokenizer.ggml.model', string('gpt2')],
    ['tokenizer.ggml.pre', string('gpt-2')],
    ['tokenizer.ggml.tokens', strings(tokens.map(([token]) => token))],
    [
      'tokenizer.ggml.token_type',
      list(
        kind.i32,
        tokens.map(([, id]) => i32(special.has(id) ? 3 : 1)),
      ),
    ], // control, normal
    ['tokenizer.ggml.merges', strings(merges.map((pair) => pair.join(' ')))],
    ['tokenizer.ggml.bos_token_id', u32(0)],
    ['tokenizer.ggml.eos_token_id', u32(1)],
    ['tokenizer.ggml.add_bos_token', bool(1)],
  ];
}
