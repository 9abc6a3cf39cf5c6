"""Small tokenizers of the kinds that real checkpoints use, trained with PyPI `tokenizers`, with its ids and offsets (in UTF-16 units) of hard texts.

    pip install tokenizers==0.23.3
    python tools/reference-models/tokenizers_small.py packages/model-testing/fixtures/tokenizers [NAME ...]

Training breaks ties at random: another run gives other merges, and then tokenizers_odd.py has to run too.
"""

import json
import sys
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CL100K = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# Qwen 3.5: words hold combining marks.
MARKED = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# Tekken (Mistral Nemo) and o200k (Phi-4-mini): words that change from small to capital letters.
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED = r"[^\r\n\p{L}\p{N}]?%(U)s*%(L)s+%(s)s|[^\r\n\p{L}\p{N}]?%(U)s+%(L)s*%(s)s|%(n)s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = CASED % {"U": UPPER, "L": LOWER, "s": "", "n": r"\p{N}"}
O200K = CASED % {"U": UPPER, "L": LOWER, "s": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "n": r"\p{N}{1,3}"}
PROSE = (
    "Four score and seven years ago our fathers brought forth, upon this continent, a new nation, conceived in liberty, and dedicated "
    "to the proposition that all men are created equal. Now we are engaged in a great civil war, testing whether that nation, or any nation "
    "so conceived, and so dedicated, can long endure. We're met on a great battle field of that war; it's 1863, November 19.\n\n  It is "
    "altogether fitting and proper that we should do this. Caf\u00e9 na\u00efve \u00fcber Stra\u00dfe \u6587\u5b57 \u4eca\u65e5\u306f \U0001f999 \U0001f600 e\u0301 12,345.67 100%\r\n"
)
# Words with combining marks, so often that merges cross them.
MARKS = PROSE + " \u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd \u0915\u094d\u0937\u093f \u09b0\u09cd\u09b0 \u0e19\u0e49\u0e33 th\u0301e a\u20e3 \u0301 .\u0301a" * 8
TEXTS = [
    "", " ", "  ", "\n", "\r\n", "\t\t x", "Hello", " Hello", "  Hello  world ", "Hello, y'all! How are you 'Re I'M?", "we're it's WE'LL",
    "1", "12", "123456789", "3.14 x10\u00b2 \u00bd \u0663\u0664 \u2167", "caf\u00e9 cafe\u0301 \u212bngstr\u00f6m A\u030a", "\u1112\u1161\u11ab \ud55c\uae00", "\uff76\uff9e \ufb01ne",
    "\u6587\u5b57 \u4eca\u65e5\u306f", "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f999\U0001f44b\U0001f3fd", "\U0001d11e\u0000x", "a\u00a0b\u2003c\u0085d\ufeffe", "\ufefffirst",
    "\u2581written\u2581out \u2581", "x\r\ny\n\n\n z", "\u0e19\u0e49\u0e33 \u0939\u093f\u0928\u094d\u0926\u0940", "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd", "<0x41> <s>x</s> <unk>",
    "<|im_start|>user\nHi<|im_end|>\n", "a<|im_start|>b", " <|im_start|> ", "<|im_start|><|im_end|>", "x  <left>  y", "x  <right>  y", "word wordy sword word, _word word", "ONE Low \u0130stanbul \u03a3\u03a3",
    "def f(x):\n    return x**2  # \u00e9\n", "\u0301lone mark", "a\u0315\u0300\u05ae\u0062", PROSE,
]


def byte_level(name, pre, *, normalizer=None, ignore_merges=False, prefix=False, bos=None, extra=(), specials=("<|im_start|>", "<|im_end|>"), prose=PROSE):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer is not None:
        t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([prose] * 3, trainers.BpeTrainer(vocab_size=378 + len(specials), special_tokens=list(specials), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.add_tokens(list(extra))
    if bos:
        t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, t.token_to_id(bos))])])
    return name, t


def sentence_piece(name, *, normalizer=None, pre=None, decoder, byte_fallback=True, fuse_unk=True, extra=()):
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=fuse_unk, byte_fallback=byte_fallback))
    if normalizer is not None:
        t.normalizer = normalizer
    # Trained word by word; the tokenizer itself need not cut at words.
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    specials = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
    hexes = [f"<0x{i:02X}>" for i in range(256)] if byte_fallback else []
    text = PROSE if byte_fallback else "".join(c for c in PROSE if ord(c) < 128)
    t.train_from_iterator([text] * 3, trainers.BpeTrainer(vocab_size=400 if byte_fallback else 160, special_tokens=specials + hexes, limit_alphabet=60, show_progress=False))
    # A byte is no special token: take the bytes out of the added tokens.
    d = json.loads(t.to_str())
    d["added_tokens"] = [a for a in d["added_tokens"] if a["content"] in specials]
    d["pre_tokenizer"] = None
    t = Tokenizer.from_str(json.dumps(d))
    if pre is not None:
        t.pre_tokenizer = pre
    t.decoder = decoder
    t.add_tokens(list(extra))
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", t.token_to_id("<s>"))])
    return name, t


