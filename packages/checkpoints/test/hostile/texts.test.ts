import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseConfig } from '../../src/config/config.ts';
import { slotHeads, slotLayers } from '../../src/config/mixers.ts';
import { readJson } from '../../src/read/source.ts';
import { createTokenizer } from '../../src/tokenizer/tokenizer.ts';
import { fixtureJson } from '@kv/model-testing/fixture';
import { referenceJson } from '@kv/model-testing/reference';
import { hostile, inputs, outcome, patience, watchReads } from '@kv/model-testing/hostile/outcome';
import { bent, jsonBytes, corrupt } from '@kv/model-testing/hostile/spoilt';

const configs = [
  ...['llama', 'qwen2', 'qwen3'].map((name) => referenceJson<object>(`data/goldens/${name}/config.json`)),
  ...[
    ...['lfm2', 'qwen3_5', 'qwen3_5-untied', 'granitemoehybrid', 'gpt_oss', 'lfm2_moe', 'qwen3_moe-tied'],
    ...['gemma4-experts', 'granitemoehybrid-experts'],
  ].map((name) => fixtureJson<object>(`${name}/config.json`)),
];

/** Returns every number in a value. */
function numbers(value: unknown): number[] {
  if (typeof value === 'number') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(numbers) : [];
}

test(
  'config.json: positive counts and no NaN, or one sentence',
  async () => {
    await hostile(
      corrupt(bent(fc.constantFrom<unknown>(...configs)).map(jsonBytes)),
      async (bytes) => {
        const config = await outcome(async () => parseConfig(await readJson(watchReads(bytes, 'f').source), 'f'));
        if (config === undefined) return false;
        const all = numbers(config);
        expect(all.filter((x) => !(x >= 0))).toEqual([]);
        expect(all.length).toBeLessThan(10_000 + bytes.length);
        expect(slotLayers(config).length).toBeGreaterThan(0);
        for (const field of ['layers', 'queryHeads', 'hidden', 'vocab'] as const)
          expect(Number.isInteger(config[field]) && config[field] > 0, field).toBe(true);
        for (const heads of slotHeads(config))
          for (const field of ['kvHeads', 'headDim'] as const)
            expect(Number.isInteger(heads[field]) && heads[field] > 0, field).toBe(true);
        return true;
      },
      inputs(0.14, 700),
    );
  },
  patience,
);

const vocabulary = [
  '<unk>',
  '<s>',
  '</s>',
  ...Array.from({ length: 94 }, (_, i) => String.fromCharCode(33 + i)),
  'Ġ',
  'he',
  'll',
  'hell',
  'Ġw',
  'Ã©',
];
const tokenizer = {
  version: '1.0',
  truncation: null,
  padding: null,
  added_tokens: [0, 1, 2].map((id) => ({
    id,
    content: vocabulary[id],
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: true,
  })),
  normalizer: null,
  pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
  post_processor: {
    type: 'TemplateProcessing',
    single: [{ SpecialToken: { id: '<s>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
    pair: [],
    special_tokens: { '<s>': { id: '<s>', ids: [1], tokens: ['<s>'] } },
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
    vocab: Object.fromEntries(vocabulary.map((token, id) => [token, id])),
    merges: ['h e', 'l l', 'he ll', 'Ġ w'],
  },
};

test(
  'tokenizer.json: ids below its size and offsets in the text, or one sentence',
  async () => {
    await hostile(
      corrupt(bent(fc.constant<unknown>(tokenizer)).map(jsonBytes)),
      async (bytes) => {
        const made = await outcome(async () => createTokenizer(await readJson(watchReads(bytes, 'f').source), 'f'));
        if (made === undefined) return false;
        const text = 'hello wörld <s>🥊';
        const encoded = await outcome(async () => made.encode(text));
        if (encoded === undefined) return false;
        expect(encoded.offsets.length).toBe(encoded.ids.length);
        for (const id of encoded.ids) expect(id >= 0 && id < made.size).toBe(true);
        for (const [start, end] of encoded.offsets) expect(start >= 0 && start <= end && end <= text.length).toBe(true);
        await outcome(async () => made.decode(encoded.ids));
        return true;
      },
      inputs(0.02, 250),
    );
  },
  patience,
);
