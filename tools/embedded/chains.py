"""Problems whose answer is worked out step by step, and their tokenizer: the same text as @kv/tasks' `chain`.

    a3;F=d-e;b7;E=d+a;c2;d9;G=f+b?      every line once, in random order; G is asked for
    E=d9+a3=e2;F=d9-e2=f7;G=f7+b7=g4#e2f7g4

A step names its variable, reads two values that stand anywhere before it and states the result mod 10. One
operand is the variable before, so that every step is needed; the other is any earlier one. The answer is the
last three variables. Letters are consecutive from a random one (z is followed by a).
"""
import random
import string
from functools import cache

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

GIVEN = 4
STEPS = 22


def chain_tokenizer():
    """Bytes, and "A=" to "Z=" as one token each."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [(letter, "=") for letter in string.ascii_uppercase]
    tokens = ["<s>", "</s>"] + alphabet + [a + b for a, b in merges]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 0)])
    return tokenizer


class Problem:
    """`prompt` ends with the first step's name, `solution` goes on from there; both as lists of tokens' texts."""

    def __init__(self, rng, steps=STEPS):
        start, count = rng.randrange(26), GIVEN + steps
        names = [string.ascii_lowercase[(start + i) % 26] for i in range(count)]
        values = [rng.randrange(10) for _ in range(GIVEN)]
        lines = [[names[i], str(values[i]), ";"] for i in range(GIVEN)]
        solution = []
        for i in range(GIVEN, count):
            x, y = i - 1, rng.randrange(i - 1)
            if rng.random() < 0.5:
                x, y = y, x
            sign = rng.choice("+-")
            values.append((values[x] + values[y] if sign == "+" else values[x] - values[y]) % 10)
            header, last = names[i].upper() + "=", i == count - 1
            lines.append([header, names[x], sign, names[y], "?" if last else ";"])
            solution += [header, names[x], str(values[x]), sign, names[y], str(values[y]), "=", names[i],
                         str(values[i]), "#" if last else ";"]
        rng.shuffle(lines)
        self.prompt = [token for line in lines for token in line] + ["\n", solution[0]]
        answer = [token for i in range(count - 3, count) for token in (names[i], str(values[i]))]
        self.solution, self.answer = solution[1:] + answer + ["\n"], "".join(answer)


@cache
def token_ids():
    tokenizer = chain_tokenizer()
    texts = list(string.ascii_lowercase + string.digits + ";+-=?#\n") + [c + "=" for c in string.ascii_uppercase]
    return {text: tokenizer.encode(text, add_special_tokens=False).ids[0] for text in texts}


def batch(rng, rows, steps):
    """(ids [rows, length], first generated position, whether each token is a digit): equal lengths, no padding."""
    ids, digits = token_ids(), []
    problems = [Problem(rng, steps) for _ in range(rows)]
    texts = [["<s>"] + problem.prompt + problem.solution for problem in problems]
    return ([[ids.get(text, 0) for text in row] for row in texts], 1 + len(problems[0].prompt),
            [[text.isdigit() for text in row] for row in texts])


if __name__ == "__main__":
    # one problem with its solution, as tools/calibrate.mjs reads a text
    one = Problem(random.Random(0))
    print("".join(one.prompt + one.solution), end="")
