"""Experts of the tiny checkpoints of make.py: their weights, and the forms in which checkpoints are published."""

import math

import torch

VALUES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])


def fill_expert(name, noise, kind):
    """[E, inputs, outputs] of gpt-oss, [E, outputs, inputs] of the others; what is added to both, [E, outputs]."""
    if noise.ndim == 2:
        return noise * 0.5
    inputs = noise.shape[1 if kind == "gpt_oss" else 2]
    return noise * (2.5 if kind == "gpt_oss" else 1.6) / math.sqrt(inputs)


def as_mxfp4(model, seed):
    """Rounds the experts' matrices to MXFP4 and returns the two tensors of each: nibbles 2 i and 2 i + 1 of a block are low and high in byte i."""
    out = {}
    for name, parameter in model.named_parameters():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            continue
        rows = parameter.data.transpose(1, 2).contiguous()  # [E, outputs, inputs]
        blocks = rows.reshape(*rows.shape[:2], -1, 32)
        exponents = torch.floor(torch.log2(blocks.abs().amax(-1, keepdim=True))) - 2
        codes = (blocks / 2**exponents).unsqueeze(-1).sub(VALUES).abs().argmin(-1)
        parameter.data = (VALUES[codes] * 2**exponents).reshape(rows.shape).transpose(1, 2).contiguous()
        out[f"{name}_blocks"] = (codes[..., 0::2] + 16 * codes[..., 1::2]).to(torch.uint8)
        out[f"{name}_scales"] = (exponents.squeeze(-1) + 127).to(torch.uint8)
    return out


def as_published(name, tensors, blocks):
    """MXFP4's pairs in place of the numbers they stand for; matrices of each expert apart, where checkpoints have them so."""
    out = {key: value for key, value in tensors.items() if f"{key}_blocks" not in blocks} | blocks
    if name in ("granitemoe", "granitemoehybrid-experts"):
        renamed = {"experts.gate_up_proj": "input_linear.weight", "experts.down_proj": "output_linear.weight", "router.weight": "router.layer.weight"}
        for own, published in renamed.items():
            out = {key.replace(f"block_sparse_moe.{own}", f"block_sparse_moe.{published}"): value for key, value in out.items()}
    if name not in ("qwen3_moe", "lfm2_moe"):
        return out
    gate, up, down = ("w1", "w3", "w2") if name == "lfm2_moe" else ("gate_proj", "up_proj", "down_proj")
    for key in [key for key in out if ".experts." in key]:
        within, which = key.rsplit(".", 1)
        for expert, matrix in enumerate(out.pop(key)):
            parts = zip((gate, up), matrix.chunk(2)) if which == "gate_up_proj" else ((down, matrix),)
            out |= {f"{within}.{expert}.{part}.weight": value.contiguous() for part, value in parts}
    return out
