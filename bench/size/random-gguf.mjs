/**
 * Writes a GGUF file of a Llama of some shape whose weights are random, to measure speed and memory at the sizes of real
 * models without fetching one. Numbers are finite and keep activations near 1; what such a model says means nothing.
 *
 *   node bench/size/random-gguf.mjs 1B Q4_0 .kv/size/1B-Q4_0.gguf
 */
import { closeSync, existsSync, mkdirSync, openSync, renameSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { pathToFileURL } from 'node:url';

/** Llama 3.2 1B and 3B, Llama 3.1 8B, and a small one to try this with. */
const shapes = {
  tiny: { layers: 4, heads: 8, kvHeads: 2, headDim: 64, hidden: 512, ffn: 1536, vocab: 2048 },
  '1B': { layers: 16, heads: 32, kvHeads: 8, headDim: 64, hidden: 2048, ffn: 8192, vocab: 128_256 },
  '3B': { layers: 28, heads: 24, kvHeads: 8, headDim: 128, hidden: 3072, ffn: 8192, vocab: 128_256 },
  '8B': { layers: 32, heads: 32, kvHeads: 8, headDim: 128, hidden: 4096, ffn: 14_336, vocab: 128_256, untied: true },
};

/** Half precision of a positive number below 2, to the nearest. */
function half(x) {
  const power = Math.max(-14, Math.floor(Math.log2(x))),
    bits = Math.round((x / 2 ** power) * 1024);
  return bits < 1024 ? bits : ((power + 15) << 10) + bits - 1024;
}

/**
 * Block types: numbers and bytes of a block, ggml's number, and what turns random bytes into a block whose numbers have
 * the root mean square `size`.
 */
export const types = {
  F32: { numbers: 1, bytes: 4, code: 0 },
  Q4_0: { numbers: 32, bytes: 18, code: 2, set: (view, at, size) => view.setUint16(at, half(size / 4.6), true) },
  Q8_0: { numbers: 32, bytes: 34, code: 8, set: (view, at, size) => view.setUint16(at, half(size / 74), true) },
  Q4_K: {
    numbers: 256,
    bytes: 144,
    code: 12,
    set(view, at, size) {
      // all scales and all minima are 32 of 63, so that a number is 32 d (code - 7.5)
      const d = size / (32 * 4.6);
      view.setUint16(at, half(d), true);
      view.setUint16(at + 2, half(7.5 * d), true);
      for (let i = 0; i < 12; i++) view.setUint8(at + 4 + i, i < 8 ? 0xa0 : 0);
    },
  },
  Q6_K: {
    numbers: 256,
    bytes: 210,
    code: 14,
    set(view, at, size) {
      for (let i = 0; i < 16; i++) view.setInt8(at + 192 + i, 16);
      view.setUint16(at + 208, half(size / (16 * 18.5)), true);
    },
  },
};

/** What llama-quantize makes of a file's type: that of most products, of the embedding, and of those that gain most. */
export const fileTypes = {
  Q4_0: { code: 2, most: 'Q4_0', embedding: 'Q6_K', better: 'Q4_0' },
  Q4_K_M: { code: 15, most: 'Q4_K', embedding: 'Q6_K', better: 'Q6_K' },
  Q8_0: { code: 7, most: 'Q8_0', embedding: 'Q8_0', better: 'Q8_0' },
};

/** Bytes that are written at once, in whole blocks of any type. */
const part = 2 ** 22;

/** Returns blocks of random numbers, about `part` bytes. */
function randomBlocks(type, size, seed) {
  const { bytes, set } = types[type],
    blocks = new Uint8Array(bytes * Math.floor(part / bytes)),
    view = new DataView(blocks.buffer);
  if (type === 'F32') {
    new Float32Array(blocks.buffer).fill(1);
    return blocks;
  }
  let state = seed | 1;
  for (let i = 0; i < blocks.length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    blocks[i] = state >>> 9;
  }
  for (let at = 0; at < blocks.length; at += bytes) set(view, at, size);
  return blocks;
}

const word = (n, x) => {
  const bytes = Buffer.alloc(n);
  if (n === 4) bytes.writeUInt32LE(x);
  else bytes.writeBigUInt64LE(BigInt(x));
  return bytes;
};
const text = (x) => Buffer.concat([word(8, Buffer.byteLength(x)), Buffer.from(x)]);
const float = (x) => {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(x);
  return bytes;
};
const values = {
  u32: (x) => [4, word(4, x)],
  f32: (x) => [6, float(x)],
  bool: (x) => [7, Buffer.of(x ? 1 : 0)],
  text: (x) => [8, text(x)],
  texts: (list) => [9, Buffer.concat([word(4, 8), word(8, list.length), ...list.map(text)])],
  words: (list) => [9, Buffer.concat([word(4, 5), word(8, list.length), ...list.map((x) => word(4, x))])],
};

/** The vocabulary: GPT-2's letters for the 256 bytes, an end of text, then pairs of letters and what they grow to, each by a merge. */
function vocabulary(count) {
  const plain = (b) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
  let next = 256;
  const letters = Array.from({ length: 256 }, (_, b) => String.fromCharCode(plain(b) ? b : next++)),
    tokens = [...letters, '<|end|>'],
    merges = [];
  for (let i = 0; tokens.length < count; i++) {
    const first = i < 65_536 ? letters[i >> 8] : tokens[257 + ((i - 65_536) >> 8)],
      second = letters[i & 255];
    tokens.push(first + second);
    merges.push(`${first} ${second}`);
  }
  return { tokens, types: tokens.map((_, i) => (i === 256 ? 3 : 1)), merges, end: 256 };
}

function metadata(shape, name, fileType) {
  const { tokens, types: kinds, merges, end } = vocabulary(shape.vocab),
    own = (key) => `llama.${key}`;
  return [
    ['general.architecture', values.text('llama')],
    ['general.name', values.text(`random ${name}`)],
    ['general.file_type', values.u32(fileTypes[fileType].code)],
    ['general.quantization_version', values.u32(2)],
    [own('block_count'), values.u32(shape.layers)],
    [own('context_length'), values.u32(131_072)],
    [own('embedding_length'), values.u32(shape.hidden)],
    [own('feed_forward_length'), values.u32(shape.ffn)],
    [own('attention.head_count'), values.u32(shape.heads)],
    [own('attention.head_count_kv'), values.u32(shape.kvHeads)],
    [own('attention.key_length'), values.u32(shape.headDim)],
    [own('attention.value_length'), values.u32(shape.headDim)],
    [own('attention.layer_norm_rms_epsilon'), values.f32(1e-5)],
    [own('rope.dimension_count'), values.u32(shape.headDim)],
    [own('rope.freq_base'), values.f32(500_000)],
    [own('vocab_size'), values.u32(shape.vocab)],
    ['tokenizer.ggml.model', values.text('gpt2')],
    ['tokenizer.ggml.pre', values.text('llama-bpe')],
    ['tokenizer.ggml.tokens', values.texts(tokens)],
    ['tokenizer.ggml.token_type', values.words(kinds)],
    ['tokenizer.ggml.merges', values.texts(merges)],
    ['tokenizer.ggml.eos_token_id', values.u32(end)],
    ['tokenizer.ggml.bos_token_id', values.u32(end)],
    ['tokenizer.ggml.add_bos_token', values.bool(false)],
  ];
}

/** Returns the tensors in the order of a converted file: name, ggml's dimensions, type. */
function tensorsOf({ layers, heads, kvHeads, headDim, hidden, ffn, vocab, untied }, { most, embedding, better }) {
  const list = [
    ['token_embd.weight', [hidden, vocab], untied ? most : embedding],
    ['output_norm.weight', [hidden], 'F32'],
    ...(untied ? [['output.weight', [hidden, vocab], embedding]] : []),
  ];
  for (let l = 0; l < layers; l++) {
    // as llama-quantize chooses the layers whose values and second products get more bits
    const gains = l < layers >> 3 || l >= (7 * layers) >> 3 || (l - (layers >> 3)) % 3 === 2,
      rich = gains ? better : most,
      at = (name) => `blk.${l}.${name}.weight`;
    list.push(
      [at('attn_norm'), [hidden], 'F32'],
      [at('attn_q'), [hidden, heads * headDim], most],
      [at('attn_k'), [hidden, kvHeads * headDim], most],
      [at('attn_v'), [hidden, kvHeads * headDim], rich],
      [at('attn_output'), [heads * headDim, hidden], most],
      [at('ffn_norm'), [hidden], 'F32'],
      [at('ffn_gate'), [hidden, ffn], most],
      [at('ffn_up'), [hidden, ffn], most],
      [at('ffn_down'), [ffn, hidden], rich],
    );
  }
  return list;
}

const bytesOf = (dimensions, type) =>
  (dimensions.reduce((product, size) => product * size, 1) / types[type].numbers) * types[type].bytes;
const aligned = (x) => 32 * Math.ceil(x / 32);

/** Writes a file, unless it is there already, and returns its bytes of tensors and the multiply-adds of a token. */
export function writeRandomGguf(path, name, fileType) {
  const shape = shapes[name];
  if (!shape || !fileTypes[fileType])
    throw new Error(
      `expected a shape of ${Object.keys(shapes)} and a type of ${Object.keys(fileTypes)}, got ${name} ${fileType}`,
    );
  const tensors = tensorsOf(shape, fileTypes[fileType]),
    fields = metadata(shape, name, fileType);
  const products = tensors.filter(
      ([tensor, { length }]) => length === 2 && (tensor !== 'token_embd.weight' || !shape.untied),
    ),
    facts = {
      ...shape,
      bytes: tensors.reduce((sum, [, dimensions, type]) => sum + bytesOf(dimensions, type), 0),
      /** Bytes of weights that a decoded token reads: each product once, of the embedding alone a row. */
      read: products.reduce((sum, [, dimensions, type]) => sum + bytesOf(dimensions, type), 0),
      /** Multiply-adds of a token of a prompt in the layers' products, and in the head's. */
      layerProducts: products
        .filter(([tensor]) => tensor.startsWith('blk.'))
        .reduce((sum, [, [inputs, outputs]]) => sum + inputs * outputs, 0),
      headProduct: shape.hidden * shape.vocab,
    };
  if (existsSync(path)) return facts;
  let offset = 0;
  const infos = tensors.map(([tensor, dimensions, type]) => {
    const at = offset;
    offset = aligned(offset + bytesOf(dimensions, type));
    return Buffer.concat([
      text(tensor),
      word(4, dimensions.length),
      ...dimensions.map((size) => word(8, size)),
      word(4, types[type].code),
      word(8, at),
    ]);
  });
  const head = Buffer.concat([
    Buffer.from('GGUF'),
    word(4, 3),
    word(8, tensors.length),
    word(8, fields.length),
    ...fields.flatMap(([key, [kind, bytes]]) => [text(key), word(4, kind), bytes]),
    ...infos,
  ]);
  mkdirSync(dirname(path), { recursive: true });
  const file = openSync(`${path}.part`, 'w'),
    known = new Map();
  try {
    writeSync(file, Buffer.concat([head, Buffer.alloc(aligned(head.length) - head.length)]));
    for (const [i, [, dimensions, type]] of tensors.entries()) {
      const size = dimensions[0] ** -0.5,
        key = `${type} ${size}`;
      if (!known.has(key)) known.set(key, randomBlocks(type, size, 7919 * (i + 1)));
      const blocks = known.get(key),
        total = bytesOf(dimensions, type);
      for (let at = 0; at < total; at += blocks.length) writeSync(file, blocks, 0, Math.min(blocks.length, total - at));
      writeSync(file, Buffer.alloc(aligned(total) - total));
    }
  } finally {
    closeSync(file);
  }
  renameSync(`${path}.part`, path);
  return facts;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const [name, fileType, path] = process.argv.slice(2);
  console.log(JSON.stringify(writeRandomGguf(path, name, fileType)));
}
