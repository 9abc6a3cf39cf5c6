"""A readable LFM2: most layers are gated short convolutions, which carry a state of two columns; the others attend.

Parameter names are those of Hugging Face's Lfm2ForCausalLM. What it shares with the Llama is model.py's.
"""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from model import RMSNorm, attend, initialise, rope_tables, rotate


@dataclass
class Config:
    vocab_size: int = 1024
    hidden_size: int = 128
    intermediate_size: int = 320
    num_hidden_layers: int = 10
    attention_layers: tuple = (2, 4, 6, 8)
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 32
    conv_L_cache: int = 3
    rope_theta: float = 1e4
    norm_eps: float = 1e-5
    max_position_embeddings: int = 4096


class ShortConvolution(nn.Module):
    """B, C, u = in_proj(x); out_proj(C * causal_conv(B * u))."""

    def __init__(self, c):
        super().__init__()
        size = c.hidden_size
        self.in_proj = nn.Linear(size, 3 * size, bias=False)
        self.conv = nn.Conv1d(size, size, c.conv_L_cache, groups=size, bias=False)
        self.out_proj = nn.Linear(size, size, bias=False)

    def forward(self, x, past=None):
        """past: the last columns [batch, channels, L - 1] of B * u, zeros at first. Returns the output and the next."""
        b, c, u = self.in_proj(x).chunk(3, dim=-1)
        columns = (b * u).transpose(1, 2)
        reach = self.conv.kernel_size[0] - 1
        columns = F.pad(columns, (reach, 0)) if past is None else torch.cat([past, columns], dim=2)
        return self.out_proj(c * self.conv(columns).transpose(1, 2)), columns[:, :, -reach:]


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = c.num_attention_heads, c.num_key_value_heads, c.head_dim
        self.q_proj = nn.Linear(c.hidden_size, self.heads * c.head_dim, bias=False)
        self.k_proj = nn.Linear(c.hidden_size, self.kv_heads * c.head_dim, bias=False)
        self.v_proj = nn.Linear(c.hidden_size, self.kv_heads * c.head_dim, bias=False)
        self.out_proj = nn.Linear(self.heads * c.head_dim, c.hidden_size, bias=False)
        self.q_layernorm, self.k_layernorm = RMSNorm(c.head_dim, c.norm_eps), RMSNorm(c.head_dim, c.norm_eps)

    def forward(self, x, cos, sin, mask=None, past=None):
        """mask: None (causal) or booleans [batch, 1, query, key], True where attention is allowed.
        past: (keys after RoPE, values) to put in front. Returns the output and this layer's keys and values."""
        batch, length, _ = x.shape
        q = self.q_layernorm(self.q_proj(x).view(batch, length, self.heads, self.head_dim)).transpose(1, 2)
        k = self.k_layernorm(self.k_proj(x).view(batch, length, self.kv_heads, self.head_dim)).transpose(1, 2)
        v = self.v_proj(x).view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        out, kept = attend(q, k, v, mask, past)
        return self.out_proj(out), kept


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.w1 = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.w3 = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.w2 = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Layer(nn.Module):
    def __init__(self, c, attends):
        super().__init__()
        if attends:
            self.self_attn = Attention(c)
        else:
            self.conv = ShortConvolution(c)
        self.feed_forward = MLP(c)
        self.operator_norm, self.ffn_norm = RMSNorm(c.hidden_size, c.norm_eps), RMSNorm(c.hidden_size, c.norm_eps)

    def forward(self, x, cos, sin, mask=None, past=None):
        """Returns the output and what the layer keeps: keys and values, or the columns of its convolution."""
        normed = self.operator_norm(x)
        mixed, kept = self.self_attn(normed, cos, sin, mask, past) if hasattr(self, "self_attn") else self.conv(normed, past)
        x = x + mixed
        return x + self.feed_forward(self.ffn_norm(x)), kept


class Backbone(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.layers = nn.ModuleList(Layer(c, i in c.attention_layers) for i in range(c.num_hidden_layers))
        self.embedding_norm = RMSNorm(c.hidden_size, c.norm_eps)


class Hybrid(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.model = config, Backbone(config)
        cos, sin = rope_tables(config)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        initialise(self, config.num_hidden_layers, ("out_proj.weight", "w2.weight"))

    def forward(self, ids, masks=None, cache=None):
        """Final hidden states. masks: {layer: boolean mask} of layers that attend; layers not named are causal
        (so with a cache every one must be named). cache: what each layer keeps, returned extended."""
        attending = self.config.attention_layers[0]
        start = cache[attending][0].shape[2] if cache else 0
        cos, sin = self.cos[start:start + ids.shape[1]], self.sin[start:start + ids.shape[1]]
        x, extended = self.model.embed_tokens(ids), []
        for i, layer in enumerate(self.model.layers):
            x, kept = layer(x, cos, sin, masks.get(i) if masks else None, cache[i] if cache else None)
            extended.append(kept)
        return self.model.embedding_norm(x), extended

    def logits(self, hidden):
        return hidden @ self.model.embed_tokens.weight.T
