import { readdirSync, readFileSync } from 'node:fs';
import type { CacheShape } from '../../packages/engine/src/saved/layout.ts';
import { layoutOf, bytesOf } from '../../packages/engine/src/saved/layout.ts';
import { writeSaved } from '../../packages/engine/src/saved/file.ts';
import type { SavedManifest } from '../../packages/engine/src/saved/manifest.ts';
import { f32, i32, kind, list, string, u32, writeGguf } from '../../packages/model-testing/src/gguf-file.ts';
import { writeSafetensors } from '../../packages/model-testing/src/safetensors-file.ts';

const fixtures = new URL('../../packages/model-testing/fixtures/', import.meta.url);
const text = (value: string): Uint8Array => new TextEncoder().encode(value);
const json = (value: unknown): Uint8Array => text(JSON.stringify(value));
const fixture = (name: string): unknown => JSON.parse(readFileSync(new URL(name, fixtures), 'utf8'));

const words = ['<unk>', '<s>', '</s>', ...Array.from('\u2581helo', String), 'he', '\u2581he', 'll'];

function ggufModel(model: string): Uint8Array {
  const strings = (values: readonly string[]) => list(kind.string, values.map(string), values.length);
  return writeGguf({
    metadata: [
      ['general.architecture', string('llama')],
      ...(['block_count', 'attention.head_count', 'attention.head_count_kv'] as const).map(
        (key) => [`llama.${key}`, u32(1)] as const,
      ),
      ['llama.context_length', u32(64)],
      ['llama.embedding_length', u32(8)],
      ['llama.feed_forward_length', u32(8)],
      ['llama.attention.layer_norm_rms_epsilon', f32(1e-5)],
      ['llama.rope.dimension_count', u32(8)],
      ['tokenizer.ggml.model', string(model)],
      ['tokenizer.ggml.pre', string('smollm')],
      ['tokenizer.ggml.tokens', strings(words)],
      [
        'tokenizer.ggml.scores',
        list(
          kind.f32,
          words.map((_, i) => f32(-i)),
          words.length,
        ),
      ],
      [
        'tokenizer.ggml.token_type',
        list(
          kind.i32,
          words.map((_, i) => i32(i === 0 ? 2 : i < 3 ? 3 : 1)),
          words.length,
        ),
      ],
      ['tokenizer.ggml.merges', strings(['h e', 'l l'])],
      ['tokenizer.ggml.bos_token_id', u32(1)],
    ],
    tensors: [{ name: 'token_embd.weight', dimensions: [8, words.length], type: 0, offset: 0 }],
    data: 32 * words.length,
  });
}

/** Returns a tokenizer with only its first tokens and merges, since small inputs are run more often. */
function small(tokenizer: Record<string, unknown>): Uint8Array {
  const model = tokenizer.model as { readonly vocab: Record<string, number>; readonly merges: readonly unknown[] };
  const merges = model.merges.slice(0, 4);
  const joined = merges.map((merge) => (typeof merge === 'string' ? merge.split(' ') : (merge as string[])));
  const needed = new Set(joined.flatMap((pair) => [...pair, pair.join('')]));
  const vocab = Object.fromEntries(Object.entries(model.vocab).filter(([token], i) => i < 40 || needed.has(token)));
  const { added_tokens: added = [], ...rest } = tokenizer as { readonly added_tokens?: readonly unknown[] };
  return json({ ...rest, added_tokens: added.slice(0, 3), model: { ...model, vocab, merges } });
}

function savedCache(shape: CacheShape): Uint8Array {
  const manifest: SavedManifest = {
    version: 2,
    form: 'q8',
    model: 'm',
    policy: 'snapkv ∘ topK',
    budget: 2,
    ...{ window: 8, tokens: 3, promptLength: 3, rotaryLength: 3, decoded: 0, mostSlots: 3, shift: null, logits: 1 },
    layers: [
      {
        lengths: [2],
        aligned: true,
        ring: { window: 1, seen: 1 },
        accumulated: true,
        block: false,
        states: [{ id: 's', spec: { kind: 'slot', rows: 'kv' }, columns: 2 }],
        event: { budgets: [2], kept: [2] },
      },
    ],
    states: [],
  };
  const arrays = new Map(
    layoutOf(manifest, shape).map((tensor) => {
      const size = bytesOf(tensor) / 4;
      return [
        tensor.name,
        tensor.dtype === 'U32' ? Uint32Array.from({ length: size }, (_, i) => i % 3) : new Float32Array(size),
      ];
    }),
  );
  return writeSaved(manifest, arrays, shape);
}

function npy(type: string, shape: readonly number[], axes: number): Uint8Array {
  const header = `${`{'descr': '${type}', 'fortran_order': False, 'shape': (${shape.join(', ')},), }`.padEnd(54)}\n`;
  const data = new Uint8Array(Number(type.at(-1)) * shape.reduce((a, b) => a * b, 1));
  return Uint8Array.from([0x93, ...text('NUMPY'), 1, 0, header.length, 0, ...text(header), ...data, axes - 1]);
}

export const seeds = {
  gguf: (): Uint8Array[] => [
    new Uint8Array(readFileSync(new URL('values.gguf', fixtures))).slice(0, 4096),
    ggufModel('llama'),
  ],
  ggufModel: (): Uint8Array[] => [ggufModel('llama'), ggufModel('gpt2')],
  safetensors: (): Uint8Array[] => [
    writeSafetensors({ a: { dtype: 'F32', shape: [2], bytes: new Uint8Array(8) } }),
    writeSafetensors({
      a: { dtype: 'BF16', shape: [1, 2], bytes: new Uint8Array(4) },
      b: { dtype: 'F16', shape: [], bytes: new Uint8Array(2) },
    }),
  ],
  tokenizer: (): Uint8Array[] =>
    readdirSync(new URL('tokenizers/', fixtures)).map((file) =>
      small((fixture(`tokenizers/${file}`) as { readonly tokenizer: Record<string, unknown> }).tokenizer),
    ),
  template: (): Uint8Array[] =>
    (fixture('chat-templates.json') as readonly { readonly source: string }[]).map(({ source }) => text(source)),
  policy: (): Uint8Array[] =>
    [
      'full',
      'snapkv(window=16,kernel=5)',
      'weighted(0.5*recency,1*snapkv(window=32)) ∘ linearBudgets ∘ topK',
      'sum(knorm,random) ∘ topK',
      'taFast(reach=12,slots=24)',
    ].map(text),
  cache: (shape: CacheShape): Uint8Array[] => [savedCache(shape)],
  npy: (): Uint8Array[] => [npy('<f4', [2, 2], 2), npy('<f8', [3], 1)],
  hub: (): Uint8Array[] => {
    const file = (path: string) => ({ type: 'file', path, size: 3, oid: 'a'.repeat(40) });
    const large = { ...file('model.safetensors'), lfs: { oid: 'b'.repeat(64), size: 9 } };
    const answer = (...files: object[]): Uint8Array =>
      Uint8Array.from([...json({ _id: 'x', id: 'org/name', sha: 'c'.repeat(40) }), 0, ...json(files)]);
    return [
      answer(file('config.json'), file('tokenizer.json'), large),
      answer(file('m.Q4_K_M.gguf')),
      answer(file('config.json'), file('tokenizer.json'), file('model.safetensors.index.json')),
    ];
  },
};
