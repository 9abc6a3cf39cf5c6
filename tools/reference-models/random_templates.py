"""Random small templates, and what Jinja2 renders of each in transformers' environment.

    pip install transformers==5.24.0 jinja2==3.1.6
    python tools/reference-models/random_templates.py packages/model-testing/fixtures/random-templates.json 1200 1

The last numbers: how many templates, and the seed. A case is `[source, text]`, or `[source, null]` where Jinja2 refuses.
What it prints with an address in memory is left out.
"""

import json
import random
import sys
from pathlib import Path

from transformers.utils.chat_template_utils import _compile_jinja_template

VALUES = {
    "s": "Hello wORLD, it's a \"test\"", "t": "  pad\tded \n", "e": "", "u": "\u00e9\u00df\U0001f436\u4e16 x", "m": "a\nb\n\nc", "n": 7, "z": 0, "k": -3, "f": 2.5, "g": 1e-7,
    "yes": True, "no": False, "nil": None, "l": [3, 1, 2], "w": ["b", "A", "c", "a"], "d": {"b": 1, "a": [1, {"x": None}], "C": "q"}, "o": {},
    "r": [{"name": "x", "v": 2, "t": "B"}, {"name": "y", "v": None, "t": "a"}, {"name": "z", "t": "b"}], "items": {"items": 5, "k": "v"},
}
NAMES = [*VALUES, "missing"]
LITERALS = ["'a'", "'b c'", "''", "0", "1", "2", "-1", "3.0", "true", "none", "[1, 2, 'x']", "['b', 'a']", "{'a': 1, 'b': 'c'}", "(1, 2)", "'é<&>'", "range(4)", "(1,)"]
FILTERS = [
    "upper", "lower", "trim", "title", "capitalize", "length", "count", "list", "first", "last", "string", "int", "float", "abs", "reverse | list", "sort", "sort(reverse=true)", "sort(case_sensitive=true)",
    "join", "join(', ')", "join('-', attribute='name')", "unique | list", "tojson", "tojson(indent=2)", "tojson(indent=4)", "tojson(sort_keys=true)", "tojson(ensure_ascii=true)", "tojson(separators=(',', ':'))",
    "default('D')", "default('D', true)", "d(1)", "items | list", "dictsort", "dictsort(by='value')", "dictsort(reverse=true)", "map('upper') | list", "map(attribute='name') | list", "map(attribute='v', default=9) | list",
    "select | list", "select('string') | list", "reject('none') | list", "selectattr('v') | list", "selectattr('v', 'defined') | list", "selectattr('name', 'equalto', 'x') | list", "rejectattr('v', 'none') | list",
    "select('odd') | list", "sum", "min", "max", "batch(2) | list", "batch(2, 0) | list", "slice(2) | list", "round", "round(1)", "round(0, 'ceil')", "replace('l', 'L')", "replace('a', 'b', 1)", "indent", "indent(2, true)", "indent(2, blank=true)",
    "wordcount", "escape", "e", "safe", "groupby('t') | list", "center(9)", "truncate(6)", "format(1)", "attr('x')", "map('length') | list", "trim('ab ')", "int(5)", "float(1.5)", "map('default', 'q') | list",
]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable", "sequence", "true", "false", "lower", "upper", "callable", "odd", "even", "divisibleby(2)", "eq(1)", "in [1, 'a']", "in 'abc'", "gt(1)", "lt 2", "sameas none", "ne 'a'", "equalto 'a'"]
METHODS = [
    "upper()", "lower()", "strip()", "lstrip()", "rstrip(' \\n')", "strip('Ha\"')", "title()", "capitalize()", "split()", "split(' ')", "split('l', 1)", "rsplit(' ', 1)", "split(none, 1)", "rsplit(none, 1)", "splitlines()", "splitlines(true)", "replace('l', '_')", "replace('', '.')", "replace('l', '_', 1)",
    "startswith('H')", "startswith(('a', 'H'))", "endswith('t\"')", "find('o')", "rfind('o')", "count('l')", "index('l')", "isdigit()", "isalpha()", "isupper()", "islower()", "isspace()", "zfill(9)", "center(9, '*')", "ljust(4)", "rjust(12)", "partition(' ')", "rpartition(' ')", "removeprefix('He')", "removesuffix('\"')", "swapcase()", "join(['a', 'b'])",
    "format(1, 2)", "get('a')", "get('q', 0)", "keys()", "values() | list", "items() | list", "items()", "append(1)", "pop('a')", "copy()", "a", "x", "b", "items", "keys() | length", "count(1)", "index(2)",
]
BINARY = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
SUBSCRIPTS = ["0", "-1", "9", "'a'", "'b'", "'items'", "1:", ":2", "::-1", "-2:", "1:3", "::2", "5:1:-2", "1.0"]
FORMS = ["{} and {}", "{0}{1}{0}", "{:>5}|{:<4}|", "{:.2f}", "{:03d}", "{!r}", "{x}", "{{}}{}", "%s-%s", "%d%%", "%05.1f", "%r", "%x", "{:,}", "%-4s|"]


