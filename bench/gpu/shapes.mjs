import { commonHeads, createTokenizer, parseConfig, tensorTypes } from '@kv/checkpoints';

const llama = (name, layers, hidden, ffn, heads, kvHeads, vocab, more = {}) => ({
  name,
  config: {
    model_type: 'llama',
    hidden_act: 'silu',
    num_hidden_layers: layers,
    hidden_size: hidden,
    intermediate_size: ffn,
    num_attention_heads: heads,
    num_key_value_heads: kvHeads,
    vocab_size: vocab,
    max_position_embeddings: 131_072,
    rms_norm_eps: 1e-5,
    rope_theta: 500_000,
    tie_word_embeddings: true,
    ...more,
  },
});

/**
 * The shapes that are timed; `tiny` is for testing this program. Every window holds 32K tokens; SmolLM2's own is 8,192.
 */
export const shapes = Object.fromEntries(
  [
    llama('tiny', 2, 64, 128, 4, 2, 512),
    llama('SmolLM2-135M', 30, 576, 1536, 9, 3, 49_152, { rope_theta: 100_000 }),
    llama('Llama-3.2-1B', 16, 2048, 8192, 32, 8, 128_256),
    llama('Llama-3.1-8B', 32, 4096, 14_336, 32, 8, 128_256, { tie_word_embeddings: false }),
  ].map((shape) => [shape.name, shape]),
);

/** Returns a shape's sizes as the engine and the peer need them. */
export function sizesOf({ name, config }) {
  const all = parseConfig(config, name),
    { layers, hidden: D, ffn, vocab, tied } = all,
    { queryHeads: H, kvHeads: G, headDim: d } = commonHeads(all, name);
  const products = [
    [(H + 2 * G) * d, D],
    [D, H * d],
    [2 * ffn, D],
    [D, ffn],
  ];
  return {
    name,
    layers,
    H,
    G,
    d,
    D,
    ffn,
    vocab,
    tied,
    products,
    numbers: layers * products.reduce((n, [o, i]) => n + o * i, 0) + vocab * D,
    embedding: tied ? 0 : vocab * D,
  };
}

/**
 * Returns the bytes of weights that one token reads (all products and the head), and of all weights on the device.
 */
export function weightBytes(shape, type) {
  const { numbers, embedding } = sizesOf(shape),
    { numbers: block, bytes } = tensorTypes[type];
  return { step: (numbers / block) * bytes, all: ((numbers + embedding) / block) * bytes };
}

let state = 0x9e37_79b9;
const next = () => {
  state ^= state << 13;
  state ^= state >>> 17;
  return (state ^= state << 5) >>> 0;
};
/**
 * Words of one part of a weight, and the finite halves (about 0.01) that replace its numbers or scales.
 */
const HALF = { F16: [0x2000, 1, [0]], Q8_0: [0x0800, 17, [0]], Q4_0: [0x1800, 9, [0]] };

/** Returns whole blocks of random bits whose numbers are finite and small. */
function randomBlocks(type, bytes) {
  const out = new Uint8Array(bytes),
    [exponent, step, places] = HALF[type],
    words = new Uint32Array(out.buffer, 0, Math.floor(bytes / 4)),
    halves = new Uint16Array(out.buffer, 0, bytes / 2);
  for (let i = 0; i < words.length; i++) words[i] = next();
  for (const place of places)
    for (let i = place; i < halves.length; i += step)
      halves[i] = exponent | (type === 'F16' ? halves[i] & 0x83ff : halves[i] & 0x3ff);
  return out;
}

/**
 * Maximum bytes of a part of a matrix. Parts of one size share their random bits on the host; each has its own buffer
 * on the device.
 */
const PART = 2 ** 25;

/** A matrix of random numbers whose host copy is small however large it is. */
export function randomMatrix(type, outputs, inputs, made = new Map()) {
  const { numbers, bytes } = tensorTypes[type],
    row = (inputs / numbers) * bytes,
    most = Math.max(1, Math.floor(PART / row)),
    parts = [];
  for (let at = 0; at < outputs; at += most) {
    const rows = Math.min(most, outputs - at),
      size = rows * row;
    if (!made.has(size)) made.set(size, randomBlocks(type, size));
    parts.push({ type, rows, bytes: made.get(size) });
  }
  return { outputs, inputs, parts };
}

/** Returns a byte-level tokenizer with the shape's vocabulary size: a sequence keeps the text of its tokens. */
const tokenizerOf = (size) =>
  createTokenizer(
    {
      model: {
        type: 'BPE',
        vocab: Object.fromEntries(Array.from({ length: size }, (_, id) => [`w${id.toString(36)}`, id])),
        merges: [],
      },
      pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, use_regex: false },
      decoder: { type: 'ByteLevel' },
      added_tokens: [],
    },
    'random words',
  );

/** Starts a model of this shape with random weights on a runtime. */
export async function randomModel(shape, type, runtime) {
  const config = parseConfig(shape.config, shape.name),
    { D, vocab, products } = sizesOf(shape),
    made = new Map(),
    ones = new Float32Array(D).fill(1);
  const [qkv, output, gateUp, down] = products.map(([outputs, inputs]) => randomMatrix(type, outputs, inputs, made)),
    words = randomMatrix(type, vocab, D, made);
  const weights = {
    embed: async () => words,
    head: async () => words,
    norm: async () => ones,
    project: async () => ({ norm: ones, qkv }),
    finish: async () => ({ norm: ones, output, gateUp, down }),
  };
  const parts = { config, tokenizer: tokenizerOf(vocab), sidecar: async () => undefined };
  return {
    ...(await runtime.start({ ...parts, weights })),
    ...parts,
    name: shape.name,
    engine: runtime.name,
    fingerprint: 'random',
  };
}
