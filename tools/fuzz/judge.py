"""
A second opinion on the corpus: the Python libraries read every input of tools/fuzz/corpus, and every disagreement with
our readers must be one that disagreements.json explains.

    pip install -r tools/fuzz/requirements.txt
    node tools/fuzz.mjs --verdicts > verdicts.json && python tools/fuzz/judge.py verdicts.json
"""
import json
import re
import sys
import tempfile
import time
from pathlib import Path

import gguf
import jinja2
import jinja2.sandbox
import numpy
import safetensors
import tokenizers

HERE = Path(__file__).parent
TEXT = "he hell <s>w\u00f6rld\U0001f94a  12\n"
MESSAGES = [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "c"}]


def read_gguf(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        file.write(data)
        file.flush()
        for tensor in gguf.GGUFReader(file.name).tensors:
            numpy.asarray(tensor.data).tobytes()


def read_safetensors(data: bytes) -> None:
    safetensors.deserialize(data)


def read_tokenizer(data: bytes) -> None:
    tokenizer = tokenizers.Tokenizer.from_str(data.decode("utf-8"))
    tokenizer.decode(tokenizer.encode(TEXT).ids)


def refuse(message: object) -> None:
    raise jinja2.TemplateError(str(message))


def read_template(data: bytes) -> None:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
    environment.globals.update(raise_exception=refuse, strftime_now=lambda form: time.strftime(form))
    template = environment.from_string(data.decode("utf-8", errors="replace"))
    template.render(
        messages=MESSAGES, tools=None, documents=None, add_generation_prompt=True, bos_token="", eos_token=""
    )


def read_npy(data: bytes) -> None:
    import io

    array = numpy.load(io.BytesIO(data[:-1]), allow_pickle=False)
    if array.ndim != 1 + (data[-1] if data else 0) % 3:
        raise ValueError(f"{array.ndim} axes")


JUDGES = {
    "gguf": read_gguf,
    "safetensors": read_safetensors,
    "tokenizer": read_tokenizer,
    "template": read_template,
    "npy": read_npy,
}


def verdict(judge, data: bytes) -> str:
    try:
        judge(data)
        return "taken"
    except BaseException as error:  # the libraries' own panics too
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {error}".replace("\n", " ")[:300]


def main() -> int:
    ours = json.loads(Path(sys.argv[1]).read_text())
    rules = json.loads((HERE / "disagreements.json").read_text())
    used: dict[int, int] = {}
    agreed = unexplained = 0
    for name, own in sorted(ours.items()):
        target = name.split("/")[0]
        if target not in JUDGES:
            continue
        theirs = verdict(JUDGES[target], (HERE / "corpus" / name).read_bytes())
        if own["taken"] == (theirs == "taken"):
            agreed += 1
            continue
        said = "taken" if own["taken"] else own["why"]
        rule = next(
            (
                i
                for i, rule in enumerate(rules)
                if rule["target"] == target and re.search(rule["ours"], said) and re.search(rule["theirs"], theirs)
            ),
            None,
        )
        if rule is None:
            unexplained += 1
            print(f"{name}\n  ours: {said[:300]}\n  theirs: {theirs}")
        else:
            used[rule] = used.get(rule, 0) + 1
    for rule, count in sorted(used.items()):
        print(f"{count:4} explained: {rules[rule]['why']}")
    print(f"{agreed} agreed, {sum(used.values())} explained, {unexplained} unexplained")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
