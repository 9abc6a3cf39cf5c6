"""Trains the embedded model from scratch: python train.py --out RUN --minutes 110 --seed 7

--hybrid trains a model whose layers are mostly short convolutions (hybrid.py) instead.

Two one-thread processes average their gradients. The wall clock drives the schedule: lengths grow when
the answer loss allows it, and the learning rate decays over the last third of --minutes. Run the same
command again to resume from RUN/checkpoint.pt; a file RUN/stop ends it early, with a checkpoint.
--start FOLDER --start-minute 110 goes on from exported weights, in the last stage, with fresh optimisers.
"""
import argparse
import json
import math
import random
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from tokenizers import Tokenizer

from data import Generator, read_texts
from export import load_model
from hybrid import Config as HybridConfig, Hybrid
from model import Config, Llama
from optimiser import Optimiser, Smooth, read_checkpoint, run_processes, write_checkpoint
from tokenizer import train_tokenizer

# length, rows a process, shares of dense / copy / prose / haystack, answer loss (nats a token, smoothed) that ends it
STAGES = [
    (128, 8, (45, 20, 10, 25), 0.25),
    (256, 6, (45, 10, 10, 35), 0.25),
    (512, 3, (25, 5, 15, 55), 0.25),
    (1024, 2, (10, 5, 20, 65), 0.5),
    (2048, 1, (5, 3, 20, 72), 1.2),
]
# the last stage mixes lengths: length, rows a process, share of the steps
MIXED = [(256, 6, 0.04), (512, 3, 0.06), (1024, 2, 0.12), (2048, 1, 0.56), (4096, 1, 0.22)]
MIXED_SHARES = (10, 2, 10, 78)
LONGEST = (0.6, 0.97)   # progress between which the longest length takes part
MIN_STEPS = 80          # of a stage
HIDE_FROM_STAGE = 2     # from here on, some steps hide the facts from the question in one layer
HIDE_SHARE = 0.4        # half of it once no layer is indispensable (worst answer loss under HIDE_ENOUGH)
HIDE_ENOUGH = 0.7
HIDE_SHORT = (256, 6, (45, 0, 10, 45))  # most of these steps are short and dense: more answers a second
HIDE_SHORT_SHARE = 0.75
MUON_LR, ADAM_LR, WARMUP, DECAY_SHARE = 5e-3, 3e-3, 50, 1 / 3
CHECKPOINT_SECONDS = 180


def losses(model, batch, hidden_layer):
    """Weighted loss, and the plain losses of answers and of prose (for the log)."""
    ids, weight, fact, question, answer = (torch.from_numpy(part) for part in batch)
    length = ids.shape[1] - 1
    masks = None
    if hidden_layer is not None:
        causal = torch.ones(length, length, dtype=torch.bool).tril()
        masks = {hidden_layer: (causal & ~(question[:, :, None] & fact[:, None, :]))[:, None]}
    hidden, _ = model(ids[:, :-1], masks)
    counted = weight > 0
    each = F.cross_entropy(model.logits(hidden[counted]), ids[:, 1:][counted], reduction="none")
    weight, answer = weight[counted], answer[counted]
    prose = each[weight == 1]
    return ((each * weight).sum() / weight.sum(),
            each[answer].mean().item() if answer.any() else math.nan,
            prose.mean().item() if len(prose) else math.nan)


def choose(rng, stage, progress):
    if stage < len(STAGES):
        return STAGES[stage][:3]
    options = [m for m in MIXED if m[0] < 4096 or LONGEST[0] < progress < LONGEST[1]]
    length, rows, _ = rng.choices(options, [m[2] for m in options])[0]
    return length, rows, MIXED_SHARES


