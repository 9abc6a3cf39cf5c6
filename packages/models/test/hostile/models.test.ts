import { compose } from '@kv/core';
import { snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { configFromGguf, openGguf, ggufTokenizer, slotLayers } from '@kv/checkpoints';
import { loadCache, loadModel, saveCache, Sequence } from '../../src/index.ts';
import { headerOf, layoutOf, parseManifest } from '@kv/engine';
import { fixture } from '@kv/model-testing/fixture';
import {
  bool,
  f32,
  i32,
  join,
  kind,
  list,
  string,
  u32,
  writeGguf,
  type GgufValueBytes,
} from '@kv/model-testing/gguf-file';
import { hostile, inputs, outcome, patience, watchReads } from '@kv/model-testing/hostile/outcome';
import { bending, bent, corrupt } from '@kv/model-testing/hostile/spoilt';

const tokens = [
  '<unk>',
  '<s>',
  '</s>',
  ...Array.from({ length: 24 }, (_, i) => `<0x${(97 + i).toString(16)}>`),
  '▁',
  'h',
  'e',
  'he',
  '▁he',
  'l',
  'll',
];
const metadata = {
  'general.architecture': 'llama',
  'llama.block_count': 1,
  'llama.context_length': 64,
  'llama.embedding_length': 8,
  'llama.feed_forward_length': 8,
  'llama.attention.head_count': 2,
  'llama.attention.head_count_kv': 1,
  'llama.attention.layer_norm_rms_epsilon': 1e-5,
  'llama.rope.dimension_count': 4,
  'llama.rope.freq_base': 10000,
  'tokenizer.ggml.model': 'llama',
  'tokenizer.ggml.pre': 'smollm',
  'tokenizer.ggml.tokens': tokens,
  'tokenizer.ggml.scores': tokens.map((_, i) => -i / 2),
  'tokenizer.ggml.merges': ['h e', 'l l'],
  'tokenizer.ggml.token_type': tokens.map((token, i) => (i === 0 ? 2 : i < 3 ? 3 : token.startsWith('<0x') ? 6 : 1)),
  'tokenizer.ggml.bos_token_id': 1,
  'tokenizer.ggml.eos_token_id': 2,
  'tokenizer.ggml.add_bos_token': true,
  'tokenizer.ggml.add_space_prefix': true,
};

/** The same of a model with a short convolution in one of two layers. */
const hybrid = {
  ...Object.fromEntries(Object.entries(metadata).map(([key, of]) => [key.replace(/^llama\./, 'lfm2.'), of])),
  'general.architecture': 'lfm2',
  'lfm2.block_count': 2,
  'lfm2.attention.head_count_kv': [0, 1],
  'lfm2.shortconv.l_cache': 3,
};

/** Returns a JSON value as metadata; values without a kind in GGUF become text. */
function value(from: unknown): GgufValueBytes {
  if (typeof from === 'number')
    return Number.isInteger(from) && Math.abs(from) < 2 ** 31 ? (from < 0 ? i32 : u32)(from) : f32(from);
  if (typeof from === 'boolean') return bool(Number(from));
  if (!Array.isArray(from)) return string(typeof from === 'string' ? from : JSON.stringify(from));
  const values =
    from.every((x) => typeof x === 'number') && !from.every(Number.isInteger)
      ? (from as number[]).map(f32)
      : from.map(value);
  return list(values[0]?.kind ?? kind.string, values);
}

const ggufModel = fc
  .tuple(fc.constantFrom(metadata, hybrid), fc.constantFrom('llama', 'gpt2'), bending)
  .map(([all, model, bend]) => {
    const bentTo = bend({ ...all, 'tokenizer.ggml.model': model }),
      entries = typeof bentTo === 'object' && bentTo !== null ? Object.entries(bentTo) : [];
    return writeGguf({
      metadata: entries.map(([key, of]) => [key, value(of)]),
      tensors: [{ name: 'token_embd.weight', dimensions: [8, tokens.length], type: 0, offset: 0 }],
      data: 32 * tokens.length,
    });
  });

test(
  'gguf metadata: a configuration without a NaN and a tokenizer whose ids are its tokens, or one sentence',
  async () => {
    await hostile(
      corrupt(ggufModel),
      async (bytes) => {
        const file = await outcome(() =>
          openGguf('m.gguf', async (name) => (name === 'm.gguf' ? watchReads(bytes, name).source : undefined)),
        );
        if (file === undefined) return false;
        const config = await outcome(() => configFromGguf(file)),
          tokenizer = await outcome(async () => ggufTokenizer(file.metadata, file.name));
        if (config !== undefined) {
          expect(
            [config.normEps, ...config.ropes.map(({ theta }) => theta), config.attention.scale].every(
              (x) => x > 0 && x < Infinity,
            ),
          ).toBe(true);
          expect([config.attention.windows.length, config.mixers.length]).toEqual([config.layers, config.layers]);
          expect(slotLayers(config).length).toBeGreaterThan(0);
        }
        if (tokenizer === undefined) return false;
        const text = 'he hell <s>wörld🥊',
          encoded = await outcome(async () => tokenizer.encode(text));
        if (encoded === undefined) return false;
        for (const id of encoded.ids) expect(id >= 0 && id < tokenizer.size).toBe(true);
        for (const [start, end] of encoded.offsets) expect(start >= 0 && start <= end && end <= text.length).toBe(true);
        await outcome(async () => tokenizer.decode(encoded.ids));
        return config !== undefined;
      },
      inputs(0.06, 300),
    );
  },
  patience,
);

test(
  'saved caches: one that goes on, or one sentence',
  async () => {
    const model = await loadModel(fixture('llama')),
      sequence = new Sequence(model, undefined, { window: 16 });
    await sequence.prefill(
      Array.from({ length: 20 }, (_, i) => 3 + i),
      { policy: compose(snapkv({ window: 2 }), topK()), budget: 4, block: 6 },
    );
    const saved = await saveCache(sequence),
      size = 8 + Number(new DataView(saved.buffer).getBigUint64(0, true)),
      numbers = saved.subarray(size);
    const header = JSON.parse(new TextDecoder().decode(saved.subarray(8, size))) as { __metadata__: { kv: string } };
    sequence.destroy();
    /** Writes the file as if the manifest were true. */
    const written = (manifest: unknown): Uint8Array => {
      let head = new TextEncoder().encode(
        JSON.stringify({ ...header, __metadata__: { kv: JSON.stringify(manifest) } }),
      );
      try {
        const parsed = parseManifest(manifest, 'f');
        head = Uint8Array.from(headerOf(parsed, layoutOf(parsed, model.config)));
      } catch {
        // then the other header is equally valid
      }
      const length = new Uint8Array(8),
        declared = /.*"data_offsets":\[\d+,(\d+)\]/s.exec(new TextDecoder().decode(head))?.[1];
      new DataView(length.buffer).setBigUint64(0, BigInt(head.length), true);
      const body = new Uint8Array(Math.min(Number(declared ?? 0), 2 ** 16));
      body.set(numbers.subarray(0, body.length));
      return join(length, head, body);
    };
    await hostile(
      corrupt(bent(fc.constant<unknown>(JSON.parse(header.__metadata__.kv))).map(written)),
      async (bytes) => {
        const loaded = await outcome(() => loadCache(model, bytes));
        if (loaded === undefined) return false;
        await outcome(() => loaded.append([5]));
        for (const row of loaded.kept().flat())
          expect(row.every((position, i) => position >= 0 && position > (row[i - 1] ?? -1))).toBe(true);
        loaded.destroy();
        expect([loaded.memory.ledger.live, loaded.memory.ledger.allocated]).toEqual([0, 0]);
        return true;
      },
      inputs(0.04, 200),
    );
  },
  patience,
);
