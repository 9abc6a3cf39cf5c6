"""Trains the byte-level BPE tokenizer: python tokenizer.py --texts DIR --out tokenizer.json

Capitals and digits are one token each, with or without a leading space, so that random
codes and numbers cost one token a character. `<s>` is prepended by the post-processor only.
"""
import argparse
import string

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from data import read_texts

VOCABULARY = 1024
SPLIT = r" ?[A-Z]| ?[0-9]| ?[a-z]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s"


def train_tokenizer(texts, vocabulary=VOCABULARY):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    forced = [f" {character}" * 20000 for character in string.digits + string.ascii_uppercase]
    tokenizer.train_from_iterator(list(texts) + forced, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 0)])
    return tokenizer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", required=True)
    parser.add_argument("--out", default="tokenizer.json")
    args = parser.parse_args()
    tokenizer = train_tokenizer(read_texts(args.texts).values())
    tokenizer.save(args.out)
    print(args.out, tokenizer.get_vocab_size(), "tokens")


if __name__ == "__main__":
    main()
