"""A readable Llama: RMSNorm, rotate-half RoPE, grouped-query attention, SwiGLU, tied embeddings.

Parameter names are those of Hugging Face's LlamaForCausalLM.
"""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    vocab_size: int = 1024
    hidden_size: int = 128
    intermediate_size: int = 256
    num_hidden_layers: int = 8
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 32
    rope_theta: float = 1e4
    rms_norm_eps: float = 1e-5
    max_position_embeddings: int = 4096


class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


def rope_tables(config, device=None):
    """cos and sin of [position, head_dim], the two halves alike (Hugging Face's layout)."""
    half = torch.arange(0, config.head_dim, 2, device=device).float() / config.head_dim
    angles = torch.outer(torch.arange(config.max_position_embeddings).float(), config.rope_theta ** -half)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-right, left], dim=-1) * sin


def attend(q, k, v, mask=None, past=None):
    """Attention of rotated q, k and v, [batch, heads, length, head_dim], after `past` (keys, values).
    mask: None (causal) or booleans [batch, 1, query, key], True where attention is allowed.
    Returns what heads give, [batch, length, heads * head_dim], and all keys and values."""
    if past is not None:
        k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
    groups = q.shape[1] // k.shape[1]
    out = F.scaled_dot_product_attention(
        q, k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1),
        attn_mask=mask, is_causal=mask is None)
    return out.transpose(1, 2).flatten(2), (k, v)


def initialise(model, layers, residual):
    """Matrices from a normal distribution, narrower for those that add to the residual stream, whose names end so."""
    for name, p in model.named_parameters():
        if p.dim() == 2:
            nn.init.normal_(p, std=0.02 / ((2 * layers) ** 0.5 if name.endswith(residual) else 1))


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = c.num_attention_heads, c.num_key_value_heads, c.head_dim
        self.q_proj = nn.Linear(c.hidden_size, self.heads * c.head_dim, bias=False)
        self.k_proj = nn.Linear(c.hidden_size, self.kv_heads * c.head_dim, bias=False)
        self.v_proj = nn.Linear(c.hidden_size, self.kv_heads * c.head_dim, bias=False)
        self.o_proj = nn.Linear(self.heads * c.head_dim, c.hidden_size, bias=False)

    def forward(self, x, cos, sin, mask=None, past=None):
        """mask: None (causal) or booleans [batch, 1, query, key], True where attention is allowed.
        past: (keys after RoPE, values) to put in front. Returns the output and this layer's keys and values."""
        batch, length, _ = x.shape
        q = rotate(self.q_proj(x).view(batch, length, self.heads, self.head_dim).transpose(1, 2), cos, sin)
        k = rotate(self.k_proj(x).view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2)
        out, kept = attend(q, k, v, mask, past)
        return self.o_proj(out), kept


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.up_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.self_attn, self.mlp = Attention(c), MLP(c)
        self.input_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)

    def forward(self, x, cos, sin, mask=None, past=None):
        attended, kv = self.self_attn(self.input_layernorm(x), cos, sin, mask, past)
        x = x + attended
        return x + self.mlp(self.post_attention_layernorm(x)), kv


class Backbone(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.num_hidden_layers))
        self.norm = RMSNorm(c.hidden_size, c.rms_norm_eps)


class Llama(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.model = config, Backbone(config)
        cos, sin = rope_tables(config)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        initialise(self, config.num_hidden_layers, ("o_proj.weight", "down_proj.weight"))

    def forward(self, ids, masks=None, cache=None):
        """Final hidden states. masks: {layer: boolean mask}; layers not named are causal
        (so with a cache every layer must be named). cache: list of (k, v), returned extended."""
        start = cache[0][0].shape[2] if cache else 0
        cos, sin = self.cos[start:start + ids.shape[1]], self.sin[start:start + ids.shape[1]]
        x, extended = self.model.embed_tokens(ids), []
        for i, layer in enumerate(self.model.layers):
            x, kv = layer(x, cos, sin, masks.get(i) if masks else None, cache[i] if cache else None)
            extended.append(kv)
        return self.model.norm(x), extended

    def logits(self, hidden):
        return hidden @ self.model.embed_tokens.weight.T
