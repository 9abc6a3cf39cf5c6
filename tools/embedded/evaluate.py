"""Measures an exported model: python evaluate.py --model DIR --out results.json

Greedy exact match is read off one teacher-forced pass: greedy decoding yields exactly the value and its
full stop if and only if every position's argmax is the next token of ' value.'. The document is
prefilled alone, then the question is appended, so dropping cache entries in between is query-agnostic
eviction with true positions kept.
"""
import argparse
import json
import random
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from data import FORM_BY_NAME, HELD_OUT_BOOK, HELD_OUT_KEYS, Fact, code, number, sentences_of
from export import load_model

STYLES = ("cued", "free")
SINKS, RECENT, KEEP = 4, 64, 0.25


class Case:
    """A document of about `length` tokens (question included) with one asked needle and its distractors."""

    def __init__(self, tokenizer, book, rng, form, length, distractors=0):
        keys = rng.sample(HELD_OUT_KEYS, distractors + 1)
        if form == "code" and rng.random() < 0.5:
            keys[0] = "secret"
        values = [code(rng, 8) if form == "code" else number(rng, rng.choice((4, 5, 6, 7))) for _ in keys]
        facts = [Fact(rng, FORM_BY_NAME[form], key, 0, value) for key, value in zip(keys, values)]
        self.fact, self.depth = facts[0], rng.random()
        statements = ["".join(t for t, _ in fact.stated()) for fact in facts]
        size = lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
        room = length - 40 - sum(size(" " + s) for s in statements)
        sentences, sizes = book
        at, chosen, total = rng.randrange(len(sentences)), [], 0
        while total + sizes[at] <= room:
            total += sizes[at]
            chosen.append(at)
            at = (at + 1) % len(sentences)
        places = [self.depth] + [rng.random() for _ in range(distractors)]
        ends, position = [0], 0
        for i in chosen:
            position += sizes[i]
            ends.append(position)
        slots = {}
        for place, statement in zip(places, statements):
            nearest = min(range(len(ends)), key=lambda i: abs(ends[i] - place * total))
            slots.setdefault(nearest, []).append(statement)
        pieces = []
        for i in range(len(chosen) + 1):
            pieces += slots.get(i, [])
            if i < len(chosen):
                pieces.append(sentences[chosen[i]])
        self.document = " ".join(pieces)
        encoding = tokenizer.encode(self.document)
        self.ids = encoding.ids
        start = self.document.index(statements[0])
        end = start + len(statements[0])
        self.needle = [i for i, (a, b) in enumerate(encoding.offsets) if b > max(a, start) and a < end and b > a]
        self.questions = {}
        for style in STYLES:
            prompt = self.document + "\n" + self.fact.prompt(rng, style, plain=True)
            before, whole = tokenizer.encode(prompt).ids, tokenizer.encode(prompt + f" {self.fact.value}.").ids
            assert before[:len(self.ids)] == self.ids and whole[:len(before)] == before
            self.questions[style] = (whole[len(self.ids):], len(before) - len(self.ids))


@torch.no_grad()
def ask(model, cache, case, style, keeps):
    """Exact match for each way of keeping the cache; keeps: list of {layer or None (all): kept booleans}."""
    ids, answer_at = case.questions[style]
    n, q = len(case.ids), len(ids)
    masks = {}
    causal = torch.ones(q, q, dtype=torch.bool).tril()
    for layer in range(model.config.num_hidden_layers):
        rows = []
        for keep in keeps:
            kept = keep.get(layer, keep.get(None, torch.ones(n, dtype=torch.bool)))
            rows.append(torch.cat([kept.expand(q, n), causal], dim=1))
        masks[layer] = torch.stack(rows)[:, None]
    expanded = [(k.expand(len(keeps), -1, -1, -1), v.expand(len(keeps), -1, -1, -1)) for k, v in cache]
    batch = torch.tensor(ids).expand(len(keeps), q)
    hidden, _ = model(batch, masks, expanded)
    predicted = model.logits(hidden[:, answer_at - 1:-1]).argmax(-1)
    return (predicted == batch[:, answer_at:]).all(dim=1).tolist()


def keeps_of(case, rng, layers):
    """The test-bed's ways of keeping the document, by name."""
    n = len(case.ids)
    none, position = torch.zeros(n, dtype=torch.bool), torch.arange(n)
    needle = none.clone()
    needle[case.needle] = True
    budget = int(KEEP * n)
    chosen = none.clone()
    chosen[rng.sample(range(n), budget)] = True
    keeps = {
        "full": {},
        "streaming 25 %": {None: (position < SINKS) | (position >= n - budget)},
        "random 25 %": {None: chosen},
        "sinks + last 64": {None: (position < SINKS) | (position >= n - RECENT)},
        "sinks + needle + last 64": {None: (position < SINKS) | needle | (position >= n - RECENT)},
        "all but the needle": {None: ~needle},
    }
    for layer in range(layers):
        keeps[f"needle hidden in layer {layer}"] = {layer: ~needle}
    return keeps


