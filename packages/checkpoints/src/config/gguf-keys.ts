import { KvError } from '@kv/core';
import type { Architecture } from './architectures.ts';
import { show, type JsonFields } from '../read/fields.ts';

/** A file's metadata, read by keys without the architecture's prefix. */
export interface Keys {
  readonly where: string;
  readonly metadata: JsonFields;
  key(rest: string): string;
  has(rest: string): boolean;
  positive(rest: string, fallback?: number): number;
  integer(rest: string, fallback?: number, most?: number, least?: number): number;
}

/** Keys, without the architecture's prefix, that `configFromGguf` reads. */
const read: ReadonlySet<string> = new Set([
  'context_length',
  'embedding_length',
  'block_count',
  'feed_forward_length',
  'attention.head_count',
  'attention.head_count_kv',
  'attention.key_length',
  'attention.value_length',
  'attention.layer_norm_rms_epsilon',
  'attention.scale',
  'rope.dimension_count',
  'rope.freq_base',
  'rope.scale_linear',
  'rope.scaling.type',
  'rope.scaling.factor',
  'rope.scaling.original_context_length',
  'rope.scaling.attn_factor',
  // YaRN only, as in llama.cpp
  'rope.scaling.yarn_ext_factor',
  'rope.scaling.yarn_attn_factor',
  'rope.scaling.yarn_beta_fast',
  'rope.scaling.yarn_beta_slow',
]);

/** Keys that only some architectures read, with the values that have no effect on the others. */
const readWhere: Readonly<
  Record<string, readonly [reads: (kind: Architecture) => boolean, plain: readonly unknown[]]>
> = {
  attn_logit_softcapping: [({ softcaps }) => softcaps !== undefined, [0]],
  final_logit_softcapping: [({ softcaps }) => softcaps !== undefined, [0]],
  embedding_scale: [({ multipliers }) => multipliers, [0, 1]],
  residual_scale: [({ multipliers }) => multipliers, [0, 1]],
  logit_scale: [({ multipliers }) => multipliers, [0, 1]],
  'attention.temperature_scale': [({ queryScale }) => queryScale, [0]],
  'rope.scaling.yarn_log_multiplier': [({ queryScale }) => queryScale, [0]],
  'shortconv.l_cache': [({ mixer }) => mixer === 'shortConvolution', []],
  ...Object.fromEntries(
    [...['ssm.conv_kernel', 'ssm.inner_size', 'ssm.state_size', 'ssm.time_step_rank', 'ssm.group_count']].map((key) => [
      key,
      // a Granite 4.0 with attention in every layer is written as `granite`, with what its other layers would have
      [
        ({ mixer, gguf }: Architecture) => mixer === 'gatedDelta' || mixer === 'stateSpace' || gguf === 'granite',
        [],
      ] as const,
    ]),
  ),
  ...Object.fromEntries(
    ['full_attention_interval', 'attention.recurrent_layers'].map((key) => [
      key,
      [({ mixer }: Architecture) => mixer === 'gatedDelta', []] as const,
    ]),
  ),
  ...Object.fromEntries(
    (
      [
        // tensors say which layers are dense
        ...(
          ['leading_dense_block_count', 'expert_count', 'expert_used_count', 'expert_feed_forward_length'] as const
        ).map((key) => [key, [0]] as const),
        ['expert_weights_norm', [false]],
        ['expert_weights_scale', [0, 1]],
        ['expert_gating_func', []],
      ] as const
    ).map(([key, plain]) => [key, [({ experts }: Architecture) => experts !== undefined, plain]] as const),
  ),
  expert_shared_feed_forward_length: [
    ({ experts, multipliers }) => multipliers || experts?.shared?.gated === true,
    [0],
  ],
  // of Granite it says whether heads are rotated
  'rope.scaling.finetuned': [({ multipliers }) => multipliers, [true]],
  // layers that draft are not run, and images are not read
  nextn_predict_layers: [({ names }) => names === 'qwen3_5', [0]],
  ...Object.fromEntries(
    ['rope.dimension_sections', 'rope.mrope_section', 'rope.mrope_interleaved', 'mrope_sections'].map((key) => [
      key,
      [({ imagePositions }: Architecture) => imagePositions, []] as const,
    ]),
  ),
  // converters write none for Qwen, whose windows begin after some layers
  'attention.sliding_window': [({ windows }) => windows !== 'asked' && windows !== 'from', [0]],
  'attention.rope_pattern': [({ listedThetas }) => listedThetas, []],
  'attention.sliding_window_pattern': [({ windows }) => typeof windows === 'object', [0, 1]],
};

/** Keys that are read where layers differ. */
const ofLayers: ReadonlySet<string> = new Set([
  'attention.shared_kv_layers',
  'attention.key_length_swa',
  'attention.value_length_swa',
  'rope.dimension_count_swa',
  'embedding_length_per_layer_input',
]);

