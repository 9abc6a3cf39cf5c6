"""Every document the model is trained and tested on: prose, fact templates, questions, generators.

A document is a list of segments (text, role); roles carry the loss weight and say which tokens are
facts (hidable) and which belong to questions. The text is encoded once, as a user would encode it.
"""
import random
import re
import string
from pathlib import Path

import numpy as np

HELD_OUT_BOOK = "tom-sawyer.txt"

# role: loss weight. "fact" / "first" are a statement's words and its unpredictable value.
WEIGHTS = {"prose": 1.0, "fact": 1.0, "first": 0.0, "question": 1.0, "answer": 5.0, "random": 0.0, "copy": 2.0}
FACT_ROLES, QUESTION_ROLES = ("fact", "first"), ("question", "answer")
ROLE_ID = {role: i for i, role in enumerate(WEIGHTS)}

# Keys that never occur in a training fact; the evaluation uses only these (and "secret").
HELD_OUT_KEYS = (
    "Paris Rome London Berlin Madrid Vienna Lisbon Oslo Cairo Tokyo Delhi Lima Havana Dublin Athens Prague "
    "Warsaw Zurich Geneva Milan Naples Boston Denver Chicago Seattle Austin Toronto Sydney Kyoto Seoul "
    "Nairobi Tunis Quito Bogota Hanoi Manila Helsinki Riga Tallinn Sofia Nightingale Aurora"
).split()


# ---------------------------------------------------------------- values
def code(rng, length=None):
    length = length or rng.choice((4, 6, 8, 8, 8, 8, 8, 8, 10, 12, 16))
    return "".join(rng.choices(string.ascii_uppercase + string.digits, k=length))


def number(rng, length=None):
    length = length or rng.choice((4, 5, 6, 7, 7, 8))
    return rng.choice("123456789") + "".join(rng.choices(string.digits, k=length - 1))


def hexadecimal(rng):
    return "".join(rng.choices("0123456789abcdef", k=rng.choice((8, 12, 16))))


def mixed_token(rng):
    return "".join(rng.choices(string.ascii_letters + string.digits, k=rng.choice((8, 12, 16))))


def name_and_number(rng):
    return f"{proper_name(rng)}-{rng.randint(1, 99)}"


# ---------------------------------------------------------------- keys
ONSETS = "b c d f g h j k l m n p r s t v w z br ch cl cr dr fl gr kr pl pr sh sl st th tr".split()
VOWELS = "a e i o u a e i o u ai ea ei ia io ou".split()
CODAS = ["", "", "", "n", "r", "s", "l", "m", "t", "nd", "rk", "ck", "ss", "th"]


def proper_name(rng):
    name = "".join(rng.choice(ONSETS) + rng.choice(VOWELS) + (rng.choice(CODAS) if rng.random() < 0.5 else "")
                   for _ in range(rng.choice((1, 2, 2, 2, 3))))
    return name.capitalize()


class Keys:
    """Words to name facts by: names and nouns of the training prose, and invented names."""

    def __init__(self, texts):
        words = re.findall(r"\b[A-Za-z]{4,10}\b", " ".join(texts))
        counts = {}
        for word in words:
            counts[word] = counts.get(word, 0) + 1
        held_out = {key.lower() for key in HELD_OUT_KEYS}
        frequent = [w for w, n in counts.items() if n >= 5 and w.lower() not in held_out]
        self.lower = [w for w in frequent if w.islower()]
        self.names = [w for w in frequent if w[0].isupper() and w[1:].islower()]
        self.held_out = held_out

    def sample(self, rng, lower_share=0.2):
        kind = rng.random()
        if kind < lower_share:
            return rng.choice(self.lower)
        if kind < 0.55:
            return rng.choice(self.names)
        while True:
            name = proper_name(rng)
            if name.lower() not in self.held_out:
                return name


# ---------------------------------------------------------------- fact templates
class Form:
    """statements, cues (the prompt ends just before the value) and questions (free, then ' ... Answer:').
    {k} is the key and {v} the value; in cues and questions only {k}."""

    def __init__(self, name, value, statements, cues, questions, weight=1.0):
        self.name, self.value, self.weight = name, value, weight
        self.statements, self.cues, self.questions = statements, cues, questions


