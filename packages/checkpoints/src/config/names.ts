import { architectures, type Architecture, type ArchitectureName } from './architectures.ts';

/** Names of a decoder's tensors, without `.weight` or `.bias`. */
export interface TensorNames {
  readonly embed: string;
  readonly norm: string;
  readonly head: string;
  /** Of the inputs that each layer takes, where a model has such. */
  readonly perLayer: { readonly table: string; readonly input: string; readonly norm: string };
  /** Names of the tensors of layer `index`. */
  layer(index: number): LayerNames;
  /**
   * Whether a tensor may be present and is not read: a constant, a head that repeats the embedding, what reads images and
   * sound or drafts the tokens after the next.
   */
  harmless(tensor: string): boolean;
}

/** Names of the tensors of one layer; a layer has those of its mixer. */
export interface LayerNames {
  /** Norm before the layer's mixer. */
  readonly mixerNorm: string;
  readonly convolution: { readonly input: string; readonly kernel: string; readonly output: string };
  readonly delta: DeltaNames;
  readonly stateSpace: SpaceNames;
  readonly q: string;
  readonly k: string;
  readonly v: string;
  /** Fused q|k|v. */
  readonly qkv: string;
  /** The gates of whole heads. */
  readonly headGate: string;
  readonly qNorm: string;
  readonly kNorm: string;
  /** The whole name. */
  readonly sinks: string;
  readonly output: string;
  readonly postAttentionNorm: string;
  readonly ffnNorm: string;
  readonly gate: string;
  readonly up: string;
  /** Fused gate|up. */
  readonly gateUp: string;
  readonly down: string;
  readonly postFfnNorm: string;
  /** What joins a layer's own input with the residual stream. */
  readonly inputGate: string;
  readonly inputOutput: string;
  readonly inputNorm: string;
  /** The whole name. */
  readonly scale: string;
  readonly experts: ExpertNames;
}

/** Names of the tensors of routed experts; those of matrices of all experts in one tensor are whole. */
export interface ExpertNames {
  readonly router: string;
  /** The whole name. */
  readonly selectionBias: string;
  /** Gate and up of all experts, in one tensor. */
  readonly gateUp: string;
  readonly gateUpBias: string;
  /** Gate of all experts, and up of all experts, in a tensor each. */
  readonly gate: string;
  readonly gateBias: string;
  readonly up: string;
  readonly upBias: string;
  readonly down: string;
  readonly downBias: string;
  /** Names of the tensors of one expert, where each has its own. */
  one(expert: number): { readonly gate: string; readonly up: string; readonly down: string };
  /** The factor of each expert's weight, and gains of norms of the router's and the experts' own; whole names. */
  readonly weightScale: string;
  readonly norms: Readonly<Record<'router' | 'before' | 'after' | 'shared', string>>;
  /** What gates the shared expert: the whole name. */
  readonly sharedGate: string;
  /** The shared expert's tensors. */
  readonly shared: { readonly gate: string; readonly up: string; readonly down: string };
}

/** Whether a file has a tensor of this name. */
type Has = (tensor: string) => boolean;

/** Names of the tensors of a gated delta rule; those of `decay` and `timeBias` are whole. */
export interface DeltaNames {
  /** Fused q|k|v. */
  readonly qkv: string;
  readonly z: string;
  readonly b: string;
  readonly a: string;
  readonly kernel: string;
  readonly decay: string;
  readonly timeBias: string;
  readonly gain: string;
  readonly output: string;
}

/** Names of the tensors of a state space; those of `decay`, `timeBias` and `skip` are whole. */
export interface SpaceNames {
  /** Fused z|x|B|C|dt. */
  readonly input: string;
  readonly kernel: string;
  readonly decay: string;
  readonly timeBias: string;
  readonly skip: string;
  readonly gain: string;
  readonly output: string;
}

