"""Writes what the tests of @kv/models compare stored types and GGUF files with, made by gguf-py (PyPI `gguf`), the reference.

    python -m venv v && v/bin/pip install -r quants.requirements.txt && v/bin/python quants.py ../../packages/model-testing/fixtures

quants.json: for each block type some blocks (base64) and the f32 numbers that gguf.quants.dequantize gives for them (base64).
values.gguf and values.json: a file with every kind of metadata and many tensor types, and what gguf-py's own reader says of it.
parts-0000*-of-00003.gguf: three parts as GGUFWriter splits them.
"""

import base64
import hashlib
import json
import sys
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFReader, GGUFValueType, GGUFWriter
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize, quantize

OUT = Path(sys.argv[1])
RNG = np.random.default_rng(7)

# Where the halves that scale a block lie.
SCALES = {T.Q8_0: [0], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.MXFP4: []}

# Zero of both signs, the least subnormal of both signs, the largest subnormal, the largest of both signs, infinity, not a number.
EXTREME = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x7BFF, 0xFBFF, 0x7C00, 0x7E00]


def text(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def blocks(kind: T) -> np.ndarray:
    numbers, size = GGML_QUANT_SIZES[kind]
    extreme = EXTREME if numbers == 32 else [0x8001, 0xFBFF, 0x7C00]
    out = []
    for halves in [[h] * 2 for h in extreme] + [RNG.integers(0, 0x7C00, 2) | (RNG.integers(0, 2, 2) << 15) for _ in range(3)]:
        block = RNG.integers(0, 256, size, dtype=np.uint8)
        for place, half in zip(SCALES[kind], halves):
            block[place : place + 2] = np.array([half], dtype="<u2").view(np.uint8)
        out.append(block)
    if kind == T.MXFP4:  # one exponent of 8 bits: the least, those around 1, the largest whose numbers are all finite, and beyond
        for block, exponent in zip(out, [0, 1, 2, 126, 127, 128, 252, 253, 254, 255]):
            block[0] = exponent
    if numbers == 32 and kind != T.IQ4_NL:  # gguf-py reads IQ4_NL but does not write it
        out += list(quantize(RNG.standard_normal((2, 32), dtype=np.float32), kind))
    return np.stack(out)


def write_quants() -> None:
    cases = {}
    for kind in SCALES:
        data = blocks(kind)
        with np.errstate(all="ignore"):
            cases[kind.name] = {"blocks": text(data), "numbers": text(dequantize(data, kind).astype("<f4"))}
    (OUT / "quants.json").write_text(json.dumps(cases, indent=1) + "\n")


def write_values() -> None:
    path = OUT / "values.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_custom_alignment(64)
    for name, value, kind in [
        ("uint8", 255, GGUFValueType.UINT8), ("int8", -128, GGUFValueType.INT8), ("uint16", 65535, GGUFValueType.UINT16), ("int16", -32768, GGUFValueType.INT16),
        ("uint32", 2**32 - 1, GGUFValueType.UINT32), ("int32", -(2**31), GGUFValueType.INT32), ("uint64", 2**53 - 1, GGUFValueType.UINT64), ("int64", -(2**53) + 1, GGUFValueType.INT64),
        ("float32", 0.1, GGUFValueType.FLOAT32), ("float64", 0.1, GGUFValueType.FLOAT64), ("true", True, GGUFValueType.BOOL), ("false", False, GGUFValueType.BOOL),
        ("string", "Zwölf Boxkämpfer 🥊", GGUFValueType.STRING), ("empty", "", GGUFValueType.STRING), ("__proto__", "a name", GGUFValueType.STRING),
    ]:
        writer.add_key_value(f"test.{name}" if name != "__proto__" else name, value, kind)
    writer.add_array("test.strings", ["a", "ünï", "", "a longer one than sixteen bytes"])
    writer.add_array("test.integers", [1, -2, 3])
    writer.add_array("test.floats", [0.5, -1.25])
    writer.add_array("test.bools", [True, False])
    writer.add_array("test.lists", [[1, 2], [3]])
    tensors = [("t.f32", T.F32, (3, 5)), ("t.f16", T.F16, (2, 3, 4)), ("t.bf16", T.BF16, (6,)), ("t.i32", T.I32, (4,)), ("t.iq2_xs", T.IQ2_XS, (1, 256))]
    tensors += [(f"t.{kind.name.lower()}", kind, (2, GGML_QUANT_SIZES[kind][0])) for kind in SCALES]
    for name, kind, shape in tensors:
        numbers, size = GGML_QUANT_SIZES[kind]
        data = RNG.integers(0, 256, (*shape[:-1], shape[-1] // numbers * size), dtype=np.uint8)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = {}
    for tensor in GGUFReader(path).tensors:
        found[tensor.name] = {"type": tensor.tensor_type.name, "shape": [int(n) for n in tensor.shape][::-1], "sha256": hashlib.sha256(tensor.data.tobytes()).hexdigest()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in found.items())
    (OUT / "values.json").write_text(f"{{\n{lines}\n}}\n")


def write_parts() -> None:
    writer = GGUFWriter(OUT / "parts", "llama", split_max_tensors=2)
    for i in range(5):
        writer.add_tensor(f"t{i}", np.arange(i, i + 4, dtype=np.float32))
    writer.write_header_to_file(OUT / "parts.gguf")
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


OUT.mkdir(exist_ok=True)
write_quants()
write_values()
write_parts()