def expression(r, depth):
    kind = r.random()
    sub = lambda: expression(r, depth - 1)
    if depth <= 0 or kind < 0.15:
        return r.choice(NAMES) if r.random() < 0.7 else r.choice(LITERALS)
    if kind < 0.42:
        return f"{r.choice(NAMES) if r.random() < 0.5 else '(' + sub() + ')'} | {r.choice(FILTERS)}"
    if kind < 0.55:
        return f"{r.choice(NAMES)}.{r.choice(METHODS)}"
    if kind < 0.65:
        return f"{r.choice(NAMES)}[{r.choice(SUBSCRIPTS)}]"
    if kind < 0.83:
        return f"{sub()} {r.choice(BINARY)} {sub()}" if r.random() < 0.6 else f"({sub()}) {r.choice(BINARY)} ({sub()})"
    if kind < 0.91:
        return f"{r.choice(NAMES)} is {'not ' if r.random() < 0.3 else ''}{r.choice(TESTS)}"
    if kind < 0.95:
        return f"({sub()} if {sub()} else {sub()})"
    form = r.choice(FORMS)
    return f"'{form}'.format({sub()}, {sub()})" if "{" in form else f"'{form}' % ({sub()}{r.choice(['', ', ' + sub()])})"


def space(r):
    return r.choice(["", "", "", " ", "\n", "  \n ", "\n    "])


def statements(r, depth):
    return "".join(space(r) + statement(r, depth) for _ in range(r.randint(1, 2))) + space(r)


def statement(r, depth):
    kind = r.random()
    o, c = r.choice(["{%", "{%", "{%-"]), r.choice(["%}", "%}", "-%}"])
    body = lambda: statements(r, depth - 1)
    if depth <= 0 or kind < 0.5:
        return r.choice(["{{ %s }}", "{{ %s }}", "{{- %s }}", "{{ %s -}}"]) % expression(r, 2)
    if kind < 0.6:
        return f"{o} if {expression(r, 1)} {c}{body()}{o} elif {expression(r, 1)} {c}{body()}{o} else {c}{body()}{o} endif {c}"
    if kind < 0.75:
        loop = r.choice(["loop.index", "loop.first", "loop.last", "loop.revindex0", "loop.length", "loop.previtem", "loop.nextitem", "loop.cycle('a', 'b')", "loop.changed(i)", "loop.depth", "i"])
        stop = r.choice(["", "", "{% break %}", "{% if loop.index == 2 %}{% continue %}{% endif %}"])
        return f"{o} for i in {r.choice(NAMES)}{r.choice(['', '', ' if i', ' | list'])} {c}{{{{ {loop} }}}},{stop}{body()}{o} else {c}none{o} endfor {c}"
    if kind < 0.8:
        return f"{o} for a, b in {r.choice(['d', 'items', 'd.items()', 'd | items', 'd | dictsort', 'missing'])} {c}{{{{ a }}}}={{{{ b }}}};{o} endfor {c}" if r.random() < 0.2 else f"{o} for a, b in d.items() {c}{{{{ a }}}}={{{{ b | tojson }}}};{o} endfor {c}"
    if kind < 0.87:
        return f"{o} set x = {expression(r, 1)} {c}{{{{ x }}}}{o} set ns = namespace(v={expression(r, 0)}) {c}{o} for i in l {c}{o} set ns.v = i {c}{o} set x = i {c}{o} endfor {c}{{{{ ns.v }}}}{{{{ x }}}}"
    if kind < 0.92:
        return f"{o} macro f(a, b='B', c=none) {c}{{{{ a }}}}/{{{{ b }}}}/{{{{ c }}}}{r.choice(['', '{{ varargs }}', '{{ kwargs }}', '{{ caller() }}'])}{o} endmacro {c}" + r.choice(["{{ f(1) }}", "{{ f() }}", "{{ f(1, c=2) }}", "{{ f(1, 2, 3, 4) }}", "{{ f(z=1) }}", "{% call f(1) %}body{% endcall %}"])
    if kind < 0.95:
        return f"{o} filter {r.choice(['upper', 'trim', 'indent(2)', 'title'])} {c}{body()}{o} endfilter {c}"
    return r.choice(["{# a remark #}", "{#- a remark -#}", "{% raw %}{{ raw }} {% x %}{% endraw %}", f"{o} set y {c}{body()}{o} endset {c}{{{{ y | upper }}}}", "{% generation %}{{ s }}{% endgeneration %}", "text {{ '}}' }} text", "{{ 1 < n < 9 }}{{ 1 < 9 < n }}"])


def main(out, count, seed):
    r = random.Random(int(seed))
    cases = []
    while len(cases) < int(count):
        source = statements(r, 2)
        head = "".join("{%% set %s = messages[0]['%s'] %%}" % (name, name) for name in VALUES)
        try:
            text = _compile_jinja_template(head + source).render(messages=[json.loads(json.dumps(VALUES))])
        except Exception:
            text = None
        if text is None or (" at 0x" not in text and "<built-in" not in text and "<function" not in text and "<Macro" not in text and "<class" not in text):
            cases.append([source, text])
    Path(out).write_text(json.dumps({"values": VALUES, "cases": cases}, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"{len(cases)} templates, {sum(text is None for _, text in cases)} refused")


if __name__ == "__main__":
    main(*sys.argv[1:])
