"""A SentencePiece vocabulary of 4,000 pieces with bytes for what it lacks, as llama.cpp's converter writes one, and ids of hard texts by SentencePiece.

    pip install gguf==0.19.0 sentencepiece==0.2.3
    python tools/reference-models/spm_vocabulary.py packages/tasks/data/tom-sawyer.txt packages/model-testing/data/models/vocabulary-spm

Settings are Llama 2's: BPE, no normalization, a space before each text, digits one by one.
"""

import io
import json
import sys
from pathlib import Path

import sentencepiece
from gguf import GGUFWriter

from tokenizers_small import TEXTS

SIZE, NORMAL, UNKNOWN, CONTROL, BYTE = 4000, 1, 2, 3, 6


def main(book, path):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(Path(book).read_text().split("\n")),
        model_writer=model,
        model_type="bpe",
        vocab_size=SIZE,
        byte_fallback=True,
        split_digits=True,
        required_chars="".join(map(chr, range(33, 127))),
        allow_whitespace_only_pieces=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        num_threads=1,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ids = range(processor.vocab_size())
    kind = lambda i: UNKNOWN if processor.is_unknown(i) else CONTROL if processor.is_control(i) else BYTE if processor.is_byte(i) else NORMAL
    writer = GGUFWriter(f"{path}.gguf", "llama")
    writer.add_name("vocabulary-spm")
    writer.add_context_length(4096)
    writer.add_vocab_size(len(ids))
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([processor.id_to_piece(i) for i in ids])
    writer.add_token_scores([processor.get_score(i) for i in ids])
    writer.add_token_types([kind(i) for i in ids])
    writer.add_bos_token_id(processor.bos_id())
    writer.add_eos_token_id(processor.eos_id())
    writer.add_unk_token_id(processor.unk_id())
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    texts = [{"text": text, "ids": processor.encode(text)} for text in TEXTS if not any("\ud800" <= c <= "\udfff" for c in text)]
    Path(f"{path}.json").write_text(json.dumps({"texts": texts}, ensure_ascii=False) + "\n")


main(*sys.argv[1:])
