/** What a token adds to the caches of a model of each family, for docs/models.md. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseConfig, slotLayers, type ModelConfig } from '../../packages/checkpoints/src/index.ts';
import { stateBytes, tokenBytes } from '../../packages/engine/src/index.ts';

/** A model of each family: fields of its config.json that decide what it keeps. */
const EXAMPLES: Readonly<Record<ModelConfig['architecture'], readonly [model: string, fields: object]>> = {
  llama: ['Llama-3.2-1B', heads(16, 2048, 32, 8)],
  mistral: ['Mistral-7B-v0.3', { ...heads(32, 4096, 32, 8), sliding_window: null }],
  ministral3: ['Ministral-3-3B', { ...heads(26, 3072, 32, 8), sliding_window: null }],
  qwen2: ['Qwen2.5-0.5B', heads(24, 896, 14, 2)],
  qwen3: ['Qwen3-0.6B', heads(28, 1024, 16, 8)],
  phi3: ['Phi-4-mini', { ...heads(32, 3072, 24, 8), sliding_window: null }],
  gemma2: ['Gemma 2 2B', heads(26, 2304, 8, 4)],
  gemma3_text: ['Gemma 3 270M', { ...heads(18, 640, 4, 1), sliding_window: 512 }],
  gemma4_text: [
    'Gemma 4 E2B',
    {
      ...{ ...heads(35, 1536, 8, 1), num_kv_shared_layers: 20, use_double_wide_mlp: true, global_head_dim: 512 },
      layer_types: Array.from({ length: 35 }, (_, l) => ((l + 1) % 5 === 0 ? 'full_attention' : 'sliding_attention')),
    },
  ],
  smollm3: ['SmolLM3-3B', heads(36, 2048, 16, 4)],
  olmo2: ['OLMo-2-1B', heads(16, 2048, 16, 16)],
  olmo3: ['Olmo-3-7B', heads(32, 4096, 32, 32)],
  granite: ['Granite-3.3-2B', heads(40, 2048, 32, 8)],
  granite_swa: ['Granite SWASH 2B', heads(24, 2560, 20, 4)],
  granitemoe: [
    'Granite-3.1-1B-A400M',
    { ...heads(24, 1024, 16, 8), num_local_experts: 32, num_experts_per_tok: 8, intermediate_size: 512 },
  ],
  granitemoehybrid: [
    'Granite 4.0 H 1B',
    {
      ...{ ...heads(40, 1536, 12, 4), num_local_experts: 0, shared_intermediate_size: 4096 },
      ...{ layer_types: Array.from({ length: 40 }, (_, l) => (l % 10 === 5 ? 'attention' : 'mamba')) },
      ...{ mamba_n_heads: 48, mamba_d_head: 64, mamba_d_state: 128 },
    },
  ],
  lfm2: ['LFM2.5-1.2B', { ...heads(16, 2048, 32, 8), full_attn_idxs: [2, 5, 8, 10, 12, 14] }],
  lfm3: ['LFM3-1.7B', heads(24, 2048, 16, 4)],
  qwen3_5_text: ['Qwen3.5-0.8B', { ...heads(24, 1024, 8, 2), linear_num_value_heads: 16 }],
  gpt_oss: ['gpt-oss-20b', { ...heads(24, 2880, 64, 8), num_local_experts: 32 }],
  qwen3_moe: ['Qwen3-30B-A3B', { ...heads(48, 2048, 32, 4), head_dim: 128 }],
  qwen3_5_moe_text: ['Qwen3.5-35B-A3B', { ...heads(40, 2048, 16, 2), shared_expert_intermediate_size: 512 }],
  lfm2_moe: ['LFM2-8B-A1B', { ...heads(24, 2048, 32, 8), full_attn_idxs: [2, 6, 10, 14, 18, 21] }],
};