FORMS = [
    Form("code", code,
         ["The {k} code is: {v}.", "The {k} code is: {v}.", "The {k} code is {v}."],
         ["The {k} code is:", "The {k} code is:", "The {k} code is"],
         ["What is the {k} code?", "Tell me the {k} code.", "Which code is the {k} code?"], 4.0),
    Form("number", number,
         ["The special magic {k} number is: {v}."],
         ["The special magic {k} number is:"],
         ["What is the special magic {k} number?", "Tell me the special magic {k} number."], 3.0),
    Form("ruler", number,
         ["One of the special magic numbers for {k} is: {v}."],
         ["The special magic number for {k} mentioned in the provided text is:",
          "One of the special magic numbers for {k} is:"],
         ["What is the special magic number for {k} mentioned in the provided text?"], 1.0),
    Form("pin", number, ["The {k} PIN is: {v}.", "The PIN for {k} is {v}."],
         ["The {k} PIN is:", "The PIN for {k} is"],
         ["What is the PIN for {k}?", "What is the {k} PIN?"], 1.0),
    Form("locker", number, ["The {k} locker number is {v}.", "The locker of {k} has the number {v}."],
         ["The {k} locker number is", "The locker of {k} has the number"],
         ["What is the {k} locker number?", "What number has the locker of {k}?"], 1.0),
    Form("budget", number, ["The budget of Project {k} is {v} dollars."],
         ["The budget of Project {k} is"], ["What is the budget of Project {k}?"], 0.7),
    Form("contact", name_and_number, ["Agent {k}'s contact is {v}."],
         ["Agent {k}'s contact is"], ["Who is Agent {k}'s contact?"], 0.7),
    Form("formula", number, ["Formula {k} needs a temperature of {v} degrees."],
         ["Formula {k} needs a temperature of"], ["What temperature does Formula {k} need?"], 0.7),
    Form("password", mixed_token, ["The password of {k} is: {v}."],
         ["The password of {k} is:"], ["What is the password of {k}?"], 0.7),
    Form("env", hexadecimal, ["{K}_KEY={v}\n", "api_key_{k} = {v}\n"],
         ["{K}_KEY=", "api_key_{k} ="], ["What is the key of {k}?"], 0.5),
    Form("json", code, ['"{k}_token": "{v}",\n', '{k}_token: {v}\n'],
         ["The {k}_token is:"], ["What is the {k}_token?"], 0.5),
]
FORM_BY_NAME = {form.name: form for form in FORMS}
SECRET_SHARE = 0.3  # of the documents with code facts, one is "the secret code"


class Fact:
    def __init__(self, rng, form, key, variant=None, value=None):
        self.form, self.key, self.value = form, key, value or form.value(rng)
        self.statement = form.statements[variant if variant is not None else rng.randrange(len(form.statements))]

    def _fill(self, template):
        return template.replace("{k}", self.key).replace("{K}", self.key.upper())

    def stated(self):
        """Segments of the statement; before the value a space stands where the template has one."""
        before, after = self._fill(self.statement).split("{v}")
        space = " " if before.endswith(" ") else ""
        return [(before[:len(before) - len(space)], "fact"), (space + self.value, "first"), (after, "fact")]

    def asked(self, rng, style=None):
        """Segments of one question with its answer, which always ends in '.'."""
        style = style or rng.choice(("cued", "free"))
        return [(self.prompt(rng, style), "question"), (" " + self.value, "answer"), (".", "answer")]

    def prompt(self, rng, style, plain=False):
        pick = (lambda options: options[0]) if plain else rng.choice
        if style == "cued":
            return self._fill(pick(self.form.cues))
        question = self._fill(pick(self.form.questions))
        shape = 0 if plain else rng.randrange(3)
        return (f"Question: {question}\nAnswer:", f"{question}\nAnswer:", f"{question} Answer:")[shape]


