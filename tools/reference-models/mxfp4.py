"""MXFP4 as gpt-oss' safetensors hold it, with what transformers and llama.cpp's converter make of it.

    python mxfp4.py LLAMA_CPP > packages/model-testing/fixtures/mxfp4.json

Needs transformers 5.24.0; LLAMA_CPP as in convert.py.
"""

import base64
import json
import sys
from pathlib import Path

import torch

sys.path[:0] = [sys.argv[1], str(Path(sys.argv[1]) / "gguf-py")]
from conversion.gpt_oss import GptOssModel
from transformers.integrations.mxfp4 import _convert_moe_packed_tensors

EXPERTS, ROWS, BLOCKS = 2, 5, 3
random = torch.Generator().manual_seed(0)
blocks = torch.randint(0, 256, (EXPERTS, ROWS, BLOCKS, 16), generator=random, dtype=torch.uint8)
scales = torch.randint(110, 140, (EXPERTS, ROWS, BLOCKS), generator=random, dtype=torch.uint8)
scales.view(-1)[:4] = torch.tensor([0, 1, 127, 252], dtype=torch.uint8)  # the least, and the largest whose numbers are all finite

stored = torch.concat((scales.unsqueeze(-1), GptOssModel.transform_nibble_layout(None, blocks)), dim=-1)
values = _convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).transpose(1, 2)
text = lambda x: base64.b64encode(x.contiguous().numpy().tobytes()).decode()
json.dump(dict(shape=[EXPERTS, ROWS, 32 * BLOCKS], blocks=text(blocks), scales=text(scales), gguf=text(stored), values=text(values)), sys.stdout)
print()
