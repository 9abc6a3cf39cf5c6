"""Writes pairs of closed-form answers with sympy's verdict, and that of MATH's string grader, for the tests of @kv/tasks.

    python3 -m venv VENV && VENV/bin/pip install sympy==1.14.0
    VENV/bin/python tools/math-pairs.py > packages/tasks/test/data/math-pairs.json

Each side is a text with the sympy object that it was written from, so that no LaTeX parser is involved.
`is_equiv` follows the published grader of MATH (hendrycks/math, MIT): equal texts after its normalisations.
"""
import json
import random

import sympy as S

R = random.Random(35)
x, y = S.symbols("x y")


# --- MATH's string grader ---------------------------------------------------------------------------------------------
def braced(text, command):
    parts = text.split(command)
    out = parts[0]
    for part in parts[1:]:
        out += command
        out += part if part[:1] in ("{", "") else "{" + part[0] + "}" + part[1:]
    return out


def fracs(text):
    parts = text.split("\\frac")
    out = parts[0]
    for part in parts[1:]:
        out += "\\frac"
        if part[:1] == "{":
            out += part
        elif len(part) < 2:
            return text
        else:
            a, b, rest = part[0], part[1], part[2:]
            out += "{" + a + "}" + (b + rest if b == "{" else "{" + b + "}" + rest)
    return out


def slash(text):
    parts = text.split("/")
    if len(parts) != 2:
        return text
    try:
        a, b = int(parts[0]), int(parts[1])
    except ValueError:
        return text
    return "\\frac{%d}{%d}" % (a, b) if text == "%d/%d" % (a, b) else text


def stripped(text):
    for old, new in [("\n", ""), ("\\!", ""), ("\\\\", "\\"), ("tfrac", "frac"), ("dfrac", "frac"), ("\\left", ""),
                     ("\\right", ""), ("^{\\circ}", ""), ("^\\circ", ""), ("\\$", "")]:
        text = text.replace(old, new)
    if "\\text{ " in text:
        text = text.split("\\text{ ")[0]
    for old, new in [("\\%", ""), ("%", ""), (" .", " 0."), ("{.", "{0.")]:
        text = text.replace(old, new)
    if text.startswith("."):
        text = "0" + text
    if len(text.split("=")) == 2 and len(text.split("=")[0]) <= 2:
        text = text.split("=")[1]
    text = fracs(braced(text, "\\sqrt").replace(" ", ""))
    return slash("\\frac{1}{2}" if text == "0.5" else text)


def is_equiv(a, b):
    return stripped(a) == stripped(b)


# --- what sympy says --------------------------------------------------------------------------------------------------
def equal(a, b):
    if isinstance(a, tuple) or isinstance(b, tuple):
        if not (isinstance(a, tuple) and isinstance(b, tuple)) or a[0] != b[0] or len(a) != len(b):
            return False
        if a[0] == "set":
            return all(any(equal(p, q) for q in b[1:]) for p in a[1:]) and all(any(equal(p, q) for q in a[1:]) for p in b[1:])
        return all(equal(p, q) for p, q in zip(a[1:], b[1:]))
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    if isinstance(a, S.MatrixBase) or isinstance(b, S.MatrixBase):
        return a.shape == b.shape and S.simplify(a - b).is_zero_matrix
    return a == b or S.simplify(S.expand(a - b)) == 0


# --- kinds: each gives a value, and a function that writes it in some form --------------------------------------------
def integer():
    n = R.choice([R.randint(-30, 30), R.randint(1000, 99999), 2**53 + R.randint(-2, 2), 10**30 + R.randint(0, 2)])

    def write():
        plain = str(n)
        commas = f"{n:,}"
        return R.choice([plain, commas, plain + ".0", plain + "\\%", plain + "^\\circ", plain + "\\text{ cm}", "\\$" + plain,
                         commas.replace(",", "{,}"), commas.replace(",", ",\\!"), "\\frac{%d}{2}" % (2 * n), "x = " + plain, "\\text{" + plain + "}"])

    return S.Integer(n), write