/** Keys that do not change this decoder's logits, with the reason. */
const idle: Readonly<Record<string, string>> = {
  vocab_size: "the embedding's rows say it",
  tensor_data_layout: 'names where the weights came from',
  'attention.layer_norm_epsilon': 'every norm here is a root mean square',
  'attention.group_norm_epsilon': 'no norm here is by groups',
  'attention.group_norm_groups': 'no norm here is by groups',
  pooling_type: 'of embeddings, not of logits',
  'classifier.pooling_type': 'of embeddings, not of logits',
  image_token_id: 'images are not read',
  vision_start_token_id: 'images are not read',
  vision_end_token_id: 'images are not read',
};

/** Prefixes, after the architecture's, of keys that do not concern the text decoder. */
const ignoredPrefixes: readonly string[] = ['vision.', 'mm.'];

/** Keys that change what is computed, with the values that this decoder supports. */
const plainly: Readonly<Record<string, readonly unknown[]>> = {
  use_parallel_residual: [false],
  n_deepstack_layers: [0],
  deepstack_mapping: [],
  interleave_moe_layer_step: [0],
  moe_every_n_layers: [0],
  moe_latent_size: [0],
  expert_shared_count: [0],
  expert_group_count: [0],
  expert_group_used_count: [0],

  expert_chunk_feed_forward_length: [0],
  router_logit_softcapping: [0],
  rescale_every_n_layers: [0],
  token_shift_count: [0],
  swin_norm: [false],
  'attention.causal': [true],
  'attention.clamp_kqv': [0],
  'attention.max_alibi_bias': [0],
  'attention.output_scale': [1],
  'attention.value_scale': [1],
  'attention.temperature_length': [0],
  'attention.q_lora_rank': [0],
  'attention.kv_lora_rank': [0],
  'attention.shared_kv_layers': [0],
  'attention.relative_buckets_count': [0],
  'rope.scale': [1],
  'rope.scaling.alpha': [0, 1],

  'ssm.v_head_reordered': [true], // of Ollama's converter
};

/** Keys that may only repeat another key, or the given value where that key is absent. */
const repeats: Readonly<Record<string, readonly [key: string, absent?: unknown]>> = {
  embedding_length_out: ['embedding_length'],
  'attention.key_length_swa': ['attention.key_length'],
  'attention.value_length_swa': ['attention.value_length'],
  'rope.dimension_count_swa': ['rope.dimension_count'],
  'rope.freq_base_swa': ['rope.freq_base', 10_000],
};

/** Other keys without the architecture's prefix, with the values that this decoder supports. */
const ofFile: Readonly<Record<string, readonly unknown[]>> = {
  'general.type': ['model'],
};
/** Prefixes of file-wide keys that change what is computed. */
const changing: readonly string[] = ['adapter.', 'clip.', 'diffusion.', 'xielu.', 'general.tensor_extra.'];

/**
 * Checks that every key with the architecture's prefix is read or has no effect; an unknown key may
 * change what is computed.
 * @throws KvError for the first key that this decoder does not support
 */
export function expectKnown(metadata: JsonFields, kind: Architecture, where: string): void {
  const { gguf } = kind,
    prefix = `${gguf}.`;
  const refuse = (key: string, plain: readonly unknown[]): never => {
    throw new KvError(
      where,
      `${key} must be ${[...plain.map(show), 'absent'].join(' or ')}, got ${show(metadata[key])}`,
    );
  };
  for (const [key, value] of Object.entries(metadata)) {
    if (ofFile[key]?.includes(value) === false) refuse(key, ofFile[key]);
    if (changing.some((start) => key.startsWith(start))) refuse(key, []);
    if (!key.startsWith(prefix)) continue;
    const rest = key.slice(prefix.length),
      plain = plainOf(rest, metadata, kind);
    if (plain && !plain.includes(value)) refuse(key, plain);
  }
}

/** Returns the supported values of a key, or undefined if the key is read or has no effect. */
function plainOf(rest: string, metadata: JsonFields, kind: Architecture): readonly unknown[] | undefined {
  const own = <T>(table: Readonly<Record<string, T>>): T | undefined =>
    Object.hasOwn(table, rest) ? table[rest] : undefined;
  if (read.has(rest) || own(idle) !== undefined || ignoredPrefixes.some((start) => rest.startsWith(start)))
    return undefined;
  if (rest === 'rope.freq_base_swa' && kind.localTheta !== undefined) return undefined;
  if (kind.byLayer && ofLayers.has(rest)) return undefined;
  const [reads, otherwise] = own(readWhere) ?? [];
  if (reads) return reads(kind) ? undefined : otherwise;
  const [same, absent] = own(repeats) ?? [];
  if (same === undefined) return own(plainly) ?? [];
  const value = metadata[`${kind.gguf}.${same}`] ?? absent;
  return value === undefined ? [] : [value];
}
