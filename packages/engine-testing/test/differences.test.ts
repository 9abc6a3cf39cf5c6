import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readSafetensors, fileSource, checkpointWeights, parseConfig } from '@kv/checkpoints';
import { createDecoder, hostDecoder, referenceEngine } from '@kv/engine';
import { halfWeights, oracleLogits } from '../src/decoder.oracle.ts';
import type { Json } from '../src/decoder.oracle.ts';
import { families, fixture, fixtureJson, goldenOutputs, hasExperts } from '@kv/model-testing/fixture';
import { inTurn } from '@kv/model-testing/in-turn';
import { emptyCaches, relative, run } from '../src/run.ts';

const weights = Object.fromEntries(families.map((name) => [name, halfWeights(fixture(`${name}/model.safetensors`))]));
const config = (name: string): Json => fixtureJson<Json>(`${name}/config.json`);

test.each(inTurn(families, 3))('the float64 oracle of %s agrees with transformers', (name) => {
  for (const { ids, logits } of goldenOutputs(name, '.')) {
    const rows = oracleLogits(config(name), weights[name], ids);
    for (const [at, want] of Object.entries(logits)) expect(relative(rows[Number(at)], want)).toBeLessThan(5e-6);
  }
});

const number = (min: number, max: number): fc.Arbitrary<number> => fc.double({ min, max, noNaN: true });
const scaling = fc.oneof(
  fc.record({ rope_type: fc.constant('default'), rope_theta: number(50, 1e6) }),
  fc.record({ rope_type: fc.constant('linear'), rope_theta: number(50, 1e6), factor: number(1, 8) }),
  fc.record({
    rope_type: fc.constant('llama3'),
    rope_theta: number(50, 1e6),
    factor: number(1, 16),
    low_freq_factor: number(0.5, 2),
    high_freq_factor: number(2.5, 8),
    original_max_position_embeddings: fc.integer({ min: 4, max: 200 }),
  }),
  fc
    .record(
      {
        factor: number(1, 16),
        attention_factor: number(0.5, 2),
        beta_fast: number(4, 40),
        beta_slow: number(0.5, 3),
        truncate: fc.boolean(),
        mscales: fc.tuple(number(0.5, 2), number(0.5, 2)),
      },
      { requiredKeys: ['factor'] },
    )
    .chain(({ mscales, ...rest }) =>
      fc.record({
        rope_type: fc.constant('yarn'),
        rope_theta: number(50, 1e6),
        original_max_position_embeddings: fc.integer({ min: 4, max: 200 }),
        ...Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, fc.constant(value)])),
        ...(mscales && { mscale: fc.constant(mscales[0]), mscale_all_dim: fc.constant(mscales[1]) }),
      }),
    ),
);
const divisors = (count: number): fc.Arbitrary<number[]> =>
  fc.array(number(0.5, 20), { minLength: count, maxLength: count });
const window = fc.integer({ min: 1, max: 30 });
const types = (layers: number): fc.Arbitrary<string[]> =>
  fc.array(fc.constantFrom('sliding_attention', 'full_attention'), { minLength: layers, maxLength: layers });
const thetas = (layers: number): fc.Arbitrary<number[]> =>
  fc.array(fc.oneof(fc.constant(0), number(50, 1e6)), { minLength: layers, maxLength: layers });
const longrope = (original: number, partial: number, pairs: number): fc.Arbitrary<Json> =>
  fc.record({
    sliding_window: fc.option(window),
    original_max_position_embeddings: fc.constant(original),
    max_position_embeddings: fc.integer({ min: 40, max: 500 }),
    rope_parameters: fc.record({
      rope_type: fc.constant('longrope'),
      rope_theta: number(50, 1e6),
      partial_rotary_factor: fc.constant(partial),
      original_max_position_embeddings: fc.constant(original),
      short_factor: divisors(pairs),
      long_factor: divisors(pairs),
    }),
  });

const partly = (partial: number): fc.Arbitrary<Json> =>
  scaling.map((rope) => ({ ...rope, partial_rotary_factor: partial }));

/** Queries that grow with their position, whatever the scaling. */
const growing: fc.Arbitrary<Json> = fc
  .tuple(scaling, number(0.01, 1), fc.integer({ min: 1, max: 40 }))
  .map(([rope, by, every]) => ({
    rope_parameters: { ...rope, llama_4_scaling_beta: by, original_max_position_embeddings: every },
  }));
const proportional = fc.record({
  rope_type: fc.constant('proportional'),
  rope_theta: number(50, 1e6),
  partial_rotary_factor: number(0.01, 1),
  factor: number(1, 8),
});
const twice = (full: fc.Arbitrary<Json>): fc.Arbitrary<Json> =>
  fc.record({
    full_attention: full,
    sliding_attention: fc.record({ rope_type: fc.constant('default'), rope_theta: number(50, 1e6) }),
  });