def draw_facts(rng, keys, count, confusable):
    """count facts; confusable: all of one form and statement, so that only the key tells them apart."""
    weights = [form.weight for form in FORMS]
    form = rng.choices(FORMS, weights)[0]
    variant = rng.randrange(len(form.statements))
    facts, used = [], set()
    secret = rng.randrange(count) if rng.random() < SECRET_SHARE else -1
    while len(facts) < count:
        if not confusable:
            form = rng.choices(FORMS, weights)[0]
            variant = rng.randrange(len(form.statements))
        key = keys.sample(rng)
        if form.name == "code" and len(facts) == secret and "secret" not in used:
            key = "secret"
        if key.lower() in used:
            continue
        used.add(key.lower())
        facts.append(Fact(rng, form, key, variant))
    if facts[0].form.name == "code" and confusable:  # same length of value, mostly, as in tests
        length = rng.choice((8, 8, 8, 6, 10, 12))
        for fact in facts:
            fact.value = code(rng, length)
    return facts


# ---------------------------------------------------------------- prose
def read_texts(folder):
    """Training texts by name; the held-out book is never among them."""
    return {path.name: path.read_text(encoding="utf-8", errors="replace")
            for path in sorted(Path(folder).glob("*.txt")) if path.name != HELD_OUT_BOOK}


def sentences_of(text):
    """Whitespace collapsed to single spaces, cut after . ! ? (with closing quotes) before a space."""
    flat = re.sub(r"\s+", " ", text).strip()
    return [s for s in re.split(r"(?<=[.!?])(?:(?<=[.!?])|(?<=[.!?][\"')]))\s(?=[\"'(A-Z0-9])", flat) if 1 < len(s) < 600]


class Prose:
    """Sentences of several texts with their token counts (including the space before)."""

    def __init__(self, tokenizer, texts):
        self.books = [sentences_of(text) for text in texts]
        self.raw = list(texts)
        self.sizes = [[len(e.ids) for e in tokenizer.encode_batch([" " + s for s in book], add_special_tokens=False)]
                      for book in self.books]
        self.shares = [sum(sizes) for sizes in self.sizes]

    def run(self, rng, tokens):
        """Consecutive sentences of one book, at most `tokens` tokens in all."""
        book = rng.choices(range(len(self.books)), self.shares)[0]
        sentences, sizes = self.books[book], self.sizes[book]
        at, chosen, total = rng.randrange(len(sentences)), [], 0
        for _ in range(len(sentences)):
            if total + sizes[at] > tokens:
                break
            total += sizes[at]
            chosen.append(sentences[at])
            at = (at + 1) % len(sentences)
        return chosen, total

    def slice(self, rng, characters):
        text = rng.choices(self.raw, self.shares)[0]
        at = rng.randrange(max(1, len(text) - characters))
        return text[at:at + characters]


