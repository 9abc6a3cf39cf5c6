"""Logits and greedy tokens of transformers (f32) on the numbers that SmolLM2-135M-Instruct.Q4_1.gguf stands for.

    python -m venv v && v/bin/pip install -r tools/reference-models/smollm2.requirements.txt
    v/bin/python tools/reference-models/smollm2.py "$(node tools/smollm2.mjs)" ../shared/data/text packages/model-testing/fixtures/smollm2.json

The weights are those of gguf-py's dequantiser, the rows of q and k in transformers' order; transformers' own reader of GGUF files must give the same.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

QUESTION = "What is the capital of France, and what is it known for?"
EXCERPT = {"file": "pride-and-prejudice.txt", "start": 60000, "length": 1000}
NEW_TOKENS, TOP = 24, 32
NAMES = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm",
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}


def config_of(read):
    return LlamaConfig(
        vocab_size=read("llama.vocab_size"), hidden_size=read("llama.embedding_length"), intermediate_size=read("llama.feed_forward_length"),
        num_hidden_layers=read("llama.block_count"), num_attention_heads=read("llama.attention.head_count"), num_key_value_heads=read("llama.attention.head_count_kv"),
        max_position_embeddings=read("llama.context_length"), rms_norm_eps=read("llama.attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default", "rope_theta": read("llama.rope.freq_base")},
        bos_token_id=read("tokenizer.ggml.bos_token_id"), eos_token_id=read("tokenizer.ggml.eos_token_id"), pad_token_id=read("tokenizer.ggml.padding_token_id"),
        tie_word_embeddings=True,
    )


def in_halves(rows, heads):
    """llama.cpp turns rows 2i and 2i + 1 of a head together, transformers i and i + d / 2: the rows in transformers' order."""
    return rows.reshape(heads, -1, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def model_of(reader, config):
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    weights = {}
    for tensor in reader.tensors:
        *layer, name, _ = tensor.name.split(".")
        numbers = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        numbers = in_halves(numbers, heads[name]) if name in heads else numbers
        weights[(f"model.layers.{layer[1]}." if layer else "") + f"{NAMES[name]}.weight"] = torch.from_numpy(np.ascontiguousarray(numbers))
    model = LlamaForCausalLM(config).eval()
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert missing == ["lm_head.weight"] and not unexpected, (missing, unexpected)
    model.tie_weights()
    return model


def same_as_transformers_reads(model, path):
    other = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).state_dict()
    own = model.state_dict()
    assert own.keys() == other.keys()
    for name, numbers in own.items():
        assert torch.equal(numbers, other[name]), name


def tokenizer_of(read):
    tokens, merges, types = (read(f"tokenizer.ggml.{name}") for name in ("tokens", "merges", "token_type"))
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=[tuple(merge.split(" ")) for merge in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token, kind in zip(tokens, types) if kind == 3])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=read("tokenizer.chat_template"))


def case(model, ids, decode):
    batch = torch.tensor([ids])
    with torch.no_grad():
        rows = model(batch).logits[0]
        made = model.generate(batch, attention_mask=torch.ones_like(batch), do_sample=False, max_new_tokens=NEW_TOKENS, output_logits=True, return_dict_in_generate=True)
    tokens = made.sequences[0, len(ids) :].tolist()
    best = torch.stack([row[0].topk(2).values for row in made.logits])
    logits = []
    for at in (0, len(ids) // 2, len(ids) - 1):
        values, top = rows[at].topk(TOP)
        row = rows[at].double()
        logits.append({"at": at, "top": list(zip(top.tolist(), [round(v, 5) for v in values.tolist()])), "mean": round(row.mean().item(), 7), "norm": round(row.norm().item(), 4)})
    ended = tokens[-1] == model.config.eos_token_id
    tokens = tokens[:-1] if ended else tokens
    return {
        "ids": ids, "logits": logits, "greedy": tokens, "ended": ended, "text": decode(tokens),
        "leastGap": round((best[:, 0] - best[:, 1]).min().item(), 4),
    }


def main(path, texts, out):
    path = Path(path)
    reader = GGUFReader(path)
    read = lambda name: reader.fields[name].contents()
    model, tokenizer = model_of(reader, config_of(read)), tokenizer_of(read)
    same_as_transformers_reads(model, path)
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": QUESTION}], add_generation_prompt=True, tokenize=False)
    prose = (Path(texts) / EXCERPT["file"]).read_bytes().decode()[EXCERPT["start"] : EXCERPT["start"] + EXCERPT["length"]]
    of = lambda text: case(model, tokenizer.encode(text, add_special_tokens=False), tokenizer.decode)
    result = {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "chat": {"question": QUESTION, "prompt": prompt, **of(prompt)},
        "prose": {**EXCERPT, **of(prose)},
    }
    Path(out).write_text(json.dumps(result, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
