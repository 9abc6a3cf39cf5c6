"""Tiny random checkpoints of the architectures, with the logits of transformers: see README.md in this folder.

    python make.py OUT_DIR [NAME ...]
"""

import json
import math
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import (
    AutoModelForCausalLM, AutoModelForImageTextToText, Gemma2Config, Gemma3TextConfig, Gemma4Config, Gemma4TextConfig, GraniteConfig, GraniteMoeHybridConfig, GraniteSWAConfig, Lfm2Config, Lfm3Config, LlamaConfig, Ministral3Config, Mistral3Config, MistralConfig, Olmo2Config, Olmo3Config, Phi3Config,
    Qwen2Config, Qwen3_5Config, Qwen3_5TextConfig, Qwen3Config, SmolLM3Config,
    GptOssConfig, GraniteMoeConfig, Lfm2MoeConfig, Qwen3_5MoeConfig, Qwen3_5MoeTextConfig, Qwen3MoeConfig,
)

from experts import as_published, as_mxfp4, fill_expert

SHAPE = dict(
    vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=0,
)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)
LONGROPE = dict(rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.1, 1.3, 1.7], long_factor=[1.0, 1.5, 3.0, 6.0])
MROPE = dict(rope_type="default", partial_rotary_factor=0.25, mrope_interleaved=True, mrope_section=[1, 1, 1])
QWEN35 = dict(vocab_size=64, hidden_size=32, intermediate_size=32, max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=0)
GRANITE4 = dict(
    vocab_size=64, hidden_size=32, intermediate_size=48, num_attention_heads=4, max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    num_local_experts=0, num_experts_per_tok=0, attention_multiplier=0.2, embedding_multiplier=1.5, residual_multiplier=0.6, logits_scaling=3.0,
)
MINISTRAL = dict(rope_type="yarn", rope_theta=1e4, factor=16.0, original_max_position_embeddings=9, max_position_embeddings=128, beta_fast=4.0, beta_slow=1.0, llama_4_scaling_beta=0.3)
GEMMA4 = dict(
    vocab_size=64, hidden_size=32, intermediate_size=40, num_hidden_layers=8, head_dim=12, global_head_dim=24, sliding_window=7, max_position_embeddings=128,
    layer_types=[kind + "_attention" for kind in ("sliding", "sliding", "full", "sliding", "sliding", "full", "sliding", "full")],
    bos_token_id=1, eos_token_id=2, pad_token_id=0,
)
GEMMA4_SHORT = {**GEMMA4, "num_hidden_layers": 4, "layer_types": [kind + "_attention" for kind in ("sliding", "full", "sliding", "full")]}
QWEN35_MOE = {key: value for key, value in QWEN35.items() if key != "intermediate_size"}
CONFIGS = {
    "llama": LlamaConfig(**SHAPE, head_dim=16, attention_bias=True, mlp_bias=True, rope_parameters=LLAMA3),
    "mistral": MistralConfig(**SHAPE, head_dim=12, sliding_window=6, rope_parameters=dict(rope_type="default", rope_theta=1e6)),
    "qwen2": Qwen2Config(**SHAPE, use_sliding_window=True, sliding_window=7, max_window_layers=1, tie_word_embeddings=True),
    "phi3": Phi3Config(
        **{**SHAPE, "num_attention_heads": 2, "num_key_value_heads": 1}, original_max_position_embeddings=32, sliding_window=20,
        partial_rotary_factor=0.5, rope_parameters=LONGROPE,
    ),
    "gemma2": Gemma2Config(
        **{**SHAPE, "num_hidden_layers": 3}, head_dim=8, query_pre_attn_scalar=12, sliding_window=8, attn_logit_softcapping=3.0, final_logit_softcapping=5.0,
    ),
    "qwen3": Qwen3Config(**SHAPE, head_dim=12, tie_word_embeddings=True),
    "gemma3": Gemma3TextConfig(
        **{**SHAPE, "num_hidden_layers": 7, "num_key_value_heads": 1}, head_dim=12, query_pre_attn_scalar=12, sliding_window=8,
        rope_parameters=dict(full_attention=dict(rope_type="linear", factor=2.0, rope_theta=1e6), sliding_attention=dict(rope_type="default", rope_theta=1e4)),
    ),
    "smollm3": SmolLM3Config(**{**SHAPE, "num_hidden_layers": 5}, rope_parameters=dict(rope_type="default", rope_theta=5e4)),
    "olmo2": Olmo2Config(**SHAPE, rope_parameters=dict(rope_type="default", rope_theta=5e5)),
    "granite": GraniteConfig(
        **SHAPE, attention_multiplier=0.2, embedding_multiplier=1.5, residual_multiplier=0.6, logits_scaling=3.0, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="default", rope_theta=1e4),
    ),
    "llama32": LlamaConfig(**SHAPE, tie_word_embeddings=True, rope_parameters={**LLAMA3, "factor": 32.0, "rope_theta": 5e5}),
    "phi4": Phi3Config(
        **{**SHAPE, "num_attention_heads": 2, "num_key_value_heads": 1}, original_max_position_embeddings=32, sliding_window=262144, tie_word_embeddings=True,
        partial_rotary_factor=0.75,
        rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.1, 1.2, 1.3, 1.5, 1.7], long_factor=[1.0, 1.5, 2.0, 3.0, 4.0, 6.0]),
    ),
    "nemo": MistralConfig(**SHAPE, head_dim=12, sliding_window=None, rope_parameters=dict(rope_type="default", rope_theta=1e6)),
    "qwen3-yarn": Qwen3Config(
        **{**SHAPE, "max_position_embeddings": 32}, head_dim=16,
        rope_parameters=dict(rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=32, beta_fast=4.0, beta_slow=1.0),
    ),
    "lfm2": Lfm2Config(
        **{**SHAPE, "intermediate_size": 72, "num_hidden_layers": 5}, layer_types=["conv", "full_attention", "conv", "conv", "full_attention"],
        block_ffn_dim_multiplier=1.1, block_multiple_of=8, rope_parameters=dict(rope_type="default", rope_theta=1e4),
    ),
    "lfm2-untied": Lfm2Config(
        **{**SHAPE, "num_hidden_layers": 4, "num_key_value_heads": 1}, layer_types=["full_attention", "conv", "full_attention", "conv"],
        conv_L_cache=4, block_auto_adjust_ff_dim=False, tie_word_embeddings=False, rope_parameters=dict(rope_type="default", rope_theta=1e6),
    ),
    "lfm2-biased": Lfm2Config(
        **{**SHAPE, "num_attention_heads": 3, "num_key_value_heads": 1, "num_hidden_layers": 3}, head_dim=12,
        layer_types=["conv", "conv", "full_attention"], conv_L_cache=5, conv_bias=True, block_multiple_of=12,
        rope_parameters=dict(rope_type="default", rope_theta=1e6),
    ),
    "qwen3_5": Qwen3_5TextConfig(
        **QWEN35, num_hidden_layers=5, num_attention_heads=4, num_key_value_heads=2, head_dim=24, tie_word_embeddings=True,
        layer_types=["linear_attention", "full_attention", "linear_attention", "linear_attention", "full_attention"],
        linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=16, linear_value_head_dim=16, rope_parameters=dict(**MROPE, rope_theta=1e4),
    ),
    # With a model of images around it and a layer that drafts, as published checkpoints have them; neither is read.
    "qwen3_5-untied": Qwen3_5Config(
        text_config=dict(
            **QWEN35, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=1, head_dim=16, mtp_num_hidden_layers=1,
            linear_num_key_heads=2, linear_num_value_heads=8, linear_key_head_dim=12, linear_value_head_dim=12, rope_parameters=dict(**MROPE, rope_theta=1e6),
        ),
        vision_config=dict(
            depth=1, hidden_size=8, intermediate_size=8, num_heads=2, patch_size=2, spatial_merge_size=1, temporal_patch_size=1, out_hidden_size=32, num_position_embeddings=4,
        ),
        image_token_id=60, video_token_id=61, vision_start_token_id=62, vision_end_token_id=63,
    ),
    "qwen3_5-biased": Qwen3_5TextConfig(
        **QWEN35, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=2, head_dim=16, attention_bias=True,
        layer_types=["full_attention", "linear_attention", "linear_attention"], linear_conv_kernel_dim=3,
        linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=12, linear_value_head_dim=8, rope_parameters=dict(rope_type="default", rope_theta=1e4),
    ),
    "granitemoehybrid": GraniteMoeHybridConfig(
        **GRANITE4, num_hidden_layers=5, num_key_value_heads=2, layer_types=["linear_attention", "full_attention", "linear_attention", "linear_attention", "full_attention"],
        tie_word_embeddings=True, shared_intermediate_size=48, mamba_n_heads=4, mamba_d_head=16, mamba_d_state=12,
    ),
    # Heads in two groups, each with its own B, C and norm
    "granitemoehybrid-untied": GraniteMoeHybridConfig(
        **GRANITE4, num_hidden_layers=4, num_key_value_heads=1, layer_types=["full_attention", "linear_attention", "linear_attention", "full_attention"],
        shared_intermediate_size=48, mamba_n_heads=8, mamba_d_head=8, mamba_n_groups=2, mamba_d_state=16,
    ),
    # What no GGUF file says: RoPE, biases of products, a kernel without one, bounds of time steps
    "granitemoehybrid-biased": GraniteMoeHybridConfig(
        **{**GRANITE4, "num_attention_heads": 2}, num_hidden_layers=3, num_key_value_heads=2, layer_types=["linear_attention", "full_attention", "linear_attention"],
        shared_intermediate_size=40, position_embedding_type="rope", rope_parameters=dict(rope_type="default", rope_theta=1e4), attention_bias=True,
        mamba_expand=3, mamba_n_heads=6, mamba_d_head=16, mamba_n_groups=2, mamba_d_state=8, mamba_d_conv=3, mamba_conv_bias=False, mamba_proj_bias=True,
        time_step_limit=(0.3, 0.9),
    ),
    # Attention in every layer: in GGUF its architecture is `granite`
    "granitemoehybrid-attention": GraniteMoeHybridConfig(
        **GRANITE4, num_hidden_layers=2, num_key_value_heads=2, layer_types=["full_attention"] * 2, tie_word_embeddings=True, shared_intermediate_size=48,
        mamba_n_heads=4, position_embedding_type="rope", rope_parameters=dict(rope_type="default", rope_theta=1e4),
    ),
    # Experts next to the shared feed-forward layer, as Granite 4.0 H tiny and small have them
    "granitemoehybrid-experts": GraniteMoeHybridConfig(
        **{**GRANITE4, "intermediate_size": 32, "num_local_experts": 6, "num_experts_per_tok": 2}, num_hidden_layers=4, num_key_value_heads=2,
        layer_types=["linear_attention", "full_attention", "linear_attention", "full_attention"], tie_word_embeddings=True, shared_intermediate_size=48, mamba_n_heads=4, mamba_d_head=16, mamba_d_state=12,
    ),
    # All experts for every token, RoPE and biases; tensors by transformers' own names, not those of published files
    "granitemoehybrid-experts-untied": GraniteMoeHybridConfig(
        **{**GRANITE4, "intermediate_size": 24, "num_local_experts": 3, "num_experts_per_tok": 3}, num_hidden_layers=3, num_key_value_heads=1,
        layer_types=["full_attention", "linear_attention", "full_attention"], shared_intermediate_size=40, mamba_n_heads=8, mamba_d_head=8, mamba_n_groups=2, mamba_d_state=16,
        position_embedding_type="rope", rope_parameters=dict(rope_type="default", rope_theta=1e4), attention_bias=True,
    ),
    # Experts alone
    "granitemoe": GraniteMoeConfig(
        **{**SHAPE, "intermediate_size": 32}, num_local_experts=7, num_experts_per_tok=3, attention_multiplier=0.2, embedding_multiplier=1.5, residual_multiplier=0.6, logits_scaling=3.0,
        tie_word_embeddings=True, rope_parameters=dict(rope_type="default", rope_theta=1e4),
    ),
    # llama.cpp's converter reads which layers turn from `no_rope_layers`, transformers from `layer_rope_theta`
    "granite_swa": GraniteSWAConfig(
        **{**SHAPE, "num_hidden_layers": 6}, sliding_window=6, attention_multiplier=0.3, embedding_multiplier=1.5, residual_multiplier=0.6, logits_scaling=3.0,
        layer_rope_theta=[0, 1e4, 1e4, 1e4, 1e4, 0], no_rope_layers=[0, 1, 1, 1, 1, 0], rope_parameters=dict(rope_type="default", rope_theta=1e4),
    ),
    # A base for each layer, which GGUF files cannot say; biases, windows and YaRN as gpt-oss has them
    "granite_swa-thetas": GraniteSWAConfig(
        **{**SHAPE, "num_hidden_layers": 4, "num_attention_heads": 6, "num_key_value_heads": 2}, head_dim=12, sliding_window=9, attention_multiplier=0.2,
        attention_bias=True, mlp_bias=True, tie_word_embeddings=False, layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention"],
        layer_rope_theta=[1e3, 0, 5e5, 1e3], 
        rope_parameters=dict(rope_type="yarn", factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False, original_max_position_embeddings=4096, rope_theta=1e4),
    ),
    # Queries grow from token 9 on, and again later
    "ministral3": Ministral3Config(**SHAPE, head_dim=12, tie_word_embeddings=True, rope_parameters=dict(**MINISTRAL, mscale=1.0, mscale_all_dim=1.0)),
    # With a model of images around it, as published checkpoints have it, which is not read; a factor of cos and sin
    "ministral3-untied": Mistral3Config(
        text_config=dict(**{**SHAPE, "num_attention_heads": 6, "num_hidden_layers": 3}, model_type="ministral3", head_dim=16, sliding_window=None, rope_parameters=dict(**MINISTRAL, mscale=1.0, mscale_all_dim=0.7)),
        vision_config=dict(model_type="pixtral", hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2, head_dim=4, patch_size=2, image_size=4),
        image_token_index=60, tie_word_embeddings=False,
    ),
    "olmo3": Olmo3Config(
        **{**SHAPE, "num_hidden_layers": 5, "num_key_value_heads": 4}, sliding_window=6,
        rope_parameters=dict(full_attention=dict(rope_type="yarn", rope_theta=1e4, factor=8.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=1.0, attention_factor=1.2), sliding_attention=dict(rope_type="default", rope_theta=1e4)),
    ),
    # Default layers, RoPE and kernels
    "lfm3": Lfm3Config(**{**SHAPE, "num_hidden_layers": 7}, head_dim=16, sliding_window=6),
    "lfm3-plain": Lfm3Config(
        **{**SHAPE, "num_attention_heads": 6, "num_hidden_layers": 5}, head_dim=12, sliding_window=9, layer_types=["sliding_attention", "conv", "full_attention", "conv", "sliding_attention"],
        conv_L_cache=4, conv_bias=True, attention_bias=True, use_sandwich_norm=False, use_attention_gate=False, tie_word_embeddings=False,
        rope_parameters=dict(full_attention=dict(rope_type="proportional", rope_theta=1e4, partial_rotary_factor=0.7, factor=2.0), sliding_attention=dict(rope_type="default", rope_theta=1e3)),
    ),
    # Biases, which GGUF files of this family have no names for
    "olmo3-biased": Olmo3Config(
        **{**SHAPE, "num_hidden_layers": 3, "num_attention_heads": 6}, head_dim=12, sliding_window=9, attention_bias=True, tie_word_embeddings=True,
        layer_types=["full_attention", "sliding_attention", "full_attention"],
        rope_parameters=dict(full_attention=dict(rope_type="linear", factor=2.0, rope_theta=5e5), sliding_attention=dict(rope_type="default", rope_theta=1e3)),
    ),
    # E2B's kind: one KV head, wider heads in layers without a window, the last layers read the slots of earlier ones and are twice as wide, inputs of
    # each layer's own; windows shorter than a block. A model that reads images and sound as published, and its text alone, with a head of its own.
    "gemma4": Gemma4Config(
        text_config=dict(GEMMA4, num_attention_heads=4, num_key_value_heads=1, num_kv_shared_layers=5, use_double_wide_mlp=True, hidden_size_per_layer_input=12,
                         vocab_size_per_layer_input=64, final_logit_softcapping=30.0, use_bidirectional_attention="vision"),
        vision_config=dict(hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, head_dim=4, position_embedding_size=16, patch_size=2),
    ),
    "gemma4-unshared": Gemma4TextConfig(
        **GEMMA4, num_attention_heads=6, num_key_value_heads=2, num_kv_shared_layers=0, hidden_size_per_layer_input=4, vocab_size_per_layer_input=64, tie_word_embeddings=False,
    ),
    # 31B's kind: values of keys, and other KV heads, in layers without a window; no inputs of layers
    "gemma4-keys": Gemma4TextConfig(
        **GEMMA4, num_attention_heads=6, num_key_value_heads=3, num_global_key_value_heads=2, attention_k_eq_v=True, hidden_size_per_layer_input=0, final_logit_softcapping=30.0,
    ),
    # 26B's kind: routed experts next to the dense feed-forward layer, with norms of their own, otherwise as 31B; within a model that reads images
    "gemma4-experts": Gemma4Config(
        text_config=dict(GEMMA4_SHORT, num_attention_heads=6, num_key_value_heads=3, num_global_key_value_heads=2, attention_k_eq_v=True, hidden_size_per_layer_input=0,
                         enable_moe_block=True, num_experts=7, top_k_experts=3, moe_intermediate_size=32, final_logit_softcapping=30.0, use_bidirectional_attention="vision"),
        vision_config=dict(hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, head_dim=4, position_embedding_size=16, patch_size=2),
    ),
    # Experts with all that E2B has; all of them for every token
    "gemma4-experts-shared": Gemma4TextConfig(
        **GEMMA4_SHORT, num_attention_heads=4, num_key_value_heads=1, num_kv_shared_layers=2, use_double_wide_mlp=True, hidden_size_per_layer_input=8, vocab_size_per_layer_input=64,
        enable_moe_block=True, num_experts=3, top_k_experts=3, moe_intermediate_size=20, tie_word_embeddings=False,
    ),
    # Experts in MXFP4, as gpt-oss is published.
    "gpt_oss": GptOssConfig(
        **{**SHAPE, "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 6}, head_dim=8, sliding_window=7, num_local_experts=5, num_experts_per_tok=2,
        rope_parameters=dict(rope_type="yarn", factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False, original_max_position_embeddings=4096, rope_theta=150000.0),
    ),
    # Experts whose rows of gate and up alternate, transposed; a number of experts that all tokens pass.
    "gpt_oss-tied": GptOssConfig(
        **{**SHAPE, "hidden_size": 40, "intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 1}, head_dim=12, sliding_window=5,
        num_local_experts=3, num_experts_per_tok=3, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0, truncate=False, original_max_position_embeddings=64, rope_theta=1e4),
    ),
    # A tensor for each matrix of each expert, as it is published.
    "qwen3_moe": Qwen3MoeConfig(
        **{**SHAPE, "num_hidden_layers": 3}, head_dim=12, moe_intermediate_size=32, num_experts=7, num_experts_per_tok=3, norm_topk_prob=True,
        rope_parameters=dict(rope_type="default", rope_theta=1e6),
    ),
    # Layers without experts.
    "qwen3_moe-tied": Qwen3MoeConfig(
        **{**SHAPE, "num_hidden_layers": 4, "num_key_value_heads": 1}, head_dim=16, moe_intermediate_size=40, num_experts=4, num_experts_per_tok=1, norm_topk_prob=False,
        decoder_sparse_step=2, mlp_only_layers=[3], tie_word_embeddings=True, rope_parameters=dict(rope_type="default", rope_theta=1e4),
    ),
    "lfm2_moe": Lfm2MoeConfig(
        **{**SHAPE, "intermediate_size": 72, "num_hidden_layers": 5}, layer_types=["conv", "full_attention", "conv", "conv", "full_attention"],
        num_dense_layers=2, moe_intermediate_size=32, num_experts=6, num_experts_per_tok=2, rope_parameters=dict(rope_type="default", rope_theta=1e4),
    ),
    "lfm2_moe-untied": Lfm2MoeConfig(
        **{**SHAPE, "num_hidden_layers": 3, "num_key_value_heads": 1}, layer_types=["full_attention", "conv", "full_attention"], tie_word_embeddings=False,
        num_dense_layers=0, moe_intermediate_size=16, num_experts=5, num_experts_per_tok=4, use_expert_bias=False, norm_topk_prob=False, routed_scaling_factor=0.6,
        rope_parameters=dict(rope_type="default", rope_theta=1e6),
    ),
    "qwen3_5_moe": Qwen3_5MoeTextConfig(
        **QWEN35_MOE, num_hidden_layers=5, num_attention_heads=4, num_key_value_heads=2, head_dim=24, tie_word_embeddings=True,
        layer_types=["linear_attention", "full_attention", "linear_attention", "linear_attention", "full_attention"],
        moe_intermediate_size=32, shared_expert_intermediate_size=64, num_experts=4, num_experts_per_tok=2,
        linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=16, linear_value_head_dim=16, rope_parameters=dict(**MROPE, rope_theta=1e4),
    ),
    "qwen3_5_moe-untied": Qwen3_5MoeConfig(
        text_config=dict(
            **QWEN35_MOE, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=1, head_dim=16,
            moe_intermediate_size=32, shared_expert_intermediate_size=32, num_experts=5, num_experts_per_tok=3,
            linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=12, linear_value_head_dim=12, rope_parameters=dict(**MROPE, rope_theta=1e6),
        ),
        vision_config=dict(
            depth=1, hidden_size=8, intermediate_size=8, num_heads=2, patch_size=2, spatial_merge_size=1, temporal_patch_size=1, out_hidden_size=32, num_position_embeddings=4,
        ),
        image_token_id=60, video_token_id=61, vision_start_token_id=62, vision_end_token_id=63,
    ),
}
# Seeds other than the place in the list: one by which no early query is nearly orthogonal to its keys, whose norm would enlarge the last digit of f32.
# A checkpoint made later keeps its own, wherever it stands.
SEEDS = {
    "qwen3_5": 32, "granitemoehybrid": 20, "granitemoehybrid-untied": 21, "granitemoehybrid-biased": 22, "granitemoehybrid-attention": 23,
    "granite_swa": 20, "granite_swa-thetas": 21, "ministral3": 51, "ministral3-untied": 52, "olmo3": 53, "olmo3-biased": 54, "lfm3": 55, "lfm3-plain": 56,
    "gemma4": 22, "gemma4-unshared": 23, "gemma4-keys": 24, "gpt_oss": 22, "gpt_oss-tied": 23, "qwen3_moe": 24, "qwen3_moe-tied": 25,
    "lfm2_moe": 26, "lfm2_moe-untied": 27, "qwen3_5_moe": 101, "qwen3_5_moe-untied": 29,
    "gemma4-experts": 60, "gemma4-experts-shared": 61, "granitemoehybrid-experts": 62, "granitemoehybrid-experts-untied": 63, "granitemoe": 64,
}
# Written before a converter was available: `export_gguf` below repeats it. The others go through convert.py.
EXPORTED = ("llama", "qwen2", "qwen3", "gemma2", "phi3")
# Byte-level BPE with one merge: a space is written Ġ.
TOKENS = ["<unk>", "<s>", "</s>", "Ġ", *"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,;:!?-", "th"]
MERGES = ["t h"]
LONG = [1] + [(7 * i * i + 11 * i + 5) % 61 + 3 for i in range(99)]
IDS = LONG[:40]


