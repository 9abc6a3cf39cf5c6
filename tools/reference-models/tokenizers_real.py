"""Ids and offsets (in UTF-16 units) that PyPI `tokenizers` gives with tokenizer.json files of real checkpoints: of hard texts, and of prose.

    pip install tokenizers==0.23.3
    python tools/reference-models/tokenizers_real.py "$(node tools/tokenizers.mjs)" ../shared/data/text packages/model-testing/fixtures/real-tokenizers.json
"""

import hashlib
import json
import sys
from pathlib import Path

from tokenizers import Tokenizer

from tokenizers_small import TEXTS, units

EXCERPTS = [("alice29.txt", 1000), ("tinyshakespeare.txt", 50000), ("us-inaugural-addresses.txt", 300000)]
LENGTH = 3000


def ids_of(tokenizer, text):
    full, unit = tokenizer.encode(text), units(text)
    return {"ids": full.ids, "offsets": [unit[i] for pair in full.offsets for i in pair]}


def case(path, texts):
    tokenizer = Tokenizer.from_file(str(path))
    excerpt = lambda file, start: (Path(texts) / file).read_bytes().decode()[start : start + LENGTH]
    return {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "texts": [{"text": text, **ids_of(tokenizer, text)} for text in TEXTS],
        "excerpts": [{"file": file, "start": start, "length": LENGTH, **ids_of(tokenizer, excerpt(file, start))} for file, start in EXCERPTS],
    }


def main(folder, texts, out):
    cases = {path.stem: case(path, texts) for path in sorted(Path(folder).glob("*.json"))}
    Path(out).write_text(json.dumps(cases, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