def train(rank, world, args):
    out = Path(args.out)
    texts = list(read_texts(args.texts).values())
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    vocab = tokenizer.get_vocab_size()
    model = Hybrid(HybridConfig(vocab_size=vocab)) if args.hybrid else Llama(Config(vocab_size=vocab))
    optimiser = Optimiser(model, rank, world, MUON_LR, ADAM_LR)
    layers = model.config.num_hidden_layers
    attending = getattr(model.config, "attention_layers", range(layers))
    state = {"step": 0, "stage": 0, "stage_step": 0, "tokens": 0, "elapsed": 0.0, "answer": 5.0, "prose": 7.0,
             "hidden": [1.0] * layers, "curve": []}
    saved = read_checkpoint(out, model, optimiser)
    if saved is not None:
        state = saved
    elif args.start:
        model.load_state_dict(load_model(args.start)[0].state_dict())
        curve = json.loads((Path(args.start) / "curve.json").read_text())
        state.update(stage=len(STAGES), elapsed=60 * args.start_minute, answer=0.1, prose=4.0, hidden=[0.1] * layers,
                     curve=curve, step=curve[-1]["step"], tokens=curve[-1]["tokens"], warm=curve[-1]["step"])
    run = args.seed * 1_000_003 + state["step"]
    generator, shared = Generator(tokenizer, texts, run * 2 + rank), random.Random(run)
    answer, prose = Smooth(state["answer"], 0.04), Smooth(state["prose"], 0.02)
    hidden = [Smooth(v, 0.1) for v in state["hidden"]]
    started, saved_at, before = time.time(), time.time(), state["elapsed"]
    log_tokens, log_time = state["tokens"], time.time()

    def save():
        state.update(answer=answer.value, prose=prose.value, hidden=[h.value for h in hidden])
        write_checkpoint(out, model, optimiser, state)

    while True:
        clock = torch.tensor([before + time.time() - started, float((out / "stop").exists())])
        if world > 1:
            dist.broadcast(clock, 0)
        state["elapsed"] = clock[0].item()
        progress = state["elapsed"] / (60 * args.minutes)
        if progress >= 1 or clock[1]:
            break
        rate = min(1.0, (state["step"] - state.get("warm", 0) + 1) / WARMUP, max(0.0, (1 - progress) / DECAY_SHARE))
        length, rows, shares = choose(shared, state["stage"], progress)
        layer = None
        share = HIDE_SHARE if max(hidden[l].value for l in attending) > HIDE_ENOUGH else HIDE_SHARE / 2
        if state["stage"] >= HIDE_FROM_STAGE and shared.random() < share:
            layer = shared.choices(attending, [0.1 + hidden[l].value ** 2 for l in attending])[0]
            if shared.random() < HIDE_SHORT_SHARE:
                length, rows, shares = HIDE_SHORT
        loss, answer_loss, prose_loss = losses(model, generator.batch(length, rows, shares), layer)
        optimiser.step(loss, rate)

        seen = torch.tensor([0.0 if math.isnan(answer_loss) else answer_loss, float(not math.isnan(answer_loss))])
        if world > 1:
            dist.all_reduce(seen)
        mean = (seen[0] / seen[1]).item() if seen[1] else math.nan
        (answer if layer is None else hidden[layer]).add(mean)
        prose.add(prose_loss)
        state["step"] += 1
        state["stage_step"] += 1
        state["tokens"] += length * rows * world
        if (state["stage"] < len(STAGES) and state["stage_step"] >= MIN_STEPS
                and answer.value < STAGES[state["stage"]][3]):
            answer.value = 2 * STAGES[state["stage"]][3]
            state["stage"] += 1
            state["stage_step"] = 0
        if rank == 0 and state["step"] % 25 == 0:
            now = time.time()
            speed = (state["tokens"] - log_tokens) / (now - log_time)
            log_tokens, log_time = state["tokens"], now
            row = {"step": state["step"], "minutes": round(state["elapsed"] / 60, 2), "tokens": state["tokens"],
                   "stage": state["stage"], "length": length, "answer_loss": round(answer.value, 4),
                   "prose_loss": round(prose.value, 4), "lr": round(rate, 4), "tokens_per_second": round(speed),
                   "hidden_layer_loss": [round(h.value, 3) for h in hidden]}
            state["curve"].append(row)
            print(json.dumps(row), flush=True)
        if rank == 0 and time.time() - saved_at > CHECKPOINT_SECONDS:
            save()
            saved_at = time.time()
    if rank == 0:
        save()
        print("done", state["step"], "steps", state["tokens"], "tokens", round(state["elapsed"]), "seconds", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", required=True, help="folder of .txt files")
    parser.add_argument("--out", required=True, help="folder for tokenizer.json and checkpoint.pt")
    parser.add_argument("--minutes", type=float, default=90)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--start", help="folder written by export.py, to go on from")
    parser.add_argument("--start-minute", type=float, default=110, help="minutes of training those weights have had")
    parser.add_argument("--hybrid", action="store_true")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--port", type=int, default=29517)
    args = parser.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    if args.start and not (out / "tokenizer.json").exists():
        (out / "tokenizer.json").write_bytes((Path(args.start) / "tokenizer.json").read_bytes())
    if not (out / "tokenizer.json").exists():
        train_tokenizer(read_texts(args.texts).values()).save(str(out / "tokenizer.json"))
    run_processes(train, args, args.processes)


if __name__ == "__main__":
    main()