/** Returns the tensor names of Hugging Face checkpoints; a model that also reads images has its text model within. */
export function huggingFaceNames(of: ArchitectureName, has: Has): TensorNames {
  const { norms, names, within } = architectures[of],
    lfm2 = names === 'lfm2',
    lfm = lfm2 || names === 'lfm3',
    inner = within === undefined ? [] : ['model.language_model', 'language_model.model'],
    model = inner.find((name) => ['embed_tokens', 'norm'].some((of) => has(`${name}.${of}.weight`))) ?? 'model';
  return {
    embed: `${model}.embed_tokens`,
    norm: lfm ? 'model.embedding_norm' : `${model}.norm`,
    head: model === 'language_model.model' ? 'language_model.lm_head' : 'lm_head',
    perLayer: {
      table: `${model}.embed_tokens_per_layer`,
      input: `${model}.per_layer_model_projection`,
      norm: `${model}.per_layer_projection_norm`,
    },
    harmless: (tensor) =>
      /^(?:(?:language_model\.)?lm_head\.weight|model\.(?:layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq)$/.test(
        tensor,
      ) ||
      (within !== undefined &&
        /^(?:model\.)?(?:visual|vision_(?:tower|embedder)|audio_tower|embed_(?:vision|audio)|multi_modal_projector|mtp)\./.test(
          tensor,
        )) ||
      // keys and values of layers that read those of others
      (names === 'gemma4' && /\.self_attn\.[kv]_(?:proj|norm)\./.test(tensor)),
    layer(index) {
      const at = (name: string): string => `${model}.layers.${index}.${name}`;
      return {
        mixerNorm: at('input_layernorm'),
        convolution: { input: at('conv.in_proj'), kernel: at('conv.conv'), output: at('conv.out_proj') },
        delta: {
          qkv: at('linear_attn.in_proj_qkv'),
          z: at('linear_attn.in_proj_z'),
          b: at('linear_attn.in_proj_b'),
          a: at('linear_attn.in_proj_a'),
          kernel: at('linear_attn.conv1d'),
          decay: at('linear_attn.A_log'),
          timeBias: at('linear_attn.dt_bias'),
          gain: at('linear_attn.norm'),
          output: at('linear_attn.out_proj'),
        },
        stateSpace: {
          input: at('mamba.in_proj'),
          kernel: at('mamba.conv1d'),
          decay: at('mamba.A_log'),
          timeBias: at('mamba.dt_bias'),
          skip: at('mamba.D'),
          gain: at('mamba.norm'),
          output: at('mamba.out_proj'),
        },
        q: at('self_attn.q_proj'),
        k: at('self_attn.k_proj'),
        v: at('self_attn.v_proj'),
        qkv: at('self_attn.qkv_proj'),
        headGate: at(has(at('self_attn.gate_proj.weight')) ? 'self_attn.gate_proj' : 'self_attn.g_proj'),
        qNorm: at('self_attn.q_norm'),
        kNorm: at('self_attn.k_norm'),
        sinks: at('self_attn.sinks'),
        output: at('self_attn.o_proj'),
        postAttentionNorm: at('post_attention_layernorm'),
        ffnNorm: at(norms === 'around' ? 'pre_feedforward_layernorm' : 'post_attention_layernorm'),
        gate: at('mlp.gate_proj'),
        up: at('mlp.up_proj'),
        gateUp: at('mlp.gate_up_proj'),
        down: at('mlp.down_proj'),
        postFfnNorm: at('post_feedforward_layernorm'),
        ...(names === 'granitemoe' && {
          gateUp: at('shared_mlp.input_linear'),
          down: at('shared_mlp.output_linear'),
        }),
        inputGate: at('per_layer_input_gate'),
        inputOutput: at('per_layer_projection'),
        inputNorm: at('post_per_layer_input_norm'),
        scale: at('layer_scalar'),
        experts: expertNames(at, names, has),
        ...(lfm2 && {
          qNorm: at('self_attn.q_layernorm'),
          kNorm: at('self_attn.k_layernorm'),
          output: at('self_attn.out_proj'),
        }),
        ...(lfm && {
          mixerNorm: at('operator_norm'),
          postAttentionNorm: at('post_operator_norm'),
          postFfnNorm: at('post_ffn_norm'),
          ffnNorm: at('ffn_norm'),
          gate: at('feed_forward.w1'),
          up: at('feed_forward.w3'),
          down: at('feed_forward.w2'),
        }),
      };
    },
  };
}

/** Returns the names of experts in a layer of Hugging Face checkpoints. */
function expertNames(at: (name: string) => string, names: Architecture['names'], has: Has): ExpertNames {
  const lfm2 = names === 'lfm2',
    granite = names === 'granitemoe',
    gemma = names === 'gemma4',
    within = at(granite ? 'block_sparse_moe' : lfm2 ? 'feed_forward' : 'mlp'),
    published = granite && !has(`${within}.router.weight`), // not as transformers has them since version 5
    all = gemma ? at('experts') : `${within}.experts`,
    router = published ? 'router.layer' : granite || names === 'gpt_oss' ? 'router' : 'gate',
    three = (of: string): { gate: string; up: string; down: string } =>
      lfm2
        ? { gate: `${of}.w1`, up: `${of}.w3`, down: `${of}.w2` }
        : { gate: `${of}.gate_proj`, up: `${of}.up_proj`, down: `${of}.down_proj` };
  return {
    router: gemma ? at('router.proj') : `${within}.${router}`,
    selectionBias: `${within}.expert_bias`,
    gateUp: published ? `${within}.input_linear.weight` : `${all}.gate_up_proj`,
    gateUpBias: `${all}.gate_up_proj_bias`,
    gate: `${all}.gate_proj`,
    gateBias: `${all}.gate_proj_bias`,
    up: `${all}.up_proj`,
    upBias: `${all}.up_proj_bias`,
    down: published ? `${within}.output_linear.weight` : `${all}.down_proj`,
    downBias: `${all}.down_proj_bias`,
    one: (expert) => three(`${all}.${expert}`),
    weightScale: at('router.per_expert_scale'),
    norms: {
      router: at('router.scale'),
      before: at('pre_feedforward_layernorm_2.weight'),
      after: at('post_feedforward_layernorm_2.weight'),
      shared: at('post_feedforward_layernorm_1.weight'),
    },
    sharedGate: `${within}.shared_expert_gate.weight`,
    shared: granite
      ? { ...three(at('shared_mlp')), down: at('shared_mlp.output_linear') }
      : three(gemma ? within : `${within}.shared_expert`),
  };
}

/** Returns the tensor names of GGUF files, the same for every architecture but for two norms. */
export const ggufNames = (of: ArchitectureName, has: Has): TensorNames => ({
  embed: 'token_embd',
  norm: architectures[of].names === 'lfm2' ? 'token_embd_norm' : 'output_norm',
  head: 'output',
  perLayer: { table: 'per_layer_token_embd', input: 'per_layer_model_proj', norm: 'per_layer_proj_norm' },
  harmless: (tensor) =>
    /^(?:rope_freqs|rope_factors_(?:long|short))\.weight$/.test(tensor) ||
    // keys and values of layers that read those of others
    (architectures[of].names === 'gemma4' && /^blk\.\d+\.attn_(?:[kv]|k_norm)\./.test(tensor)) ||
    (architectures[of].names === 'qwen3_5' &&
      (/^(?:v|mm|mtp)\./.test(tensor) || has(`${/^blk\.\d+/.exec(tensor)?.[0]}.nextn.eh_proj.weight`))),
  layer(index) {
    const at = (name: string): string => `blk.${index}.${name}`;
    return {
      mixerNorm: at('attn_norm'),
      convolution: { input: at('shortconv.in_proj'), kernel: at('shortconv.conv'), output: at('shortconv.out_proj') },
      delta: {
        qkv: at('attn_qkv'),
        z: at('attn_gate'),
        b: at('ssm_beta'),
        a: at('ssm_alpha'),
        kernel: at('ssm_conv1d'),
        decay: at('ssm_a'),
        timeBias: has(at('ssm_dt')) ? at('ssm_dt') : at('ssm_dt.bias'), // Ollama's converter, and llama.cpp's
        gain: at('ssm_norm'),
        output: at('ssm_out'),
      },
      stateSpace: {
        input: at('ssm_in'),
        kernel: at('ssm_conv1d'),
        decay: at('ssm_a'),
        timeBias: at('ssm_dt.bias'),
        skip: at('ssm_d'),
        gain: at('ssm_norm'),
        output: at('ssm_out'),
      },
      q: at('attn_q'),
      k: at('attn_k'),
      v: at('attn_v'),
      qkv: at('attn_qkv'),
      headGate: at('attn_gate'),
      qNorm: at('attn_q_norm'),
      kNorm: at('attn_k_norm'),
      sinks: at('attn_sinks.weight'),
      output: at('attn_output'),
      postAttentionNorm: at('post_attention_norm'),
      ffnNorm: at(['qwen3_5', 'gpt_oss'].includes(architectures[of].names) ? 'post_attention_norm' : 'ffn_norm'),
      gate: at('ffn_gate'),
      up: at('ffn_up'),
      gateUp: at('ffn_up'),
      down: at('ffn_down'),
      postFfnNorm: at('post_ffw_norm'),
      inputGate: at('inp_gate'),
      inputOutput: at('proj'),
      inputNorm: at('post_norm'),
      scale: at('layer_output_scale.weight'),
      experts: {
        router: at('ffn_gate_inp'),
        selectionBias: at('exp_probs_b.bias'),
        gateUp: at('ffn_gate_up_exps.weight'),
        gateUpBias: at('ffn_gate_up_exps.bias'),
        gate: at('ffn_gate_exps.weight'),
        gateBias: at('ffn_gate_exps.bias'),
        up: at('ffn_up_exps.weight'),
        upBias: at('ffn_up_exps.bias'),
        down: at('ffn_down_exps.weight'),
        downBias: at('ffn_down_exps.bias'),
        // in files of 2023
        one: (expert) => ({
          gate: at(`ffn_gate.${expert}`),
          up: at(`ffn_up.${expert}`),
          down: at(`ffn_down.${expert}`),
        }),
        weightScale: at('ffn_down_exps.scale'),
        norms: {
          router: at('ffn_gate_inp.scale'),
          before: at('pre_ffw_norm_2.weight'),
          after: at('post_ffw_norm_2.weight'),
          shared: at('post_ffw_norm_1.weight'),
        },
        sharedGate: at('ffn_gate_inp_shexp.weight'),
        shared:
          architectures[of].names === 'gemma4'
            ? { gate: at('ffn_gate'), up: at('ffn_up'), down: at('ffn_down') }
            : { gate: at('ffn_gate_shexp'), up: at('ffn_up_shexp'), down: at('ffn_down_shexp') },
      },
    };
  },
});
