"""Digests of what PyPI `tokenizers` makes of 10,000 odd strings, for every tokenizer of packages/model-testing/fixtures/tokenizers.

    pip install tokenizers==0.23.3
    python tools/reference-models/tokenizers_odd.py packages/model-testing/fixtures/tokenizers > packages/model-testing/fixtures/tokenizers-odd.json

The strings are drawn by a generator that the test repeats, from the units that the file lists: 8 hexadecimal digits of SHA-256 for every 100 strings.
"""

import hashlib
import json
import sys
from pathlib import Path

from tokenizers import Tokenizer

COUNT, CHUNK, LONGEST = 10_000, 100, 24
UNITS = [
    *"aetoinshrdlu", *"AETQZ", *"0123456789", *" .,;:!?-_'\"()[]{}<>|/\\@#$%^&*+=~`", " ", " ", "  ", "   ", "\n", "\n\n", "\r", "\r\n", "\t", "\u00a0", "\u2003", "\u3000", "\u0085",
    "\u200b", "\u200d", "\ufeff", "\u0000", "\u001f", "\u007f", "\ufffd", "'s", "'S", "'T", "'re", "'VE", "'m", "'LL", "'d", "\u2019s", "th", "the", " the", "ing", " nation", "word", " word", "_word", "One",
    "\u00e9", "e\u0301", "\u00df", "\u0130", "\u0131", "\u01c5", "\u03a3", "\u03c2", "\u0439", "\u0438\u0306", "\u05e9\u05b8\u05c1", "\u0639", "\u0660", "\u0967", "\u00b2", "\u00bd", "\u2167", "\u2460", "\u09b0\u09cd", "\u0915\u094d\u0937\u093f",
    "\u0e19\u0e49\u0e33", "\u6587", "\u5b57", "\u304b", "\u30ab\u3099", "\uff76\uff9e", "\uff21", "\ud55c", "\u1112\u1161\u11ab", "\ufb01", "\u212b", "\u2581", "\u0120", "\U0001f999", "\U0001f44b\U0001f3fd",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0001d11e", "\U00020000", "\u0301", "\u0315\u0300", "\u20e3", "<s>", "</s>", "<unk>", "<0x41>", "<|im_start|>", "<|im_end|>", "<|im_", "|>", "<|startoftext|>", "<|endoftext|>",
    "<|pad|>", "<|tool_call_start|>", "<|tool_call_end|>", "<think>", "<left>", "<right>", "https://a.b/c?d=1&e=2", "f(x)", "x**2", "  # ", "\u2014", "\u2026", "\u201cq\u201d", "\u20ac", "\u221e", "\u00ad",
]


def strings():
    """Numbers of a linear congruential generator (Numerical Recipes), of which the upper 16 bits count."""
    state = 40

    def below(n):
        nonlocal state
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        return (state >> 16) % n

    for _ in range(COUNT):
        yield "".join(UNITS[below(len(UNITS))] for _ in range(1 + below(LONGEST)))


def digests(tokenizer):
    texts, out = list(strings()), []
    for start in range(0, COUNT, CHUNK):
        ids = [tokenizer.encode(text).ids for text in texts[start : start + CHUNK]]
        out.append(hashlib.sha256(json.dumps(ids, separators=(",", ":")).encode()).hexdigest()[:8])
    return "".join(out)


def main(folder):
    found = {}
    for path in sorted(Path(folder).iterdir()):
        found[path.stem] = digests(Tokenizer.from_str(json.dumps(json.loads(path.read_text())["tokenizer"])))
    json.dump({"units": UNITS, "count": COUNT, "chunk": CHUNK, "longest": LONGEST, "digests": found}, sys.stdout, separators=(",", ":"))
    print()


main(*sys.argv[1:])
