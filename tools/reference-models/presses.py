"""What scorers of kvpress keep and score on the three golden checkpoints: see README.md in this folder.

    python presses.py GOLDENS_DIR OUT_FILE

GOLDENS_DIR holds llama, qwen2 and qwen3, each a checkpoint with golden.json (`ids`, 240 tokens). Every press evicts once at the end of prefill.
"""

import copy
import json
import sys
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import torch
from kvpress import (
    BasePress, CapPress, ChunkPress, CURPress, EntropyGatedChunkKVPress, ExpectedAttentionStatsPress, FinchPress, KeyDiffPress, KVComposePress,
    KVzipPress, QFilterPress, SnapKVPress,
)
from kvpress.presses.expected_attention_with_stats import patch_rotary_embedding
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

KINDS, RATIOS = ("llama", "qwen2", "qwen3"), (0.5, 0.75)
QUESTION, SINKS, LAYER, PARTS = 24, 4, 1, 100_000


def queries(model, ids):
    """Queries of every layer before and after rotation, [L, H, n, d]."""
    with patch_rotary_embedding(model) as seen, torch.no_grad():
        model(ids)
    before = torch.cat(seen).double()
    cos, sin = model.model.rotary_emb(before, torch.arange(ids.shape[1])[None])
    after, _ = apply_rotary_pos_emb(before, before, cos, sin)
    return before, after


def filters(model, ids):
    """Main right-singular vectors of the rotated queries of every head, turned to a positive mean, mean over the head group; kvpress scores by minus the product."""
    _, after = queries(model, ids)
    heads = torch.linalg.svd(after, full_matrices=False).Vh[:, :, 0]
    heads = heads * torch.sign((after.mean(dim=2) * heads).sum(dim=-1, keepdim=True))
    layers, _, d = heads.shape
    return -heads.view(layers, model.config.num_key_value_heads, -1, d).mean(dim=2)


def statistics(model, ids):
    """Mean and covariance of the queries before rotation, as `collect_queries` of kvpress has them of one sample."""
    before = queries(model, ids)[0][:, :, SINKS:]
    mean = before.mean(dim=2)
    off = before - mean.unsqueeze(2)
    return mean.float(), (off.transpose(-2, -1) @ off / (before.shape[2] - 1)).float()


def with_filters(model, ids, ratio):
    press = QFilterPress(ratio)
    press.q_filters = filters(model, ids).float()
    press.post_init_from_model = lambda model: None
    return press


def with_statistics(model, ids, ratio):
    press = ExpectedAttentionStatsPress(ratio)
    press.mu, press.cov = statistics(model, ids)
    return press


def finch(model, ids, ratio):
    return FinchPress(ratio, rerotate_keys=False)


PRESSES = {
    "cap": lambda model, ids, ratio: CapPress(ratio),
    "expectedAttentionStats": with_statistics,
    "qfilter": with_filters,
    "finch": finch,
    "entropyGate_snapkv": lambda model, ids, ratio: EntropyGatedChunkKVPress(SnapKVPress(ratio, window_size=20)),
    "entropyGate_keydiff": lambda model, ids, ratio: EntropyGatedChunkKVPress(KeyDiffPress(ratio), chunk_length=7, low_entropy_chunk_length=3),
    "kvcompose": lambda model, ids, ratio: KVComposePress(compression_ratio=ratio),
    "kvcompose_unstructured": lambda model, ids, ratio: KVComposePress(compression_ratio=ratio, structured=False),
    "kvzip": lambda model, ids, ratio: KVzipPress(ratio),
    "kvzip_plus": lambda model, ids, ratio: KVzipPress(ratio, kvzip_plus_normalization=True),
    "kvzip_plus_layerwise": lambda model, ids, ratio: KVzipPress(ratio, layerwise=True, kvzip_plus_normalization=True),
    "chunk_keydiff": lambda model, ids, ratio: ChunkPress(KeyDiffPress(ratio), chunk_length=48),
    "chunk_cur": lambda model, ids, ratio: ChunkPress(CURPress(ratio, local_window_size=12), chunk_length=60),
}
FORCED = {"cap": range(SINKS), "expectedAttentionStats": range(SINKS), "finch": range(240 - QUESTION, 240)}