def llama_decoder():
    return decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated", False)


def plain_bytes():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


FLAGS = [
    AddedToken("<left>", lstrip=True, normalized=False), AddedToken("<right>", rstrip=True, normalized=False),
    AddedToken("word", single_word=True, normalized=False), AddedToken("One", normalized=True),
]
# The special tokens of LFM2 in their order, and one of LFM2.5 that is part of the text.
LFM2 = ["<|pad|>", "<|startoftext|>", "<|endoftext|>", "<|fim_pre|>", "<|fim_mid|>", "<|fim_suf|>", "<|im_start|>", "<|im_end|>"]
LFM2 += [f"<|tool_{part}_{end}|>" for part in ("list", "call", "response") for end in ("start", "end")]
# Special tokens of Qwen 3.5 in their order, and those that are part of the text.
QWEN35 = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|{name}|>" for name in ("object_ref_start", "object_ref_end", "vision_start", "vision_end", "vision_pad", "image_pad"))]
QWEN35_TEXT = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
# Special tokens of Granite 4.0 in their order; its vocabulary and words are those of cl100k, `dbrx` in GGUF.
GRANITE4 = ["<|end_of_text|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|filename|>", "<|reponame|>", "<|start_of_role|>", "<|end_of_role|>", "<|tool_call|>"]
KINDS = [
    byte_level("gpt2", pre_tokenizers.ByteLevel(add_prefix_space=True)),
    byte_level("smollm", pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]), extra=FLAGS),
    byte_level("llama3", pre_tokenizers.Sequence([split(CL100K % r"\p{N}{1,3}"), plain_bytes()]), ignore_merges=True, bos="<|im_start|>"),
    byte_level("qwen2", pre_tokenizers.Sequence([split(CL100K % r"\p{N}"), plain_bytes()]), normalizer=normalizers.NFC()),
    byte_level("tekken", pre_tokenizers.Sequence([split(TEKKEN), plain_bytes()]), ignore_merges=True, bos="<|im_start|>"),
    byte_level("o200k", pre_tokenizers.Sequence([split(O200K), plain_bytes()])),
    byte_level("lfm2", pre_tokenizers.Sequence([split(CL100K % r"\p{N}{1,3}"), plain_bytes()]), ignore_merges=True, bos="<|startoftext|>", specials=LFM2, extra=["<think>"]),
    byte_level("qwen35", pre_tokenizers.Sequence([split(MARKED), plain_bytes()]), normalizer=normalizers.NFC(), specials=QWEN35, extra=QWEN35_TEXT, prose=MARKS),
    byte_level("granite4", pre_tokenizers.Sequence([split(CL100K % r"\p{N}{1,3}"), plain_bytes()]), specials=GRANITE4),
    byte_level("folded", pre_tokenizers.ByteLevel(add_prefix_space=False), normalizer=normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip()]), extra=FLAGS),
    sentence_piece("llama2", normalizer=normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]), decoder=llama_decoder()),
    sentence_piece("first", pre=pre_tokenizers.Metaspace(prepend_scheme="first", split=False), decoder=llama_decoder(), extra=FLAGS[:3]),
    sentence_piece("always", pre=pre_tokenizers.Metaspace(prepend_scheme="always", split=True), decoder=decoders.Metaspace(), byte_fallback=False, fuse_unk=False),
    sentence_piece("fused", pre=pre_tokenizers.Metaspace(prepend_scheme="never", split=True), decoder=decoders.Metaspace(prepend_scheme="never"), byte_fallback=False),
    sentence_piece(
        "gemma", normalizer=normalizers.Replace(" ", "\u2581"), pre=pre_tokenizers.Split(" ", "merged_with_previous", False),
        decoder=decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]), extra=[AddedToken("\n\n", normalized=False)],
    ),
]


def units(text):
    """The UTF-16 unit at which each code point starts, and the end."""
    at = [0]
    for char in text:
        at.append(at[-1] + (2 if ord(char) > 0xFFFF else 1))
    return at


def case(tokenizer, text):
    unit = units(text)
    full = tokenizer.encode(text)
    tokenizer.encode_special_tokens = True
    literal = tokenizer.encode(text, add_special_tokens=False).ids
    tokenizer.encode_special_tokens = False
    return {"text": text, "ids": full.ids, "offsets": [unit[i] for pair in full.offsets for i in pair], "literal": literal, "decoded": tokenizer.decode(full.ids)}


def main(folder, *names):
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, tokenizer in KINDS:
        if names and name not in names:
            continue
        cases = [case(tokenizer, text) for text in TEXTS]
        path = Path(folder) / f"{name}.json"
        path.write_text(json.dumps({"tokenizer": json.loads(tokenizer.to_str()), "cases": cases}, ensure_ascii=True, separators=(",", ":")) + "\n")
        print(path, path.stat().st_size)


if __name__ == "__main__":
    main(*sys.argv[1:])
