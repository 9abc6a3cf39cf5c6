"""Words of hard texts by the expressions of llama.cpp, for each `tokenizer.ggml.pre` that it knows.

    pip install regex==2026.11.19
    python gguf_words.py LLAMA_VOCAB_CPP > packages/model-testing/fixtures/gguf-words.json

with src/llama-vocab.cpp of the sdist of llama-cpp-python 0.3.36 (MIT). Each expression cuts what the one before left,
as `unicode_regex_split` does: a match is a word, and so is what lies between two.
"""

import ast
import json
import random
import re
import sys

import regex

UNITS = [
    *("a", "the", "Word", "WORD", "camelCase", "it's", "I'LL", "'s", "'", " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n"),
    *("1", "12", "123", "1234", "1234567", "٣٤", "½", "Ⅷ", ".", ",", "...", "!?", "—", "…", "。", "，", "「", "～", "$", "+=", "^~|`", "#include", "\\"),
    *("é", "e\u0301", "ß", "Ärger", "İ", "я", "Привет", "Ελλάδα", "שלום", "مرحبا", "हिन्दी", "ไทย", "文", "漢字", "かな", "カナ", "한국어", "ㄱ", "ㄅ"),
    *("🐶", "👩‍👩‍👧", "\u00a0", "\u3000", "\u200b", "\u0000", "\ufeff", "_", "/", "(", ")", "<s>", "μ", "ͰⲀꙀ", "𐐀", "｡", "Ａｚ"),
]
# cut by functions of their own in llama.cpp, or as no bytes, or for embeddings
LEFT = {"whitespace", "gemma4", "granite-embed-multi-311m", "sarvam-moe", "kimi-k2", "afmoe", "superbpe", "tiny_aya", "cohere2moe", "jina-v1-en", "jina-v2-code", "roberta-bpe", "granite-embed-multi-97m"}


def expressions(source):
    """By type, and those of any other."""
    body = source[source.index("switch (vocab.get_pre_type())") if "switch (vocab.get_pre_type())" in source else source.index("switch (vocab.") :]
    body = body[: body.index("std::vector<std::string> regex_exprs;")]
    found, names = {}, []
    for line in body.splitlines():
        line = line.strip()
        if line.startswith("//"):
            continue
        if case := re.match(r"case LLAMA_VOCAB_PRE_TYPE_(\w+):", line):
            names.append(case[1])
        elif line.startswith("default:"):
            names.append("DEFAULT")
        elif line.startswith('"'):
            literal = re.match(r'"(?:[^"\\]|\\.)*"', line)[0]
            for name in names:
                found.setdefault(name, []).append(ast.literal_eval(literal))
        elif line == "break;":
            names = []
    return found


def types(source):
    """By name, the type and what else goes with it."""
    body = source[source.index('tokenizer_pre == "default") {') :]
    body = body[: body.index("LLAMA_VOCAB_TYPE_SPM")]
    found, names, now = {}, ["default"], {}
    for line in body.splitlines():
        if "else" in line and "if" in line:
            names = []
        names += re.findall(r'tokenizer_pre == "([^"]+)"', line)
        if kind := re.search(r"pre_type = LLAMA_VOCAB_PRE_TYPE_(\w+);", line):
            now = {"type": kind[1], "ignoreMerges": False, "addBos": False}
            for name in names:
                found[name] = now
        if "ignore_merges = true" in line:
            now["ignoreMerges"] = True
        if "add_bos = true" in line:
            now["addBos"] = True
    return found


def cut(texts, expression):
    words = []
    for text in texts:
        at = 0
        for match in expression.finditer(text):
            words += [part for part in (text[at : match.start()], match[0]) if part]
            at = match.end()
        words += [text[at:]] if at < len(text) else []
    return words


def main(path):
    with open(path, encoding="utf-8") as file:
        source = file.read()
    by_type, draw = expressions(source), random.Random(35)
    texts = ["".join(draw.choices(UNITS, k=draw.randint(1, 14))) for _ in range(120)]
    names = {name: of for name, of in types(source).items() if name not in LEFT}
    cuts, known = {}, []
    for kind in sorted({of["type"] for of in names.values()}):
        compiled = [regex.compile(each) for each in by_type.get(kind, by_type["DEFAULT"])]
        lengths = []
        for text in texts:
            words = [text]
            for expression in compiled:
                words = cut(words, expression)
            lengths.append([len(word.encode("utf-16-le")) // 2 for word in words])
        if lengths not in known:
            known.append(lengths)
        cuts[kind] = known.index(lengths)
    json.dump({"texts": texts, "names": names, "cuts": cuts, "words": known, "left": sorted(LEFT)}, sys.stdout, ensure_ascii=True, separators=(",", ":"))
    print()


main(*sys.argv[1:])
