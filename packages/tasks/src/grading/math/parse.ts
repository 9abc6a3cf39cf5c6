import Fraction from 'fraction.js';
import type { Expression } from './expression.ts';

/** Thrown for a text that is not a known formula. */
export class NoFormula extends Error {}

const MAX_DEPTH = 60;
const SYMBOLS = new Set(
  'alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega infty ell'.split(
    ' ',
  ),
);
const FUNCTIONS = new Set('sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln log exp'.split(' '));
const CLOSING: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}' };
const number = (value: Fraction): Expression => ({ kind: 'number', value });
const MINUS = number(new Fraction(-1));
const negative = (of: Expression): Expression => ({ kind: 'product', factors: [MINUS, of] });

/** Parses a formula in plain LaTeX or as typed; `sign` is the value of ±. @throws NoFormula */
export function parseFormula(text: string, sign: 1 | -1 = 1): Expression {
  return new Parser(text, sign).whole();
}

/** Recursive-descent parser of a formula. */
class Parser {
  readonly #text: string;
  readonly #sign: 1 | -1;
  #at = 0;
  #depth = 0;
  constructor(text: string, sign: 1 | -1) {
    this.#text = text;
    this.#sign = sign;
  }

  whole(): Expression {
    const found = this.#sum();
    this.#spaces();
    if (this.#at < this.#text.length) throw new NoFormula();
    return found;
  }

  #spaces(): void {
    while (this.#text[this.#at] === ' ') this.#at++;
  }

  #takes(...any: readonly string[]): string | undefined {
    this.#spaces();
    const found = any.find(
      (one) =>
        this.#text.startsWith(one, this.#at) &&
        !(/^\\[a-z]+$/.test(one) && /[a-zA-Z]/.test(this.#text[this.#at + one.length] ?? '')),
    );
    this.#at += found?.length ?? 0;
    return found;
  }

  #expect(text: string): void {
    if (!this.#takes(text)) throw new NoFormula();
  }

  #next(): string {
    this.#spaces();
    return this.#text[this.#at] ?? '';
  }

  #sum(): Expression {
    if (++this.#depth > MAX_DEPTH) throw new NoFormula();
    const terms: Expression[] = [];
    for (let first = true; ; first = false) {
      const sign = this.#takes('+', '-', '\\pm', '\\mp');
      if (sign === undefined && !first) break;
      const second = this.#takes('-'), // 3 + -2
        term = second ? negative(this.#term()) : this.#term(),
        minus = sign === '-' || (sign === '\\pm' && this.#sign < 0) || (sign === '\\mp' && this.#sign > 0);
      terms.push(minus ? negative(term) : term);
    }
    this.#depth--;
    return terms.length === 1 ? terms[0] : { kind: 'sum', terms };
  }

  #term(): Expression {
    let found = this.#mixed() ?? this.#factor();
    for (;;) {
      if (this.#takes('*', '\\cdot', '\\times')) found = { kind: 'product', factors: [found, this.#signed()] };
      else if (this.#takes('/', '\\div')) found = { kind: 'quotient', over: found, under: this.#signed() };
      else if (this.#continues()) {
        // two numbers separated by a space are not a product
        if (/[\d.]/.test(this.#next())) throw new NoFormula();
        found = { kind: 'product', factors: [found, this.#factor()] };
      } else return found;
    }
  }

  #signed(): Expression {
    return this.#takes('-') ? negative(this.#factor()) : this.#factor();
  }

  /** Returns whether a factor without a sign comes next. */
  #continues(): boolean {
    const next = this.#next();
    if (/[\p{L}\d.([{]/u.test(next)) return true;
    const [command] = /^\\[a-zA-Z]+/.exec(this.#text.slice(this.#at, this.#at + 20)) ?? [];
    return command !== undefined && !/^\\(?:pm|mp|cdot|times|div|right|rvert|rfloor|rceil|end)$/.test(command);
  }

  /** Reads a mixed number, 1\frac{2}{3}, which is a sum. */
  #mixed(): Expression | undefined {
    this.#spaces();
    const [all, whole, over, under, a, b] =
      /^(\d{1,40}) ?\\frac ?(?:\{ ?(\d{1,40}) ?\} ?\{ ?(\d{1,40}) ?\}|(\d) ?(\d)(?!\d))/.exec(
        this.#text.slice(this.#at, this.#at + 160),
      ) ?? [];
    const [top, bottom] = [over ?? a, under ?? b];
    if (all === undefined || BigInt(top) >= BigInt(bottom)) return undefined;
    this.#at += all.length;
    return number(new Fraction(BigInt(whole)).add(new Fraction(BigInt(top), BigInt(bottom))));
  }

  #factor(): Expression {
    if (++this.#depth > MAX_DEPTH) throw new NoFormula();
    let base = this.#atom();
    for (;;) {
      if (this.#takes('!')) base = { kind: 'call', name: 'factorial', of: [base] };
      else if (this.#takes('^')) base = { kind: 'power', base, exponent: this.#script() };
      else break;
    }
    this.#depth--;
    return base;
  }

  /** Reads an exponent: a group, a number or one symbol; several digits are one number, as they were meant. */
  #script(): Expression {
    if (this.#next() === '{') return this.#group();
    if (this.#takes('-')) return negative(this.#script());
    return /[\d.]/.test(this.#next()) ? this.#number() : this.#argument();
  }

  /** Reads a TeX argument: a group, a digit, a letter or a command; also brackets, as they were meant. */
  #argument(): Expression {
    const next = this.#next();
    if (next === '{') return this.#group();
    if (/\d/.test(next)) {
      this.#at++;
      return number(new Fraction(BigInt(next)));
    }
    return this.#atom();
  }

  #group(): Expression {
    const open = this.#text[this.#at++],
      found = this.#sum();
    this.#expect(CLOSING[open]);
    return found;
  }

  #atom(): Expression {
    const next = this.#next();
    if (/[\d.]/.test(next)) return this.#number();
    if (next === '(' || next === '[' || next === '{') return this.#group();
    if (next === '|' || this.#text.startsWith('\\lvert', this.#at))
      return this.#between('abs', next === '|' ? '|' : '\\lvert', next === '|' ? '|' : '\\rvert');
    if (next === '\\') return this.#command();
    if (!/^\p{L}$/u.test(next)) throw new NoFormula();
    this.#at++;
    return this.#indexed(next);
  }

  #between(name: string, open: string, close: string): Expression {
    this.#expect(open);
    const of = this.#sum();
    this.#expect(close);
    return { kind: 'call', name, of: [of] };
  }

  #number(): Expression {
    const [digits] = /^(?:\d+(?:\.\d*)?|\.\d+)/.exec(this.#text.slice(this.#at)) ?? [];
    if (digits === undefined || digits.length > 6000) throw new NoFormula();
    this.#at += digits.length;
    const [whole, part = ''] = digits.split('.'),
      scale = 10n ** BigInt(part.length),
      value = new Fraction(BigInt(`${whole}${part}`), scale),
      [all, repeated] = /^ ?\\overline ?\{(\d{1,100})\}/.exec(this.#text.slice(this.#at, this.#at + 120)) ?? [];
    if (all === undefined || !digits.includes('.')) return number(value);
    this.#at += all.length;
    return number(value.add(new Fraction(BigInt(repeated), scale * (10n ** BigInt(repeated.length) - 1n))));
  }

  #indexed(name: string): Expression {
    if (!this.#takes('_')) return { kind: 'symbol', name };
    const [index, inner, plain] = /^(?:\{ ?([\w ,+-]{1,20}) ?\}|(\w))/.exec(this.#text.slice(this.#at)) ?? [];
    if (index === undefined) throw new NoFormula();
    this.#at += index.length;
    return { kind: 'symbol', name: `${name}_${(inner ?? plain).trim()}` };
  }

  #command(): Expression {
    const [, full = ''] = /^\\([a-zA-Z]+)/.exec(this.#text.slice(this.#at, this.#at + 40)) ?? [];
    // handles \sqrtd and \fracab, written without a space
    const name = /^(?:sqrt|frac)/.exec(full)?.[0] ?? full;
    this.#at += 1 + name.length;
    switch (name) {
      case 'frac':
        return { kind: 'quotient', over: this.#argument(), under: this.#argument() };
      case 'sqrt': {
        const degree = this.#next() === '[' ? this.#group() : number(new Fraction(2));
        return {
          kind: 'power',
          base: this.#argument(),
          exponent: { kind: 'quotient', over: number(new Fraction(1)), under: degree },
        };
      }
      case 'lfloor':
      case 'lceil': {
        const of = this.#sum();
        this.#expect(`\\r${name.slice(1)}`);
        return { kind: 'call', name: name.slice(1), of: [of] };
      }
      default:
        if (FUNCTIONS.has(name)) return this.#function(name);
        if (!SYMBOLS.has(name)) throw new NoFormula();
        return this.#indexed(name);
    }
  }

  /** Reads a function as in sin²x, log_2 x, ln 2x: its argument extends to the next sign or function. */
  #function(name: string): Expression {
    const base = name === 'log' && this.#takes('_') ? this.#argument() : undefined,
      power = this.#takes('^') ? this.#script() : undefined;
    let of = this.#factor();
    if (this.#text[this.#at - 1] !== ')')
      while (
        this.#continues() &&
        !FUNCTIONS.has(/^\\([a-z]+)/.exec(this.#text.slice(this.#at, this.#at + 20))?.[1] ?? '')
      )
        of = { kind: 'product', factors: [of, this.#factor()] };
    const call: Expression = { kind: 'call', name, of: base ? [of, base] : [of] };
    // sin⁻¹ is the inverse function
    if (power?.kind === 'product' && power.factors[0] === MINUS) throw new NoFormula();
    return power ? { kind: 'power', base: call, exponent: power } : call;
  }
}
