"""Writes the fields of transformers' configuration classes with their defaults, by the architectures that are loaded here.

pip install transformers==5.24.0
python config_fields.py > packages/model-testing/fixtures/config-fields.json
"""

import json
import math
import sys
from dataclasses import MISSING, fields

from transformers import CONFIG_MAPPING

NAMES = ["llama", "mistral", "ministral3", "qwen2", "qwen3", "phi3", "gemma2", "gemma3_text", "gemma4_text", "smollm3", "olmo2", "olmo3", "granite", "granite_swa", "granitemoe", "lfm2", "lfm3", "qwen3_5_text", "granitemoehybrid", "gpt_oss", "qwen3_moe", "qwen3_5_moe_text", "lfm2_moe"]


def plain(value):
    """A default as config.json writes it; null also for a field that the class derives from others."""
    if value is MISSING:
        return None
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return {"__float__": "Infinity"} if value == math.inf else value


def defaults(name):
    own = {field.name: field.default for field in fields(CONFIG_MAPPING[name])}
    return {field: plain(own.get(field)) for field in sorted(CONFIG_MAPPING[name]().to_dict())}


json.dump({name: defaults(name) for name in NAMES}, sys.stdout, separators=(",", ":"))
print()
