"""Result folders as kvpress' own evaluation writes them: its EvaluationRunner, on a checkpoint of this repository.

    python -m venv v && v/bin/pip install 'kvpress[eval]==0.5.5' torch==2.15.0 transformers==5.2.0
    git clone https://github.com/NVIDIA/kvpress && git -C kvpress checkout 8bb29b9
    PYTHONHASHSEED=0 HF_HUB_OFFLINE=1 v/bin/python tools/reference-models/kvpress_results.py kvpress/evaluation packages/evaluation/test/data/kvpress

The evaluation is not on PyPI. Run from the root of this repository. The data set is made here: six problems of two of RULER's tasks.
"""

import sys
import tempfile
from pathlib import Path

import pandas as pd

FILLER = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. "
NUMBERS = (4812937, 7730165, 2049581)
RUNS = (("no_press", 0.0, False), ("knorm", 0.5, False), ("snapkv", 0.75, True))


def problems():
    for number in NUMBERS:
        key = f"key-{number % 97}"
        context = f"{FILLER * 4}One of the special magic numbers for {key} is: {number}. {FILLER * 3}"
        yield {
            "context": f"A special magic number is hidden within the following text.\n{context}\n", "task": "niah_single_1", "max_new_tokens": 24,
            "question": f"What is the special magic number for {key} mentioned in the provided text?",
            "answer_prefix": f" The special magic number for {key} mentioned in the provided text is", "answer": [str(number)],
        }
        yield {
            "context": f"Answer the question, in \"quotes\", please.\n{context}\n", "task": "qa_1", "max_new_tokens": 12,
            "question": f"Question: which number belongs to {key}?", "answer_prefix": " Answer:", "answer": [f"it's {number}", "sky", str(number)],
        }


def main(evaluation, out):
    sys.path.insert(0, evaluation)
    import evaluate

    with tempfile.TemporaryDirectory() as data:
        (Path(data) / "512").mkdir()
        pd.DataFrame(problems()).to_parquet(Path(data) / "512" / "test.parquet")
        evaluate.DATASET_REGISTRY["ruler"] = data
        Path(out).mkdir(parents=True, exist_ok=True)
        for press, ratio, aware in RUNS:
            runner = evaluate.EvaluationRunner(evaluate.EvaluationConfig(
                data_dir="512", model="packages/model-embedded", device="cpu", press_name=press, compression_ratio=ratio, query_aware=aware,
            ))
            runner._setup_directories = lambda: Path(out)  # so that config.yaml names no folder of ours
            runner.run_evaluation()


main(*sys.argv[1:])