@contextmanager
def scored(press):
    """Scores of layer LAYER as the press works them out."""
    seen = []
    if isinstance(press, KVzipPress):
        compress = press.compress_post
        press.compress_post = lambda model: (seen.append(press.score_val[LAYER][0].clone()), compress(model))
    elif isinstance(press, ChunkPress):
        pass  # scores of several chunks
    elif isinstance(press, KVComposePress):
        enhance = press.enhance_scores
        press.enhance_scores = lambda: (enhance(), seen.append(press.scores[LAYER].clone()))
    elif hasattr(press, "score"):
        score = press.score
        def spy(module, *rest):
            out = score(module, *rest)
            if module.layer_idx == LAYER:
                seen.append(out[0].clone())
            return out
        press.score = spy
    yield seen


def run(model, tokenizer, make, ids, ratio):
    """Kept positions [layer][KV head] and, where the press has some, the scores of one layer."""
    plain, cache = DynamicCache(), DynamicCache()
    with torch.no_grad():
        model.model(ids, past_key_values=plain)
    press, fed = make(model, ids, ratio), ids
    if isinstance(press, FinchPress):
        model = copy.deepcopy(model)
        tokenizer = press.update_model_and_tokenizer(model, copy.deepcopy(tokenizer))
        cut = ids.shape[1] - QUESTION
        fed = torch.cat([ids[:, :cut], torch.tensor([[press.delimiter_token_id]]), ids[:, cut:]], dim=1)
    with scored(press) as seen, torch.no_grad(), press(model):
        model.model(input_ids=fed, past_key_values=cache)
    kept = []
    for layer, (full, left) in enumerate(zip(plain.layers, cache.layers)):
        masked = getattr(model.model.layers[layer].self_attn, "masked_key_indices", None)
        heads = []
        for head in range(full.keys.shape[1]):
            if masked is not None:
                gone = set(masked[2][masked[1] == head].tolist())
                heads.append([p for p in range(ids.shape[1]) if p not in gone])
                continue
            far, where = torch.cdist(left.keys[0, head].double(), full.keys[0, head].double()).min(dim=1)
            assert far.max() < 1e-4 and len(set(where.tolist())) == len(where), "a kept key is not one of the prompt's"
            heads.append(sorted(where.tolist()))
        kept.append(heads)
        model.model.layers[layer].self_attn.masked_key_indices = None
    return kept, seen[0] if seen else None


def bits(positions):
    """Positions as hexadecimal digits of a number whose bit p is position p."""
    return format(sum(1 << p for p in positions), "x")


def parts(name, row):
    """Scores as whole parts of the largest; null where the method forces the slot and writes its maximum + 1."""
    free = [None if p in FORCED.get(name, ()) else x for p, x in enumerate(row.double().tolist())]
    largest = max(abs(x) for x in free if x is not None)
    return {"largest": float(f"{largest:.8g}"), "parts": [None if x is None else round(x / largest * PARTS) for x in free]}


def main(goldens, out):
    made = {"versions": {name: version(name) for name in ("kvpress", "torch", "transformers")}, "question": QUESTION, "kinds": {}}
    for kind in KINDS:
        folder = Path(goldens) / kind
        model, tokenizer = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval(), AutoTokenizer.from_pretrained(folder)
        ids = torch.tensor([json.loads((folder / "golden.json").read_text())["ids"]])
        for module in model.model.layers:
            module.self_attn.rotary_emb = model.model.rotary_emb
        if kind == "qwen2":
            model.config.head_dim = model.model.layers[0].self_attn.head_dim
        results = {}
        for name, make in PRESSES.items():
            entry = {"kept": {}}
            for ratio in RATIOS:
                kept, scores = run(model, tokenizer, make, ids, ratio)
                entry["kept"][str(ratio)] = [[bits(head) for head in heads] for heads in kept]
                if scores is not None:
                    entry["scores"] = [parts(name, row) for row in scores]
            results[name] = entry
        made["kinds"][kind] = {"filters": [[[float(f"{x:.7g}") for x in head] for head in heads] for heads in filters(model, ids).tolist()], "presses": results}
    Path(out).write_text(json.dumps(made, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
