"""Which tokens the budget, decoding and merging presses of kvpress keep on the three golden checkpoints: see README.md in this folder.

    python presses_budgets.py GOLDENS_DIR OUT_DIR

GOLDENS_DIR holds llama, qwen2 and qwen3, each a checkpoint with golden.json (`ids`, 240 tokens). OUT_DIR gets kvpress-budgets.json, and the head scores and the
curve that it used, in the files that DuoAttention and LU-KV publish.
"""

import json
import sys
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from kvpress import (
    CAMPress, ChunkPress, CompressionRatioDecodingPress, DecodingPress, DMSPress, DuoAttentionPress, KeyDiffPress, KnormPress, LUKVPress,
    PerLayerCompressionPress, PrefillDecodingPress, SimLayerKVPress, SnapKVPress,
)
from transformers import AutoModelForCausalLM, DynamicCache
from transformers.cache_utils import DynamicLayer

KINDS, NEW = ("llama", "qwen2", "qwen3"), 40
# Head scores of 4 layers with 2 KV heads, and a curve of the share removed by ratio, layer and head whose numbers are of no method.
HEADS = np.array([[0.93, 0.11], [0.42, 0.77], [0.05, 0.64], [0.38, 1.2]])
CURVE = np.clip(np.linspace(0.01, 0.99, 99)[:, None, None] + 0.15 * np.sin(np.arange(8).reshape(4, 2) + 1.0)[None] * np.linspace(0, 1, 99)[:, None, None], 0, 1).astype(np.float32)


def duo(share, sinks, recent):
    press = DuoAttentionPress(head_compression_ratio=share)
    press.load_attention_pattern = lambda model: (sinks, recent, np.clip(HEADS, 0, 1))
    return press


def lukv(ratio):
    press = LUKVPress(KeyDiffPress(), compression_ratio=ratio, sink=4, window=1)
    press._budget_curves = CURVE
    return press


def snapkv(ratio=0.0):
    return SnapKVPress(ratio, window_size=16)


# One event at the end of prefill.
ONCE = {
    "perLayer_0.5": lambda: PerLayerCompressionPress(snapkv(), [0.25, 0.5, 0.75, 0.5]),
    "perLayer_0.75": lambda: PerLayerCompressionPress(KeyDiffPress(), [0.875, 0.75, 0.625, 0.75]),
    "simlayerkv_1": lambda: SimLayerKVPress(lazy_threshold=0.245, n_last=1, n_recent=64, n_initial=4),
    "simlayerkv_4": lambda: SimLayerKVPress(lazy_threshold=0.227, n_last=4, n_recent=48, n_initial=8),
    "duo_0.5": lambda: duo(0.5, 4, 32),
    "duo_0.25": lambda: duo(0.25, 16, 64),
    "lukv_0.5": lambda: lukv(0.5),
    "lukv_0.83": lambda: lukv(0.83),
    "dms_snapkv": lambda: DMSPress(snapkv(), threshold=0.0042, sliding_window_size=32),
    "dms_keydiff": lambda: DMSPress(KeyDiffPress(), threshold=-0.1, sliding_window_size=8),
    "chunk_64_0.5": lambda: ChunkPress(KnormPress(0.5), chunk_length=64),
    "chunk_48_0.75": lambda: ChunkPress(KnormPress(0.75), chunk_length=48),
    "chunk_50_0.75": lambda: ChunkPress(KnormPress(0.75), chunk_length=50),
}
# Events while 40 tokens are generated; the last of them is not fed. By keys' directions, since the norms of one token's keys tie in the first layer.
WHILE = {
    "decoding_16_48": lambda: DecodingPress(KeyDiffPress(), compression_interval=16, target_size=48),
    "ratio_8_0.5": lambda: CompressionRatioDecodingPress(KeyDiffPress(), compression_interval=8, target_compression_ratio=0.5),
    "ratio_16_0.75": lambda: CompressionRatioDecodingPress(KeyDiffPress(), compression_interval=16, target_compression_ratio=0.75),
    "prefillDecoding_snapkv": lambda: PrefillDecodingPress(snapkv(0.75), DecodingPress(KeyDiffPress(), compression_interval=16, target_size=64)),
    "prefillDecoding_keydiff": lambda: PrefillDecodingPress(KeyDiffPress(0.25), CompressionRatioDecodingPress(KeyDiffPress(), compression_interval=10, target_compression_ratio=0.5)),
    "dms_decoding": lambda: DMSPress(KnormPress(), threshold=-5.65, sliding_window_size=16, decoding=True),
    "cam_8": lambda: CAMPress(KeyDiffPress(), compression_interval=8, target_size=96, merge_budget=32),
    "cam_1": lambda: CAMPress(KeyDiffPress(), compression_interval=1, target_size=60, merge_budget=4),
}