def evaluate_cell(model, tokenizer, book, rng, form, length, n, distractors=0, test_bed=0):
    """Hits by style and way of keeping, over n fresh cases, the first `test_bed` of them kept in every way;
    each hit is (depth, 0 or 1)."""
    hits = {}
    for i in range(n):
        case = Case(tokenizer, book, rng, form, length, distractors)
        with torch.no_grad():
            _, cache = model(torch.tensor([case.ids]))
        keeps = keeps_of(case, rng, model.config.num_hidden_layers) if i < test_bed else {"full": {}}
        for style in STYLES:
            for name, hit in zip(keeps, ask(model, cache, case, style, list(keeps.values()))):
                hits.setdefault((style, name), []).append((case.depth, int(hit)))
    return hits


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else float("nan")


def summary(hits):
    return {
        "n": len(hits),
        "accuracy": round(mean(h for _, h in hits), 4),
        "by_depth": [round(mean(h for d, h in hits if i / 5 <= d < (i + 1) / 5), 4) for i in range(5)],
        "middle": round(mean(h for d, h in hits if 0.25 <= d <= 0.7), 4),
    }


@torch.no_grad()
def perplexity(model, tokenizer, sentences, windows, length=1024):
    ids = tokenizer.encode(" ".join(sentences), add_special_tokens=False).ids
    total = count = 0
    for i in range(windows):
        at = i * (len(ids) - length) // windows
        window = torch.tensor([[0] + ids[at:at + length]])
        logits = model.logits(model(window[:, :-1])[0])
        total += F.cross_entropy(logits[0], window[0, 1:], reduction="sum").item()
        count += length
    return float(torch.tensor(total / count).exp())


def row(cells):
    return "| " + " | ".join(str(c) for c in cells) + " |"


def markdown(results):
    lines = ["Greedy exact match, full cache (cued / free).", "",
             row(["form", "tokens", "distractors", "n", "cued", "free", "cued by depth fifth"]), row(["---"] * 7)]
    for cell in results["cells"]:
        cued, free = cell["cued"]["full"], cell["free"]["full"]
        lines.append(row([cell["form"], cell["length"], cell["distractors"], cued["n"], f"{cued['accuracy']:.3f}",
                          f"{free['accuracy']:.3f}", " ".join(f"{a:.2f}" for a in cued["by_depth"])]))
    beds = [cell for cell in results["cells"] if len(cell["cued"]) > 1]
    if beds:
        lines += ["", f"Test bed: what is kept of the document before the question (cued / free; middle: depth .25-.7; "
                  f"{beds[0]['cued']['all but the needle']['n']} cases).", "",
                  row(["kept"] + [f"{c['form']} {c['length']}" + (" middle" if m else "") for c in beds for m in (0, 1)]),
                  row(["---"] * (1 + 2 * len(beds)))]
        for name in beds[0]["cued"]:
            lines.append(row([name] + [f"{c['cued'][name][key]:.2f} / {c['free'][name][key]:.2f}"
                                       for c in beds for key in ("accuracy", "middle")]))
    lines += ["", f"Perplexity of the held-out book ({results['perplexity']['windows']} windows of 1,024 tokens, "
              f"full cache): {results['perplexity']['value']:.1f} a token."]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="exported folder, or a checkpoint.pt beside its tokenizer.json")
    parser.add_argument("--texts", required=True, help="folder of .txt files")
    parser.add_argument("--out", default=None)
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--lengths", type=int, nargs="+", default=[256, 512, 1024, 2048])
    parser.add_argument("--distractor-lengths", type=int, nargs="*", default=[512, 1024, 2048])
    parser.add_argument("--long-n", type=int, default=100, help="cases at 4,096 (0: none)")
    parser.add_argument("--bed-n", type=int, default=100, help="test-bed cases a cell")
    parser.add_argument("--forms", nargs="+", default=["code", "number"])
    parser.add_argument("--bed-lengths", type=int, nargs="*", default=[512, 1024])
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    started = time.time()
    model, tokenizer = load_model(args.model)
    sentences = sentences_of((Path(args.texts) / HELD_OUT_BOOK).read_text(encoding="utf-8", errors="replace"))
    book = (sentences, [len(e.ids) for e in tokenizer.encode_batch([" " + s for s in sentences], add_special_tokens=False)])
    rng = random.Random(args.seed)
    plan = [(form, length, args.n, 0, args.bed_n if length in args.bed_lengths else 0)
            for form in args.forms for length in args.lengths]
    plan += [(form, length, args.n, 3, 0) for form in args.forms for length in args.distractor_lengths]
    if args.long_n:
        plan += [(form, 4096, args.long_n, 0, 0) for form in args.forms]
    windows = 40
    results = {"seed": args.seed, "perplexity": {"windows": windows, "value": perplexity(model, tokenizer, sentences, windows)},
               "cells": []}
    for form, length, n, distractors, bed in plan:
        hits = evaluate_cell(model, tokenizer, book, rng, form, length, n, distractors, bed)
        cell = {"form": form, "length": length, "distractors": distractors, "cued": {}, "free": {}}
        for (style, name), found in hits.items():
            cell[style][name] = summary(found)
        results["cells"].append(cell)
        results["seconds"] = round(time.time() - started)
        print(form, length, distractors, cell["cued"]["full"]["accuracy"], cell["free"]["full"]["accuracy"],
              results["seconds"], "s", flush=True)
        if args.out:
            Path(args.out).write_text(json.dumps(results, indent=1) + "\n")
    print(markdown(results))


if __name__ == "__main__":
    main()
