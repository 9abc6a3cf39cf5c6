"""Puts evaluate.py's results into a model's folder: python card.py --model DIR results.code.json results.number.json

Writes DIR/evaluation.json and, in DIR/README.md, the tables from "Greedy exact match" to the perplexity; the
sentences around them are written by a person.
"""
import argparse
import json
import re
from pathlib import Path

from evaluate import markdown


def merge(parts):
    order = lambda cell: (cell["length"] == 4096, cell["distractors"])
    cells = sorted((cell for part in parts for cell in part["cells"]), key=order)
    return {**parts[0], "cells": cells, "seconds": sum(part["seconds"] for part in parts)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="+", help="files written by evaluate.py")
    parser.add_argument("--model", required=True, help="exported folder")
    args = parser.parse_args()
    results = merge([json.loads(Path(file).read_text()) for file in args.results])
    folder = Path(args.model)
    (folder / "evaluation.json").write_text(json.dumps(results, indent=1) + "\n")
    card = (folder / "README.md").read_text()
    tables = re.compile(r"Greedy exact match, full cache.*?Perplexity of the held-out book[^\n]*\n", re.S)
    written, count = tables.subn(lambda _: markdown(results).strip() + "\n", card)
    if count != 1:
        raise SystemExit(f"{folder / 'README.md'}: expected one block of tables, got {count}")
    (folder / "README.md").write_text(written)


if __name__ == "__main__":
    main()