def mixed(x):
    x = (x + 0x9E3779B9) & 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    return x ^ (x >> 16)


def coin(seed, layer, head, position):
    """The hash that the scorer `random` has, in [0, 1)."""
    return (mixed(mixed(mixed(mixed(seed) ^ layer) ^ head) ^ position) >> 8) * 2.0**-24


class Positions:
    """The position of every cached key of every layer and head, by the bytes of the key."""

    def __init__(self):
        self.of, self.seen, self.layers = [], [], {}

    def add(self, layer, keys):
        at = self.layers.setdefault(id(layer), len(self.layers))
        if at == len(self.of):
            self.of.append([{} for _ in range(keys.shape[1])])
            self.seen.append(0)
        for head, table in enumerate(self.of[at]):
            for i, key in enumerate(keys[0, head]):
                table[key.numpy().tobytes()] = self.seen[at] + i
        self.seen[at] += keys.shape[2]

    def kept(self, layer, keys):
        return [[self.of[layer][head].get(key.numpy().tobytes()) for key in keys[0, head]] for head in range(keys.shape[1])]


@contextmanager
def watched():
    """Positions of what is cached, and CAM's coins by hash."""
    positions, update, bernoulli, search, compress = Positions(), DynamicLayer.update, torch.bernoulli, torch.searchsorted, CAMPress.compress
    now = {}

    def seen(self, keys, values, *rest, **more):
        positions.add(self, keys)
        return update(self, keys, values, *rest, **more)

    def compressed(self, module, hidden_states, keys, values, attentions, kwargs):
        now.update(layer=int(module.layer_idx), at=np.array(positions.kept(int(module.layer_idx), keys)))
        return compress(self, module, hidden_states, keys, values, attentions, kwargs)

    def searched(kept, merged, **more):
        now["merged"] = merged[0].numpy()
        return search(kept, merged, **more)

    def tossed(p):
        at = now["at"][:, now["merged"]]
        coins = [[coin(0, now["layer"], head, int(position)) for position in row] for head, row in enumerate(at)]
        return (torch.tensor(coins)[None] < p).to(p.dtype)

    DynamicLayer.update, torch.bernoulli, torch.searchsorted, CAMPress.compress = seen, tossed, searched, compressed
    try:
        yield positions
    finally:
        DynamicLayer.update, torch.bernoulli, torch.searchsorted, CAMPress.compress = update, bernoulli, search, compress


def bits(positions):
    """Positions as hexadecimal digits of a number whose bit p is position p."""
    return format(sum(1 << p for p in positions), "x")


def held(model, cache, positions):
    """Kept positions [layer][KV head], what is only masked left out."""
    layers = []
    for at, layer in enumerate(cache.layers):
        masked = getattr(model.model.layers[at].self_attn, "masked_key_indices", None)
        heads = positions.kept(at, layer.keys)  # the fake key of what is masked stands in the cache, and has no position
        layers.append([[p for i, p in enumerate(row) if masked is None or not ((masked[1] == head) & (masked[2] == i)).any()] for head, row in enumerate(heads)])
    return layers


def run(model, ids, press, steps):
    cache = DynamicCache()
    for layer in model.model.layers:
        layer.self_attn.masked_key_indices = None
    with watched() as positions, torch.no_grad(), (press(model) if press else nullcontext()):
        logits, tokens = model(ids, past_key_values=cache).logits[0, -1], []
        for step in range(steps):
            tokens.append(int(logits.argmax()))
            if step + 1 < steps:
                logits = model(torch.tensor([[tokens[-1]]]), past_key_values=cache, position_ids=torch.tensor([[ids.shape[1] + step]])).logits[0, -1]
    return {"kept": [[bits(head) for head in heads] for heads in held(model, cache, positions)], **({"tokens": tokens, "logits": [float(f"{x:.6g}") for x in logits[:16].tolist()]} if steps else {})}


def main(goldens, out):
    made = {"versions": {name: version(name) for name in ("kvpress", "torch", "transformers")}, "kinds": {}}
    for kind in KINDS:
        folder = Path(goldens) / kind
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa").eval()
        ids = torch.tensor([json.loads((folder / "golden.json").read_text())["ids"]])
        made["kinds"][kind] = {name: run(model, ids, make(), 0) for name, make in ONCE.items()} | {name: run(model, ids, make(), NEW) for name, make in WHILE.items()}
    (Path(out) / "kvpress-budgets.json").write_text(json.dumps(made, separators=(",", ":")) + "\n")
    np.savetxt(Path(out) / "full_attention_heads.tsv", HEADS, delimiter="\t")
    np.save(Path(out) / "budget-curve.npy", CURVE)


if __name__ == "__main__":
    main(*sys.argv[1:])