/** Models with routed experts of families of which some have none. */
const WITH_EXPERTS: Readonly<Partial<typeof EXAMPLES>> = {
  gemma4_text: [
    'Gemma 4 26B A4B',
    {
      ...{ ...heads(30, 2816, 16, 8), num_global_key_value_heads: 2, attention_k_eq_v: true, sliding_window: 1024 },
      ...{ hidden_size_per_layer_input: 0, enable_moe_block: true, num_experts: 128, top_k_experts: 8 },
      moe_intermediate_size: 704,
    },
  ],
  granitemoehybrid: [
    'Granite 4.0 H Tiny',
    { ...EXAMPLES.granitemoehybrid[1], num_local_experts: 64, num_experts_per_tok: 6 },
  ],
};

function heads(layers: number, hidden: number, queries: number, kv: number): object {
  return {
    ...{ num_hidden_layers: layers, hidden_size: hidden, num_attention_heads: queries, num_key_value_heads: kv },
    // none of these is kept
    ...{ intermediate_size: 4 * hidden, vocab_size: 32_000, vocab_size_per_layer_input: 32_000 },
  };
}

/**
 * Returns a row for each family: the model, what mixes tokens in its layers, bytes that a token adds, bytes that are
 * held whatever the length, what a policy may evict, and the tiny checkpoints that are compared.
 * @param fixtures the folder of the tiny checkpoints
 */
export function growthRows(fixtures: string): readonly (readonly string[])[] {
  const tiny = readdirSync(fixtures).flatMap((name) => {
    const path = join(fixtures, name, 'config.json');
    return existsSync(path) ? [[name, parseConfig(JSON.parse(readFileSync(path, 'utf8')), name)] as const] : [];
  });
  return [...Object.entries(EXAMPLES), ...Object.entries(WITH_EXPERTS)].map(([family, [model, fields]]) => {
    const config = parseConfig({ model_type: family, ...fields }, model),
      alike = (other: ModelConfig): boolean => other.architecture === family && !other.experts === !config.experts,
      names = tiny.flatMap(([name, other]) => (alike(other) ? [`\`${name}\``] : []));
    return [model, mechanism(config), grows(config), held(config), evicted(config), names.join(', ')];
  });
}

const { format } = new Intl.NumberFormat('en');
const finite = ({ attention: { windows } }: ModelConfig): readonly number[] => windows.filter(Number.isFinite);

function mechanism(config: ModelConfig): string {
  const { experts } = config;
  return `${mixing(config)}${experts ? `; ${experts.routing.active} of ${experts.count} experts a token` : ''}`;
}

function mixing(config: ModelConfig): string {
  const { layers } = config,
    [window] = finite(config),
    slots = slotLayers(config).length,
    other = config.mixers.find((mixer) => mixer.kind !== 'attention');
  if (other !== undefined)
    return `attention in ${slots} of ${layers} layers, ${
      {
        gatedDelta: 'the gated delta rule',
        stateSpace: 'Mamba-2',
        shortConvolution: `convolutions over ${other.kernel} tokens`,
      }[other.kind]
    } in the others`;
  if (window === undefined) return `attention in ${layers} layers`;
  const readers = layers - slots;
  return `attention in ${layers} layers, of which ${finite(config).length} have windows of ${format(window)}${
    readers === 0 ? '' : ` and ${readers} read the slots of earlier ones`
  }`;
}

/** Bytes of a token in halves: in all layers, and in those without a window, which alone grow for good. */
function grows(config: ModelConfig): string {
  const all = tokenBytes('f16', config),
    mixers = config.mixers.filter((_, l) => config.attention.windows[l] === Infinity);
  if (finite(config).length === 0) return format(all);
  return `${format(all)}, past a window ${format(tokenBytes('f16', { mixers }))}`;
}

const held = (config: ModelConfig): string =>
  stateBytes(config) === 0 ? 'nothing' : `states of ${format(stateBytes(config))} bytes`;

function evicted(config: ModelConfig): string {
  if (stateBytes(config) > 0) return `slots of ${slotLayers(config).length} layers; never a state`;
  return finite(config).length > 0
    ? 'slots of every layer; what a window has passed goes anyway'
    : 'slots of every layer';
}