const few = (experts: number): fc.Arbitrary<number> => fc.integer({ min: 1, max: experts });

/** Per architecture, configurations that its weights fit. */
const variants: Readonly<Record<string, fc.Arbitrary<Json>>> = {
  llama: fc.record({ rope_parameters: scaling, rms_norm_eps: number(1e-6, 1e-2) }),
  mistral: fc.record({ rope_parameters: scaling, sliding_window: fc.option(window) }),
  qwen2: fc.record({
    sliding_window: window,
    use_sliding_window: fc.boolean(),
    layer_types: types(2),
  }),
  qwen3: fc.record({ rope_parameters: scaling }),
  phi3: fc.integer({ min: 2, max: 60 }).chain((original) => longrope(original, 0.5, 4)),
  gemma2: fc.record({
    attn_logit_softcapping: fc.option(number(0.5, 50)),
    final_logit_softcapping: fc.option(number(0.5, 50)),
    query_pre_attn_scalar: fc.integer({ min: 1, max: 64 }),
    sliding_window: window,
    layer_types: types(3),
  }),
  gemma3: fc.record({
    final_logit_softcapping: fc.option(number(0.5, 50)),
    query_pre_attn_scalar: fc.integer({ min: 1, max: 64 }),
    sliding_window: window,
    layer_types: types(7),
    rope_parameters: fc.record({
      full_attention: scaling,
      sliding_attention: fc.record({ rope_type: fc.constant('default'), rope_theta: number(50, 1e6) }),
    }),
  }),
  ...Object.fromEntries(
    ['gemma4', 'gemma4-keys', 'gemma4-unshared'].map((name) => [
      name,
      fc
        .record({
          final_logit_softcapping: fc.option(number(0.5, 50)),
          rms_norm_eps: number(1e-6, 1e-2),
          sliding_window: window,
          rope_parameters: fc.record({
            full_attention: fc.record({
              rope_type: fc.constant('proportional'),
              rope_theta: number(50, 1e6),
              partial_rotary_factor: number(0.05, 1),
            }),
            sliding_attention: fc.record({ rope_type: fc.constant('default'), rope_theta: number(50, 1e6) }),
          }),
        })
        .map((fields) =>
          name === 'gemma4' ? { text_config: { ...(config(name).text_config as Json), ...fields } } : fields,
        ),
    ]),
  ),
  smollm3: fc.record({
    rope_parameters: scaling,
    no_rope_layers: fc.array(fc.constantFrom(0, 1), { minLength: 5, maxLength: 5 }),
    use_sliding_window: fc.boolean(),
    sliding_window: window,
    layer_types: types(5),
  }),
  olmo2: fc.record({ rope_parameters: scaling, rms_norm_eps: number(1e-6, 1e-2) }),
  granite: fc.record({
    rope_parameters: scaling,
    attention_multiplier: number(0.01, 1),
    embedding_multiplier: number(0.1, 12),
    residual_multiplier: number(0.05, 2),
    logits_scaling: number(0.1, 16),
  }),
  granite_swa: fc.record({
    rope_parameters: scaling,
    attention_multiplier: number(0.01, 1),
    sliding_window: window,
    layer_types: types(6),
    layer_rope_theta: thetas(6),
  }),
  'granite_swa-thetas': fc.record({
    residual_multiplier: number(0.05, 2),
    sliding_window: window,
    layer_types: types(4),
    layer_rope_theta: thetas(4),
  }),
  llama32: fc.record({ rope_parameters: scaling }),
  phi4: fc.integer({ min: 2, max: 60 }).chain((original) => longrope(original, 0.75, 6)),
  nemo: fc.record({ rope_parameters: scaling, sliding_window: fc.option(window) }),
  'qwen3-yarn': fc.record({ rope_parameters: scaling }),
  granitemoehybrid: fc.record({
    attention_multiplier: number(0.01, 1),
    residual_multiplier: number(0.05, 2),
    rms_norm_eps: number(1e-6, 1e-2),
    rope_parameters: scaling,
    position_embedding_type: fc.constantFrom('nope', null, 'rope'),
  }),
  'granitemoehybrid-untied': fc.record({ rms_norm_eps: number(1e-6, 1e-2) }),
  'granitemoehybrid-biased': fc.record({
    rope_parameters: scaling,
    time_step_limit: fc.tuple(number(0.01, 0.5), fc.oneof(number(0.5, 1), fc.constant({ __float__: 'Infinity' }))),
  }),
  'granitemoehybrid-attention': fc.record({ rope_parameters: scaling }),
  lfm2: fc.record({ rope_parameters: scaling, norm_eps: number(1e-6, 1e-2) }),
  'lfm2-untied': fc.record({ rope_parameters: scaling }),
  'lfm2-biased': fc.record({ rope_parameters: scaling }),
  qwen3_5: fc.record({ rope_parameters: partly(0.25), rms_norm_eps: number(1e-6, 1e-2) }),
  'qwen3_5-untied': fc
    .record({ rope_parameters: partly(0.5), rms_norm_eps: number(1e-6, 1e-2) })
    .map((changed) => ({ text_config: { ...(config('qwen3_5-untied').text_config as Json), ...changed } })),
  'qwen3_5-biased': fc.record({ rope_parameters: partly(0.75) }),
  ministral3: growing,
  'ministral3-untied': growing.map((changed) => ({
    text_config: { ...(config('ministral3-untied').text_config as Json), ...changed },
  })),
  olmo3: fc.record({ sliding_window: window, layer_types: types(5), rope_parameters: twice(scaling) }),
  'olmo3-biased': fc.record({ sliding_window: window, layer_types: types(3), rope_parameters: twice(scaling) }),
  lfm3: fc.record({ norm_eps: number(1e-6, 1e-2), sliding_window: window, rope_parameters: twice(proportional) }),
  'lfm3-plain': fc.record({ sliding_window: window, rope_parameters: twice(proportional) }),
  gpt_oss: fc.record({
    rope_parameters: scaling,
    sliding_window: window,
    layer_types: types(3),
    num_experts_per_tok: few(5),
  }),
  'gpt_oss-tied': fc.record({ num_experts_per_tok: few(3) }),
  'gemma4-experts': fc
    .record({ top_k_experts: few(7), sliding_window: window })
    .map((changed) => ({ text_config: { ...(config('gemma4-experts').text_config as Json), ...changed } })),
  'gemma4-experts-shared': fc.record({ top_k_experts: few(3), sliding_window: window }),
  granitemoe: fc.record({ num_experts_per_tok: few(7), residual_multiplier: number(0.05, 2) }),
  'granitemoehybrid-experts': fc.record({ num_experts_per_tok: few(6), residual_multiplier: number(0.05, 2) }),
  'granitemoehybrid-experts-untied': fc.record({ num_experts_per_tok: few(3) }),
  qwen3_moe: fc.record({ num_experts_per_tok: few(7), norm_topk_prob: fc.boolean() }),
  'qwen3_moe-tied': fc.record({ num_experts_per_tok: few(4), norm_topk_prob: fc.boolean() }),
  lfm2_moe: fc.record({
    num_experts_per_tok: few(6),
    norm_topk_prob: fc.boolean(),
    routed_scaling_factor: number(0.3, 2),
  }),
  'lfm2_moe-untied': fc.record({ num_experts_per_tok: few(5), norm_topk_prob: fc.boolean() }),
  qwen3_5_moe: fc.record({ num_experts_per_tok: few(4) }),
  'qwen3_5_moe-untied': fc
    .record({ num_experts_per_tok: few(5) })
    .map((changed) => ({ text_config: { ...(config('qwen3_5_moe-untied').text_config as Json), ...changed } })),
};

