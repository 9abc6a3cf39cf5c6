import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { random } from '@kv/tasks';

const HIDDEN = 16,
  FFN = 24,
  HEADS = 4,
  KV_HEADS = 2,
  HEAD_DIM = 8,
  LAYERS = 2;
export const CONTEXT = 256,
  SHAPE: { readonly layers: number; readonly kvHeads: number } = { layers: LAYERS, kvHeads: KV_HEADS };

/** Returns the characters that a byte-level BPE tokenizer writes for bytes. */
function byteCharacters(): readonly string[] {
  const printable = (b: number): boolean => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, b) => String.fromCodePoint(printable(b) ? b : next++));
}

/** Writes a Llama checkpoint with random weights and a single-byte tokenizer; `<s>` is id 0. */
export function writeTinyModel(folder: string, { layers = LAYERS }: { readonly layers?: number } = {}): string {
  mkdirSync(folder, { recursive: true });
  const vocabulary = ['<s>', '</s>', ...byteCharacters()],
    V = vocabulary.length;
  const write = (name: string, value: unknown): void => writeFileSync(join(folder, name), JSON.stringify(value));
  write('config.json', {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    hidden_size: HIDDEN,
    intermediate_size: FFN,
    num_hidden_layers: layers,
    num_attention_heads: HEADS,
    num_key_value_heads: KV_HEADS,
    head_dim: HEAD_DIM,
    vocab_size: V,
    rms_norm_eps: 1e-5,
    rope_theta: 10_000,
    max_position_embeddings: CONTEXT,
    hidden_act: 'silu',
    tie_word_embeddings: true,
    bos_token_id: 0,
    eos_token_id: 1,
  });
  const special = (id: number, content: string): object => ({
    id,
    content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: true,
  });
  write('tokenizer.json', {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: [special(0, '<s>'), special(1, '</s>')],
    normalizer: null,
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false },
    post_processor: {
      type: 'TemplateProcessing',
      single: [{ SpecialToken: { id: '<s>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
      pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 1 } }],
      special_tokens: { '<s>': { id: '<s>', ids: [0], tokens: ['<s>'] } },
    },
    decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      vocab: Object.fromEntries(vocabulary.map((token, i) => [token, i])),
      merges: [],
    },
  });
  writeFileSync(join(folder, 'model.safetensors'), safetensors(V, layers));
  return folder;
}

function safetensors(vocab: number, layers: number): Uint8Array {
  const layer = (l: number): [string, number[]][] =>
    [
      ['input_layernorm.weight', [HIDDEN]],
      ['self_attn.q_proj.weight', [HEADS * HEAD_DIM, HIDDEN]],
      ['self_attn.k_proj.weight', [KV_HEADS * HEAD_DIM, HIDDEN]],
      ['self_attn.v_proj.weight', [KV_HEADS * HEAD_DIM, HIDDEN]],
      ['self_attn.o_proj.weight', [HIDDEN, HEADS * HEAD_DIM]],
      ['post_attention_layernorm.weight', [HIDDEN]],
      ['mlp.gate_proj.weight', [FFN, HIDDEN]],
      ['mlp.up_proj.weight', [FFN, HIDDEN]],
      ['mlp.down_proj.weight', [HIDDEN, FFN]],
    ].map(([name, shape]) => [`model.layers.${l}.${name as string}`, shape as number[]]);
  const tensors: [string, number[]][] = [
    ['model.embed_tokens.weight', [vocab, HIDDEN]],
    ...Array.from({ length: layers }, (_, l) => layer(l)).flat(),
    ['model.norm.weight', [HIDDEN]],
  ];
  const { next } = random('tiny'),
    header: Record<string, unknown> = {},
    parts: Uint8Array[] = [];
  let at = 0;
  for (const [name, shape] of tensors) {
    const data = Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () =>
      shape.length === 1 ? 1 : next() - 0.5,
    );
    header[name] = { dtype: 'F32', shape, data_offsets: [at, (at += data.byteLength)] };
    parts.push(new Uint8Array(data.buffer));
  }
  const text = Buffer.from(JSON.stringify(header)),
    size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([size, text, ...parts]);
}
