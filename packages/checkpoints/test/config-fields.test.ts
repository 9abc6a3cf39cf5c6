/** Every field of a config.json that transformers reads is covered: tools/reference-models/config_fields.py. */
import { isDeepStrictEqual } from 'node:util';
import { KvError } from '@kv/core';
import { describe, expect, test } from 'vitest';
import { architectures, type ArchitectureName } from '../src/config/architectures.ts';
import { parseConfig, unwrittenEnd } from '../src/config/config.ts';
import { families, fixtureJson } from '@kv/model-testing/fixture';

/** Default of each field, by model type; null also where the class derives it from others. */
const defaults = fixtureJson<Readonly<Record<string, Readonly<Record<string, unknown>>>>>('config-fields.json');
const files = new Map(
  [...families].reverse().map((name) => {
    const config = fixtureJson<Record<string, unknown>>(`${name}/config.json`);
    return [config.model_type as string, config] as const;
  }),
);

/** Fields of training, outputs or generation, or names only. */
const idle = new Set([
  ...['attention_dropout', 'embd_pdrop', 'resid_pdrop', 'initializer_range', 'use_cache', 'pretraining_tp', 'dtype'],
  ...['output_attentions', 'output_hidden_states', 'return_dict', 'chunk_size_feed_forward', 'pad_token_id'],
  ...['_name_or_path', 'architectures', 'id2label', 'label2id', 'problem_type', 'transformers_version'],
  ...['output_router_logits', 'router_aux_loss_coef', 'num_experts_per_tok'], // num_local_experts is read
  'mamba_chunk_size', // tokens that are computed together
  '_sliding_window_pattern', // given by layer_types
  ...['output_router_logits', 'router_aux_loss_coef'],
  'max_window_layers', // likewise, and without effect if there is no window
]);
/** Fields read only together with another field, or where that is absent. */
const readElsewhere: Readonly<Record<string, readonly string[]>> = {
  full_attn_idxs: ['lfm2'],
  intermediate_size: ['granitemoehybrid'], // of experts
  rope_parameters: ['granitemoehybrid'],
  sliding_window: ['qwen2', 'qwen3', 'qwen3_moe', 'smollm3'],
  // with inputs of layers, or shared slots
  vocab_size_per_layer_input: ['gemma4_text'],
  use_double_wide_mlp: ['gemma4_text'],
  no_rope_layer_interval: ['smollm3'],
  // where YaRN reaches further, or less far
  max_position_embeddings: ['ministral3', 'olmo3', 'gpt_oss'],
  original_max_position_embeddings: ['phi3'],
  use_sliding_window: ['qwen2', 'qwen3', 'qwen3_moe', 'smollm3'],
};
const values: readonly unknown[] = [0.37, 3, 6, 'odd', true, false, [5], { odd: 1 }];

/** Fields that every file of a text model by itself has, and what says when an answer ends. */
const written = new Set([
  ...['vocab_size', 'hidden_size', 'intermediate_size', 'shared_intermediate_size', 'num_hidden_layers'],
  'num_attention_heads',
]);
const ends = new Set(['bos_token_id', 'eos_token_id']);

/** Returns what a configuration means, or the sentence that refuses it. */
function meaning(config: object): unknown {
  try {
    return parseConfig(config, 'c');
  } catch (error) {
    expect(error).toBeInstanceOf(KvError);
    return String(error);
  }
}

describe.each(Object.keys(defaults))('%s', (name) => {
  const plain = files.get(name)!,
    { within } = architectures[name as ArchitectureName];

  test('a field that a file lacks has the default of the class', () => {
    const fields = Object.entries(defaults[name]).filter(
      ([field]) => field !== 'model_type' && !ends.has(field) && (within !== undefined || !written.has(field)),
    );
    for (const [field, value] of fields) {
      const { [field]: _, ...lacking } = plain;
      expect([field, meaning(lacking)]).toEqual([field, meaning({ ...lacking, [field]: value })]);
    }
  });

  test('the token that ends a text where a file does not name one is that of the class', () => {
    const { eos_token_id: _, ...lacking } = plain;
    expect(unwrittenEnd(lacking, 'c') ?? null).toBe(defaults[name].eos_token_id);
    expect(unwrittenEnd({ ...lacking, eos_token_id: null }, 'c')).toBeUndefined();
  });

  test('each field of the class changes the configuration, or is refused by name, or is idle', () => {
    const want = parseConfig(plain, name);
    for (const field of Object.keys(defaults[name]).filter(
      (each) => !idle.has(each) && !readElsewhere[each]?.includes(name),
    )) {
      const passedOver = values.filter((value) => {
        if (value === (plain[field] ?? false)) return false;
        try {
          return isDeepStrictEqual(parseConfig({ ...plain, [field]: value }, name), want);
        } catch (error) {
          expect(error).toBeInstanceOf(KvError);
          return false;
        }
      });
      expect([field, passedOver]).toEqual([field, []]);
    }
  });

  test('what no decoder here computes is refused by name', () => {
    for (const [field, value] of Object.entries({
      quantization_config: { quant_method: 'awq' },
      compression_config: { format: 'pack-quantized' },
      quantization: { bits: 4, group_size: 64 },
      use_bidirectional_attention: true,
      is_causal: false,
      is_encoder_decoder: true,
    }))
      expect(() => parseConfig({ ...plain, [field]: value }, name)).toThrow(`${name}: ${field} must be `);
    if (typeof plain.num_local_experts === 'number' && plain.num_local_experts > 0)
      expect(() => parseConfig({ ...plain, num_experts: 99 }, name)).toThrow(
        `${name}: num_experts must be ${plain.num_local_experts}, as num_local_experts is, got 99`,
      );
    const rope = { rope_type: 'linear', factor: 4 },
      { rope_parameters: _, ...older } = plain;
    for (const [field, value] of [
      ...(name.startsWith('qwen3_5') ? [] : [['mrope_section', [1, 1]] as const]),
      ['alpha', 1000],
      ...(name === 'ministral3' ? [] : [['llama_4_scaling_beta', 0.1] as const]),
    ] as const)
      for (const key of ['rope_scaling', 'rope_parameters'])
        expect(() => parseConfig({ ...older, [key]: { ...rope, [field]: value } }, name)).toThrow(
          `${name}: ${field} of ${key} must be absent`,
        );
  });
});