# ---------------------------------------------------------------- documents
class Generator:
    def __init__(self, tokenizer, texts, seed, workers_share=1):
        self.tokenizer, self.rng = tokenizer, random.Random(seed)
        self.keys, self.prose = Keys(texts), Prose(tokenizer, texts)
        self.vocabulary = tokenizer.get_vocab_size()

    def encode(self, segments, length):
        """ids, weights and roles of exactly length + 1 tokens, `<s>` first; prose fills the end."""
        text, bounds, roles = "".join(t for t, _ in segments), [], []
        end = 0
        for piece, role in segments:
            end += len(piece)
            bounds.append(end)
            roles.append(ROLE_ID[role])
        encoding = self.tokenizer.encode(text)
        last = np.fromiter((b for _, b in encoding.offsets), dtype=np.int64, count=len(encoding.offsets)) - 1
        place = np.searchsorted(bounds, np.maximum(last, 0), side="right")
        role = np.array(roles)[np.minimum(place, len(roles) - 1)]
        ids = np.array(encoding.ids)
        if len(ids) < length + 1:
            filler = "\n" + " ".join(self.prose.run(self.rng, length + 64)[0])
            extra = self.tokenizer.encode(filler, add_special_tokens=False).ids[:length + 1 - len(ids)]
            while len(ids) + len(extra) < length + 1:
                extra = extra + self.tokenizer.encode(" " + self.prose.slice(self.rng, 2000),
                                                      add_special_tokens=False).ids[:length + 1 - len(ids) - len(extra)]
            ids = np.concatenate([ids, extra])
            role = np.concatenate([role, np.full(len(extra), ROLE_ID["prose"])])
        return ids[:length + 1], role[:length + 1]

    def dense(self, length):
        """Facts back to back, then all of them asked in another order; repeated until the row is full."""
        rng, segments, budget = self.rng, [], length - 10
        while budget > 60:
            count = max(1, min(rng.randint(1, 16), budget // 50))
            facts = draw_facts(rng, self.keys, count, rng.random() < 0.5)
            joint = rng.choice((" ", "\n"))
            for fact in facts:
                segments += fact.stated() + [(joint, "prose")]
            for fact in rng.sample(facts, len(facts)):
                segments += [("\n", "prose")] + fact.asked(rng)
            segments.append(("\n", "prose"))
            budget -= 50 * count
        return self.encode(segments, length)

    def copy(self, length):
        """Random token segments, each repeated after others: token level, no text."""
        rng, ids, roles = self.rng, [0], [ROLE_ID["prose"]]
        np_rng = np.random.default_rng(rng.getrandbits(32))
        while len(ids) < length + 1:
            pool = []
            for _ in range(rng.randint(1, 4)):
                size = rng.randint(4, 24)
                if rng.random() < 0.5:
                    pool.append(np_rng.integers(2, self.vocabulary, size).tolist())
                else:
                    pool.append(self.tokenizer.encode(" " + code(rng, size), add_special_tokens=False).ids)
            for segment in pool:
                ids += segment
                roles += [ROLE_ID["random"]] * len(segment)
            for _ in range(rng.randint(1, 2)):
                for segment in rng.sample(pool, len(pool)):
                    ids += segment
                    roles += [ROLE_ID["random"]] + [ROLE_ID["copy"]] * (len(segment) - 1)
        return np.array(ids[:length + 1]), np.array(roles[:length + 1])

    def plain(self, length):
        text = self.prose.slice(self.rng, length * 5) if self.rng.random() < 0.5 else \
            " ".join(self.prose.run(self.rng, length + 64)[0])
        return self.encode([(text, "prose")], length)

    def haystack(self, length):
        """1-10 facts between sentences of prose, then questions; sometimes also a hint before the document.
        Long documents carry more facts and most are asked: a prefill is dear, an answer is cheap."""
        rng = self.rng
        count = rng.choice((1, 1, 2, 4, 4, 6, 8, 10) if length >= 512 else (1, 1, 2, 3, 4, 5) if length >= 256 else (1, 1, 2, 3))
        facts = draw_facts(rng, self.keys, count, rng.random() < 0.75)
        asked = rng.sample(facts, count if rng.random() < 0.7 else 1)
        head = []
        if rng.random() < 0.2:
            head = [("Question: " + asked[0]._fill(rng.choice(asked[0].form.questions)), "prose")] \
                if rng.random() < 0.5 else [("Remember the facts hidden in this text.", "prose")]
            head.append(("\n\n", "prose"))
        tail, joint = [], rng.choice(("\n", "\n", "\n\n", " "))
        for fact in asked:
            tail += [(joint, "prose")] + fact.asked(rng)
            joint = "\n"
        fixed = sum(len(t) for t, _ in tail + head) + sum(len(t) for f in facts for t, _ in f.stated())
        slack = 0 if rng.random() < 0.7 else rng.randrange(length // 2)
        prose, _ = self.prose.run(rng, max(0, length - 12 - int(fixed * 0.62) - slack))
        slots = {}
        for fact in facts:
            slots.setdefault(rng.randrange(len(prose) + 1), []).append(fact)
        body, space = [], "\n" if rng.random() < 0.1 else " "
        for i in range(len(prose) + 1):
            for fact in slots.get(i, ()):
                body += ([(space, "prose")] if body else []) + fact.stated()
            if i < len(prose):
                body += ([(space, "prose")] if body else []) + [(prose[i], "prose")]
        return self.encode(head + body + tail, length)

    def batch(self, length, rows, shares):
        """ids [rows, length + 1], weights of the targets, and the fact and question masks."""
        kinds = self.rng.choices((self.dense, self.copy, self.plain, self.haystack), shares, k=rows)
        ids, roles = (np.stack(part) for part in zip(*(kind(length) for kind in kinds)))
        weight = np.array(list(WEIGHTS.values()), dtype=np.float32)[roles[:, 1:]]
        fact = np.isin(roles, [ROLE_ID[r] for r in FACT_ROLES])
        question = np.isin(roles, [ROLE_ID[r] for r in QUESTION_ROLES])
        answer = roles[:, 1:] == ROLE_ID["answer"]
        return ids, weight, fact[:, :-1], question[:, :-1], answer
