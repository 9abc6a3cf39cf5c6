"""Converts the gates of Fast KVzip (arXiv:2601.17668) to what the policy `gate` reads.

    python3 -m venv VENV && VENV/bin/pip install torch==2.9.1 safetensors==0.7.0
    VENV/bin/python tools/gate-from-torch.py q2_dim16_sink16.pt model.gguf.gate.safetensors

The authors' files (`Jang-Hyun/Fast-KVzip` on the Hugging Face hub) are pickles of torch: they are read with
`weights_only`, which builds tensors and nothing else, and here alone; kv reads no pickle.
"""
import sys

import numpy
import torch
from safetensors.numpy import save_file

PARTS = ["q_proj.weight", "q_proj.bias", "k_proj.weight", "q_norm.weight", "k_norm.weight", "k_base", "b"]


def tensors(layers):
    """Returns the tensors of all layers as f32, by the names that `readGate` looks for."""
    found = {}
    for l, layer in enumerate(layers):
        missing = [part for part in PARTS if part not in layer]
        if missing:
            raise SystemExit(f"gate-from-torch: expected a gate of Fast KVzip, got layer {l} without {', '.join(missing)}")
        for part in PARTS:
            found[f"layers.{l}.{part}"] = layer[part].to(torch.float32).contiguous().numpy()
    return found


def main(source, target):
    plain = [(numpy._core.multiarray._reconstruct, "numpy.core.multiarray._reconstruct"), numpy.ndarray, numpy.dtype]
    plain += [numpy.dtypes.Float64DType, numpy.dtypes.Float32DType]
    with torch.serialization.safe_globals(plain):
        saved = torch.load(source, map_location="cpu", weights_only=True)
    save_file(tensors(saved["module"]), target, metadata={"source": "Fast KVzip"})


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("gate-from-torch: expected the authors' .pt file and the file to write")
    main(*sys.argv[1:])