def fill(model, seed):
    """Weights that make every part matter: scores far from uniform, gains and biases far from their neutral values; all of them f16 numbers."""
    random = torch.Generator().manual_seed(seed)
    kind = model.config.model_type
    gemma, qwen35 = kind.startswith("gemma") and not kind.startswith("gemma4"), kind.startswith("qwen3_5")
    for name, buffer in model.named_buffers():
        if name.endswith("layer_scalar"):
            buffer.fill_(0.5 + torch.rand(1, generator=random).half().item())
            buffer.copy_(buffer.half())
        if name.endswith("expert_bias"):
            buffer.data = (torch.randn(buffer.shape, generator=random) * 0.2).half().float()
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=random)
        if "norm" in name:
            parameter.data = noise * 0.3 + (0 if gemma or qwen35 and "linear_attn" not in name else 1)
            if kind == "gemma3_text" or qwen35:  # the converter adds 1 in f16: nothing may be lost by it
                parameter.data = (parameter.data.clamp(-0.9, 0.9) * 1024).round() / 1024
        elif name.endswith("A_log"):
            parameter.data = noise - 1
        elif name.endswith("sinks"):
            parameter.data = noise * 3  # from heads that hardly look at it to heads that look at nothing else
        elif name.endswith("router.scale"):
            parameter.data = noise + 6  # of a product that is divided by sqrt(D)
        elif name.endswith("per_expert_scale"):
            parameter.data = noise * 0.3 + 1
        elif parameter.ndim == 1:
            parameter.data = noise * 0.3
        elif ".experts." in name:
            parameter.data = fill_expert(name, noise, kind)
        else:
            parameter.data = noise * (1.0 if "embed" in name else 1.6 / math.sqrt(parameter[0].numel()))
        parameter.data = parameter.data.half().float()