def rational():
    p, q = R.randint(-40, 40) or 1, R.choice([2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 16, 20, 25])
    v = S.Rational(p, q)

    def write():
        s, a, b, k = "-" if v < 0 else "", abs(v.p), v.q, R.randint(2, 5)
        forms = ["%s\\frac{%d}{%d}" % (s, a, b), "%s\\dfrac{%d}{%d}" % (s, a, b), "%s%d/%d" % (s, a, b),
                 "\\frac{%s%d}{%d}" % (s, a, b), "%s\\frac{%d}{%d}" % (s, k * a, k * b), "\\tfrac{%d}{%s%d}" % (a, s, b)]
        if a < 10 and b < 10:
            forms += ["%s\\frac%d%d" % (s, a, b), "%s\\frac %d%d" % (s, a, b), "%s\\frac{%d}%d" % (s, a, b)]
        if a > b > 1:
            forms += ["%s%d\\frac{%d}{%d}" % (s, a // b, a % b, b)] * 2
        if set(S.factorint(b)) <= {2, 5}:
            forms += [str(v.evalf(30)).rstrip("0").rstrip(".")] * 2
        return R.choice(forms)

    return v, write


def radical():
    a, b, c, d = R.randint(-5, 5), R.choice([-3, -2, -1, 1, 2, 3]), R.choice([2, 3, 5, 6, 7, 10]), R.choice([1, 1, 2, 3])
    v = (a + b * S.sqrt(c)) / d

    def write():
        k = "" if abs(b) == 1 else str(abs(b))
        root = R.choice(["%s\\sqrt{%d}" % (k, c), "\\sqrt{%d}" % (b * b * c), "%s%d^{1/2}" % (k and k + "\\cdot ", c), "%s√%d" % (k, c) if c < 10 else "%s\\sqrt{%d}" % (k, c),
                         "%s\\sqrt%d" % (k, c) if c < 10 else "%s\\sqrt{%d}" % (k, c), "\\frac{%d}{\\sqrt{%d}}" % (abs(b) * c, c)])
        s = "-" if b < 0 else "+"
        top = (s if s == "-" else "") + root if a == 0 else R.choice(["%d%s%s" % (a, s, root), "%s%s%+d" % (s if s == "-" else "", root, a)])
        if d == 1:
            return top
        return R.choice(["\\frac{%s}{%d}" % (top, d), "(%s)/%d" % (top, d), "\\frac{1}{%d}(%s)" % (d, top)])

    return v, write


def with_pi():
    p, q = R.randint(1, 9), R.choice([1, 2, 3, 4, 6])
    v = S.Rational(p, q) * S.pi

    def write():
        k = "" if p == 1 else str(p)
        if q == 1:
            return R.choice([k + "\\pi", k + "π", "\\pi" + ("\\cdot " + k if k else "")])
        return R.choice(["\\frac{%s\\pi}{%d}" % (k, q), "%s\\pi/%d" % (k, q), "\\frac{%d}{%d}\\pi" % (p, q), "\\frac{%d\\pi}{%d}" % (2 * p, 2 * q), "\\frac%d%d\\pi" % (p, q)])

    return v, write


def latex(e):
    text = S.latex(e, mul_symbol=R.choice([None, "dot", "times"]))
    return text.replace("\\left", "").replace("\\right", "") if R.random() < 0.5 else text


def polynomial():
    f = (x + R.randint(-4, 4)) * (R.randint(1, 3) * x + R.choice([1, y, R.randint(-4, 4)])) ** R.choice([1, 2])
    return f, lambda: latex(R.choice([S.expand, S.factor, lambda e: e, lambda e: S.collect(S.expand(e), x)])(f))


def quotient():
    f = (x + R.randint(-3, 3)) / (x + R.choice([1, 2, y])) + R.choice([0, 1, 1 / y])
    return f, lambda: latex(R.choice([S.together, S.apart if y not in f.free_symbols else S.together, lambda e: e, S.factor])(f))


def imaginary():
    a, b = R.randint(-6, 6), R.choice([-3, -2, 2, 3, 5])
    v = a + b * S.I
    return v, lambda: R.choice(["%d%+di" % (a, b), "%+di%+d" % (b, a), "%+di + %d" % (b, a), "(%d%+di)" % (a, b), "\\frac{%d%+di}{2}" % (2 * a, 2 * b)])


def opaque():
    return R.choice([
        (S.Integer(3), lambda: R.choice(["\\log_2 8", "\\log_{2}{8}", "3", "\\ln e^3"])),
        (S.sqrt(2) + S.sqrt(3), lambda: R.choice(["\\sqrt{5+2\\sqrt6}", "\\sqrt{2}+\\sqrt{3}", "\\sqrt3+\\sqrt2"])),
        (S.cbrt(2), lambda: R.choice(["\\sqrt[3]{2}", "2^{1/3}", "2^{\\frac{1}{3}}", "\\frac{2}{\\sqrt[3]{4}}"])),
        (2 ** (x + 1), lambda: R.choice(["2^{x+1}", "2\\cdot 2^x", "2^x+2^x"])),
        (S.log(6), lambda: R.choice(["\\ln 6", "\\ln(6)", "\\ln 2+\\ln 3", "\\ln{2} + \\ln{3}"])),
        (S.sin(x) ** 2, lambda: R.choice(["\\sin^2 x", "1-\\cos^2 x", "(\\sin x)^2", "\\sin^2(x)"])),
        (S.E ** 2, lambda: R.choice(["e^2", "e^{2}", "e\\cdot e"])),
        (S.sqrt(x) * x, lambda: R.choice(["x\\sqrt{x}", "x^{3/2}", "x^{\\frac32}"])),
        (S.Integer(2) ** 2005, lambda: R.choice(["2^{2005}", "2\\cdot2^{2004}", "4^{1002}\\cdot 2"])),
        (S.Integer(2) ** 2005 + 1, lambda: "2^{2005}+1"),
    ])


SIMPLE = [integer, rational, radical, with_pi]


def several(n):
    parts = []
    while len(parts) < n:
        part = R.choice(SIMPLE[1:])()
        if not any(equal(part[0], other[0]) for other in parts):
            parts.append(part)
    return parts


def collection():
    parts = several(R.randint(2, 4))

    def write():
        some = [write_one() for _, write_one in R.sample(parts, len(parts))]
        return R.choice(["\\{%s\\}", "\\left\\{%s\\right\\}", "%s"]) % R.choice([", ", ","]).join(some)

    return ("set", *[v for v, _ in parts]), write


def point():
    parts = several(R.randint(2, 3))
    return ("()", *[v for v, _ in parts]), lambda: R.choice(["(%s)", "\\left(%s\\right)", "\\left( %s \\right)"]) % R.choice([",", ", "]).join(w() for _, w in parts)


def interval():
    (v, w), (u, z) = several(2)
    if R.random() < 0.3:
        u, z = S.oo, lambda: R.choice(["\\infty", "+\\infty", "∞"])
    brackets = R.choice(["(]", "[)", "[]"] if u != S.oo else ["[)"])
    return (brackets, v, u), lambda: R.choice(["%s%s,%s%s", "\\left%s%s, %s\\right%s", "x \\in %s%s, %s%s"]) % (brackets[0], w(), z(), brackets[1])


def matrix():
    rows = [[R.choice(SIMPLE[1:3])() for _ in range(R.choice([1, 2]))] for _ in range(2)]
    if len(rows[0]) != len(rows[1]):
        rows[1] = rows[0]
    shown = R.choice(["pmatrix", "bmatrix"])
    return S.Matrix([[v for v, _ in row] for row in rows]), lambda: "\\begin{%s}%s\\end{%s}" % (
        shown, R.choice(["\\\\", " \\\\ "]).join(R.choice(["&", " & "]).join(w() for _, w in row) for row in rows), shown)


KINDS = [*SIMPLE, polynomial, quotient, imaginary, opaque, collection, point, interval, matrix]

# The review's pairs that sympy or is_equiv calls equal, as far as it names them, and others of their kinds.
REVIEW = [
    ("2\\sqrt2", "\\sqrt8"), ("x+1", "1+x"), ("\\pi/2", "\\frac{\\pi}{2}"), ("1\\frac12", "\\frac32"), ("\\{1,2,3\\}", "\\{3,1,2\\}"),
    ("\\frac 59", "\\frac{5}{9}"), ("\\frac59", "\\frac{5}{9}"), ("\\sqrt3", "\\sqrt{3}"), ("\\sqrtd", "\\sqrt{d}"), ("\\sqrt 3", "\\sqrt{3}"),
    ("\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}", "\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}"),
    ("\\begin{pmatrix} 1/2 \\\\ 3 \\end{pmatrix}", "\\begin{pmatrix} \\frac{1}{2} \\\\ 3 \\end{pmatrix}"),
    ("0.5", "\\frac{1}{2}"), (".5", "0.5"), ("3/4", "\\frac{3}{4}"), ("x=5", "5"), ("50\\%", "50"), ("90^\\circ", "90"), ("\\$12", "12"),
    ("10,\\!000", "10000"), ("12\\text{ inches}", "12"), ("\\dfrac{7}{3}", "\\tfrac{7}{3}"), ("\\left(1,2\\right)", "(1,2)"),
    ("\\frac{\\sqrt{2}}{2}", "\\frac{1}{\\sqrt{2}}"), ("(x-1)(x+1)", "x^2-1"), ("\\frac{2}{4}", "\\frac{1}{2}"), ("2+3i", "3i+2"),
    ("1,2", "2,1"), ("1\\pm\\sqrt2", "1-\\sqrt2, 1+\\sqrt2"), ("(-\\infty,2]", "(-\\infty, 2]"), ("[1,2)\\cup(3,4]", "(3,4]\\cup[1,2)"),
    ("2x+3y", "3y+2x"), ("\\frac{x}{2}", "\\frac12 x"), ("-\\frac{1}{3}", "\\frac{-1}{3}"), ("\\text{Monday}", "Monday"), ("y=2x+1", "y=1+2x"),
    ("1.5", "\\frac{3}{2}"), ("\\sqrt{12}", "2\\sqrt{3}"),
]


def main():
    rows, seen = [], set()
    while len(rows) < 480:
        kind = R.choice(KINDS)
        a, write = kind()
        b, other = (a, write) if R.random() < 0.6 else kind()
        one, two = write(), other()
        if one == two or (one, two) in seen:
            continue
        seen.add((one, two))
        rows.append([one, two, bool(equal(a, b)), is_equiv(one, two)])
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    review = ",\n".join(json.dumps(list(row), ensure_ascii=False) for row in REVIEW)
    print('{"review": [\n%s\n],\n"pairs": [\n%s\n]}' % (review, lines))


main()
