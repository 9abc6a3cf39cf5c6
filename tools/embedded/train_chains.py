"""Trains the model that works out chains: python train_chains.py --out RUN --tokens 6200000 --seed 3

Two one-thread processes average their gradients. Chains grow when the loss of digits allows it, and the learning
rate decays over the last third of --tokens: seed and tokens fix the run, however often it is stopped. The same
command goes on from RUN/checkpoint.pt (every ten minutes); a file RUN/stop ends it early, with a checkpoint.
"""
import argparse
import json
import random
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F

from chains import STEPS, batch, chain_tokenizer, token_ids
from model import Config, Llama
from optimiser import Optimiser, Smooth, read_checkpoint, run_processes, write_checkpoint

# steps of a chain, and the loss of a digit (smoothed) that ends the stage
STAGES = [(2, 0.25), (4, 0.25), (7, 0.35), (11, 0.35), (16, 0.35), (STEPS, 0.0)]
MIN_UPDATES = 40                    # of a stage
SIGN_WEIGHT = 5.0
SHORTER = 0.15                      # share of updates with fewer steps than the stage has
TOKENS = 2048                       # an update and process
MUON_LR, ADAM_LR, WARMUP, DECAY_SHARE = 5e-3, 3e-3, 50, 1 / 3
CHECKPOINT_SECONDS = 600
SHAPE = dict(hidden_size=128, intermediate_size=384, num_hidden_layers=6, num_attention_heads=4,
             num_key_value_heads=2, head_dim=32, max_position_embeddings=1024)


def losses(model, ids, start, digit):
    """Weighted loss of the solution's tokens; loss of its digits; share of solutions that greedy decoding would get right."""
    ids, digit = torch.tensor(ids), torch.tensor(digit)[:, start:]
    hidden, _ = model(ids[:, :-1])
    logits, truth = model.logits(hidden[:, start - 1:]), ids[:, start:]
    each = F.cross_entropy(logits.flatten(0, 1), truth.flatten(), reduction="none").view_as(truth)
    right = (logits.argmax(-1) == truth).all(1).float().mean()
    # a sign is the last that is learned: a program's line has it between two names
    sign = torch.isin(truth, torch.tensor([token_ids()[text] for text in "+-"]))
    return (each * torch.where(sign, SIGN_WEIGHT, 1.0)).mean(), each.detach()[digit].mean(), right


def train(rank, world, args):
    out = Path(args.out)
    model = Llama(Config(vocab_size=chain_tokenizer().get_vocab_size(), **SHAPE))
    optimiser = Optimiser(model, rank, world, MUON_LR, ADAM_LR)
    state = read_checkpoint(out, model, optimiser) or {
        "step": 0, "stage": 0, "stage_step": 0, "tokens": 0, "elapsed": 0.0, "digit": 2.3, "right": 0.0, "curve": []}
    digit, right = Smooth(state["digit"], 0.05), Smooth(state["right"], 0.05)
    started, saved_at, before = time.time(), time.time(), state["elapsed"]
    log_tokens, log_time = state["tokens"], time.time()

    def save():
        state.update(digit=digit.value, right=right.value, elapsed=before + time.time() - started)
        if rank == 0:
            write_checkpoint(out, model, optimiser, state)

    while state["tokens"] < args.tokens:
        shared = random.Random(f"{args.seed}/{state['step']}")
        steps, enough = STAGES[state["stage"]]
        drawn = shared.randint(2, steps) if shared.random() < SHORTER else steps
        rows = max(1, TOKENS // (15 * drawn + 21))
        rng = random.Random(f"{args.seed}/{state['step']}/{rank}")
        rate = min(1.0, (state["step"] + 1) / WARMUP, (1 - state["tokens"] / args.tokens) / DECAY_SHARE)
        ids, start, digits = batch(rng, rows, drawn)
        loss, digit_loss, exact = losses(model, ids, start, digits)
        optimiser.step(loss, rate)

        seen = torch.tensor([digit_loss, exact, float((out / "stop").exists())])
        if world > 1:
            dist.all_reduce(seen)
        seen /= world
        if drawn == steps:
            digit.add(seen[0].item())
            right.add(seen[1].item())
        state["step"] += 1
        state["stage_step"] += 1
        state["tokens"] += rows * len(ids[0]) * world
        if state["stage_step"] >= MIN_UPDATES and digit.value < enough:
            digit.value = 2 * enough
            right.value = 0.0
            state.update(stage=state["stage"] + 1, stage_step=0)
        if rank == 0 and state["step"] % 25 == 0:
            now = time.time()
            row = {"step": state["step"], "minutes": round((before + now - started) / 60, 2),
                   "tokens": state["tokens"], "steps": STAGES[state["stage"]][0], "loss": round(loss.item(), 4),
                   "digit_loss": round(digit.value, 4), "right": round(right.value, 3), "lr": round(rate, 4),
                   "tokens_per_second": round((state["tokens"] - log_tokens) / (now - log_time))}
            log_tokens, log_time = state["tokens"], now
            state["curve"].append(row)
            print(json.dumps(row), flush=True)
        if time.time() - saved_at > CHECKPOINT_SECONDS:
            save()
            saved_at = time.time()
        if seen[2] > 0:
            break
    save()
    if rank == 0:
        print("done", state["step"], "steps", state["tokens"], "tokens", round(state["elapsed"]), "seconds", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="folder for tokenizer.json and checkpoint.pt")
    parser.add_argument("--tokens", type=float, default=6.2e6)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--port", type=int, default=29519)
    args = parser.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    chain_tokenizer().save(str(out / "tokenizer.json"))
    run_processes(train, args, args.processes)


if __name__ == "__main__":
    main()
