"""Writes the fields of transformers' configuration classes, by the architectures that are loaded here.

pip install transformers==5.24.0
python config_fields.py > packages/model-testing/fixtures/config-fields.json
"""

import json
import sys

from transformers import CONFIG_MAPPING

NAMES = ["llama", "mistral", "ministral3", "qwen2", "qwen3", "phi3", "gemma2", "gemma3_text", "gemma4_text", "smollm3", "olmo2", "olmo3", "granite", "granite_swa", "granitemoe", "lfm2", "lfm3", "qwen3_5_text", "granitemoehybrid", "gpt_oss", "qwen3_moe", "qwen3_5_moe_text", "lfm2_moe"]
json.dump({name: sorted(CONFIG_MAPPING[name]().to_dict()) for name in NAMES}, sys.stdout, separators=(",", ":"))
print()