describe.each(inTurn(families, 4))('every difference of %s', (name) => {
  // A value head's norm enlarges what a nearly orthogonal query reads: weights that differ in the last digit of f32 move logits by 2e-5.
  const within = name.startsWith('qwen3_5') ? 2e-4 : 2e-5;
  test('logits of all positions are those of the float64 oracle, whatever the configuration says', async () => {
    await fc.assert(
      fc.asyncProperty(
        variants[name],
        fc.array(fc.integer({ min: 0, max: 63 }), { minLength: 1, maxLength: 40 }),
        fc.integer({ min: 1, max: 12 }),
        async (changed, ids, block) => {
          const json = { ...config(name), ...changed },
            parsed = parseConfig(json, name),
            file = await readSafetensors(await fileSource(fixture(`${name}/model.safetensors`)));
          const decoder = hostDecoder(await createDecoder(parsed, checkpointWeights(file, parsed), referenceEngine()));
          const rows = await run(decoder, emptyCaches(decoder), ids, { want: [...ids.keys()], block });
          for (const [i, want] of oracleLogits(json, weights[name], ids).entries())
            expect(relative(rows[i], want), `position ${i}`).toBeLessThan(within);
          decoder.destroy();
          await file.close();
        },
      ),
      { numRuns: hasExperts(name) ? 5 : name.startsWith('gemma4') ? 8 : 25 }, // eight layers take long
    );
  });
});
