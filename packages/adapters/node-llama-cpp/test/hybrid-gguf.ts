import { writeFileSync } from 'node:fs';
import { f32, i32, join, kind, list, string, u32, writeGguf, type GgufValueBytes } from '@kv/model-testing/gguf-file';

const WIDTH = 32,
  FFN = 32,
  HEADS = 2,
  HEAD = WIDTH / HEADS,
  TAPS = 3,
  WORDS = 8,
  NORMAL = 1;

const metadata: readonly (readonly [string, GgufValueBytes])[] = [
  ['general.architecture', string('lfm2')],
  ['lfm2.block_count', u32(2)],
  ['lfm2.context_length', u32(512)],
  ['lfm2.embedding_length', u32(WIDTH)],
  ['lfm2.feed_forward_length', u32(FFN)],
  ['lfm2.attention.head_count', u32(HEADS)],
  ['lfm2.attention.head_count_kv', list(kind.i32, [0, HEADS].map(i32))],
  ['lfm2.attention.layer_norm_rms_epsilon', f32(1e-5)],
  ['lfm2.rope.freq_base', f32(1e4)],
  ['lfm2.shortconv.l_cache', u32(TAPS)],
  ['lfm2.vocab_size', u32(WORDS)],
  ['tokenizer.ggml.model', string('gpt2')],
  ['tokenizer.ggml.pre', string('gpt-2')],
  ['tokenizer.ggml.tokens', list(kind.string, [...'abcdefgh'].map(string))],
  [
    'tokenizer.ggml.token_type',
    list(
      kind.i32,
      Array.from({ length: WORDS }, () => i32(NORMAL)),
    ),
  ],
  ['tokenizer.ggml.merges', list(kind.string, [string('a b')])],
  ['tokenizer.ggml.bos_token_id', u32(0)],
  ['tokenizer.ggml.eos_token_id', u32(1)],
];
const feedForward = (l: number): [string, number[]][] => [
  [`blk.${l}.attn_norm.weight`, [WIDTH]],
  [`blk.${l}.ffn_norm.weight`, [WIDTH]],
  [`blk.${l}.ffn_gate.weight`, [WIDTH, FFN]],
  [`blk.${l}.ffn_up.weight`, [WIDTH, FFN]],
  [`blk.${l}.ffn_down.weight`, [FFN, WIDTH]],
];
const shapes: readonly (readonly [string, readonly number[]])[] = [
  ['token_embd.weight', [WIDTH, WORDS]],
  ['token_embd_norm.weight', [WIDTH]],
  ...feedForward(0),
  ['blk.0.shortconv.conv.weight', [TAPS, WIDTH]],
  ['blk.0.shortconv.in_proj.weight', [WIDTH, 3 * WIDTH]],
  ['blk.0.shortconv.out_proj.weight', [WIDTH, WIDTH]],
  ...feedForward(1),
  ['blk.1.attn_q_norm.weight', [HEAD]],
  ['blk.1.attn_k_norm.weight', [HEAD]],
  ...['q', 'k', 'v', 'output'].map((of): [string, number[]] => [`blk.1.attn_${of}.weight`, [WIDTH, WIDTH]]),
];

/** Writes a small LFM2 with one layer of convolution and one of attention; all its weights are ones. */
export function writeHybridGguf(path: string): string {
  let offset = 0;
  const tensors = shapes.map(([name, dimensions]) => {
    const at = offset,
      bytes = 4 * dimensions.reduce((a, b) => a * b);
    offset += bytes + (-bytes & 31);
    return { name, dimensions, type: 0, offset: at };
  });
  const header = writeGguf({ metadata, tensors, data: 0 });
  writeFileSync(
    path,
    join(header, new Uint8Array(-header.length & 31), new Uint8Array(new Float32Array(offset / 4).fill(1).buffer)),
  );
  return path;
}