def logits(model, ids):
    at = [0, len(ids) // 2, len(ids) - 1]
    with torch.no_grad():
        rows = model(torch.tensor([ids])).logits[0]
    return {"ids": ids, "logits": {str(i): [float(f"{x:.7g}") for x in rows[i].tolist()] for i in at}}


def greedy(model, ids, count=12):
    """The tokens that follow, each the likeliest; a margin that a last digit could turn would be no test."""
    out = list(ids)
    with torch.no_grad():
        for _ in range(count):
            best, second = model(torch.tensor([out])).logits[0, -1].topk(2).values.tolist()
            assert best - second > 3e-4 * abs(best), (best, second)
            out.append(model(torch.tensor([out])).logits[0, -1].argmax().item())
    return {"after": ids, "tokens": out[len(ids):]}


def tokenizer(gemma4):
    special = [{"id": i, "content": TOKENS[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for i in range(3)]
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
             "byte_fallback": False, "ignore_merges": False, "vocab": {token: i for i, token in enumerate(TOKENS)}, "merges": MERGES}
    if gemma4:  # its vocabulary is SentencePiece's, with merges and bytes
        tokens = [token.replace("Ġ", "▁") for token in TOKENS]
        decoders = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
        begin = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                 "pair": [{"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
        return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
                "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
                "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
                "post_processor": begin, "decoder": {"type": "Sequence", "decoders": decoders},
                "model": {**model, "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "vocab": {token: i for i, token in enumerate(tokens)}}}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None, "pre_tokenizer": bytes_,
            "post_processor": None, "decoder": bytes_, "model": model}


def permute(weights, heads):
    """convert_hf_to_gguf.py, LlamaModel.permute: halves of each head to interleaved pairs."""
    return weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


def rope_freqs(config):
    """convert_hf_to_gguf.py, LlamaModel.generate_extra_tensors."""
    rope, dim = config.rope_parameters, config.head_dim
    freqs = 1.0 / (rope["rope_theta"] ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim))
    low, high, original = rope["low_freq_factor"], rope["high_freq_factor"], rope["original_max_position_embeddings"]
    factors = []
    for freq in freqs:
        wavelen = 2 * math.pi / freq
        if wavelen < original / high:
            factors.append(1)
        elif wavelen > original / low:
            factors.append(rope["factor"])
        else:
            smooth = (original / wavelen - low) / (high - low)
            factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(factors, dtype=np.float32)


def export_gguf(model, path):
    """The tensors and metadata that convert_hf_to_gguf.py writes for this architecture."""
    config, arch = model.config, model.config.model_type
    writer = gguf.GGUFWriter(path, arch)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.NORMAL] * (len(TOKENS) - 3))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(config.bos_token_id)
    writer.add_eos_token_id(config.eos_token_id)
    head_dim = getattr(config, "head_dim", None)
    if head_dim is not None:
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if arch == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
        writer.add_sliding_window(config.sliding_window)
        # llama.cpp derives the scale from the head size; this key says it, so that the fixture's may differ
        writer.add_attention_scale(config.query_pre_attn_scalar ** -0.5)
    if arch == "phi3":
        scale = config.max_position_embeddings / config.original_max_position_embeddings
        writer.add_rope_dimension_count(int(config.hidden_size / config.num_attention_heads * config.rope_parameters["partial_rotary_factor"]))
        writer.add_sliding_window(config.sliding_window)
        writer.add_rope_scaling_orig_ctx_len(config.original_max_position_embeddings)
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(scale) / math.log(config.original_max_position_embeddings)))
        for kind in ("long", "short"):
            writer.add_tensor(f"rope_factors_{kind}.weight", np.array(config.rope_parameters[f"{kind}_factor"], dtype=np.float32))
    if arch == "llama":
        writer.add_tensor("rope_freqs.weight", rope_freqs(config))
    names = gguf.get_tensor_name_map({a: m for m, a in gguf.MODEL_ARCH_NAMES.items()}[arch], config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        data = tensor.numpy()
        if arch == "llama" and ".q_proj." in name:
            data = permute(data, config.num_attention_heads)
        if arch == "llama" and ".k_proj." in name:
            data = permute(data, config.num_key_value_heads)
        if arch == "gemma2" and name.endswith("norm.weight"):
            data = data + 1
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), np.ascontiguousarray(data if data.ndim == 1 else data.astype(np.float16)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def drafting(config, seed):
    """Tensors of a layer that drafts the token after the next, by the names of published checkpoints; transformers ignores them."""
    random, hidden, heads = torch.Generator().manual_seed(seed), config.hidden_size, config.num_attention_heads * config.head_dim
    kv, shapes = config.num_key_value_heads * config.head_dim, {"fc": (hidden, 2 * hidden), "pre_fc_norm_embedding": (hidden,), "pre_fc_norm_hidden": (hidden,), "norm": (hidden,)}
    attention = {"q_proj": (2 * heads, hidden), "k_proj": (kv, hidden), "v_proj": (kv, hidden), "o_proj": (hidden, heads), "q_norm": (config.head_dim,), "k_norm": (config.head_dim,)}
    mlp = {"gate_proj": (config.intermediate_size, hidden), "up_proj": (config.intermediate_size, hidden), "down_proj": (hidden, config.intermediate_size)}
    shapes |= {f"layers.0.self_attn.{name}": shape for name, shape in attention.items()} | {f"layers.0.mlp.{name}": shape for name, shape in mlp.items()}
    shapes |= {"layers.0.input_layernorm": (hidden,), "layers.0.post_attention_layernorm": (hidden,)}
    return {f"mtp.{name}.weight": torch.randn(shape, generator=random).half() for name, shape in shapes.items()}


def plain(fields):
    """Fields that are not null, and windows that are."""
    left = {key: plain(value) if isinstance(value, dict) else value for key, value in fields.items() if value is not None}
    left = {key: value for key, value in left.items() if not key.startswith("_") and key not in ("id2label", "label2id")}
    return left | {key: None for key in ("sliding_window",) if fields.get(key, 0) is None}


def main(out, *names):
    for seed, (name, config) in enumerate(CONFIGS.items()):
        if names and name not in names:
            continue
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        text, auto = config.get_text_config(), AutoModelForImageTextToText if hasattr(config, "vision_config") else AutoModelForCausalLM
        model = auto.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
        fill(model, SEEDS.get(name, seed))
        blocks = as_mxfp4(model, seed) if name == "gpt_oss" else {}
        kept = plain(json.loads(config.to_json_string(use_diff=False)))
        kept["architectures"] = [type(model).__name__]
        if config.model_type == "granitemoehybrid":  # as published checkpoints and the converter spell it
            kept["layer_types"] = [dict(linear_attention="mamba", full_attention="attention")[kind] for kind in kept["layer_types"]]
        if blocks:
            kept["quantization_config"] = dict(quant_method="mxfp4", modules_to_not_convert=["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"])
        (folder / "config.json").write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n")
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer(text.model_type == "gemma4_text"), ensure_ascii=False) + "\n")
        # A_log is in f32, as published checkpoints have it: the converter takes its exponential in the type that it has.
        tensors = {key: (value if key.endswith("A_log") else value.half()).contiguous() for key, value in model.state_dict().items()}
        if config.tie_word_embeddings:
            del tensors["lm_head.weight"]
        tensors = as_published(name, tensors, blocks)
        if getattr(text, "mtp_num_hidden_layers", 0):
            tensors |= drafting(text, seed)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        # The second sequence is shorter than the longest context before LongRoPE's scaling; the others do not depend on the length.
        golden = {"sequences": [logits(model, IDS), logits(model, IDS[:24])]}
        if config.model_type in ("lfm2", "lfm3", "granitemoehybrid", "gpt_oss", "qwen3_moe") or text.model_type == "gemma4_text":  # several blocks of 64 tokens, across which states are carried
            golden["sequences"].append(logits(model, LONG))
        long = ("lfm2", "qwen3_5", "granite_swa", "granitemoehybrid", "ministral3", "mistral3", "olmo3", "lfm3", "gemma4")
        golden["greedy"] = greedy(model, IDS[:20], 32 if config.model_type.startswith(long) or hasattr(text, "num_experts_per_tok") else 12)
        if name in EXPORTED:
            export_gguf(model, folder / "model.gguf")
        if name == "qwen2":
            # the converter writes nothing about windows for Qwen2
            for layer in model.model.layers:
                layer.self_attn.sliding_window = None
                layer.attention_type = "full_attention"
            golden["gguf"] = [logits(model, IDS)]
            golden["ggufGreedy"] = greedy(model, IDS[:20])
        (folder / "golden.json").write_text(json.dumps(golden) + "\n")
        print(name, sum(p.numel() for p in model.parameters()), [f.name + " " + str(f.stat().st_size) for f in sorted(folder.iterdir())])


main(Path(sys.argv[1]), *sys.argv[2:])
