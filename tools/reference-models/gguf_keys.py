"""Writes the metadata keys that gguf-py and llama.cpp know.

python gguf_keys.py LLAMA_ARCH_CPP > packages/model-testing/fixtures/gguf-keys.json

with gguf 0.19.0 from PyPI and src/llama-arch.cpp of the sdist of llama-cpp-python 0.3.36 (both MIT).
"""

import json
import re
import sys

from gguf.constants import Keys


def names(of):
    for name, value in vars(of).items():
        if isinstance(value, type):
            yield from names(value)
        elif not name.startswith("__") and isinstance(value, str):
            yield value


with open(sys.argv[1], encoding="utf-8") as source:
    known = set(re.findall(r'\{ LLM_KV_\w+,\s+"([^"]+)"', source.read()))
known = {key.replace("%s.", "{arch}.") for key in known} | set(names(Keys))
json.dump(sorted(known), sys.stdout, indent=0)
print()
