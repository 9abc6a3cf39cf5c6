import Fraction from 'fraction.js';
import type { Expression } from './expression.ts';

/**
 * A product of powers: symbols to integer powers, primes to powers between 0 and 1 (√12 is 2 · 3^(1/2)), and `i` to at
 * most the first. Such products are linearly independent over the rationals, so two sums of them are equal
 * only term by term.
 */
interface Term {
  readonly coefficient: Fraction;
  readonly powers: ReadonlyMap<string, Fraction>;
}
/** A sum of terms, keyed by their powers. */
type Sum = ReadonlyMap<string, Term>;
/** A quotient of two sums. */
export interface ExactQuotient {
  readonly over: Sum;
  readonly under: Sum;
}

/** Limits of an evaluation, so that a hostile answer ends soon. */
const LIMITS = { products: 20_000, terms: 400, bits: 20_000n, exponent: 200, prime: 65_536n, factorial: 300n } as const;
const LARGEST = 1n << LIMITS.bits;

/** Thrown if an evaluation would take too much or has no exact form here; another comparison may still succeed. */
class Beyond extends Error {}

/** Evaluates an expression to a quotient of sums; undefined if it has no such value, or too large a one. */
export function exactly(expression: Expression): ExactQuotient | undefined {
  const arithmetic = new Arithmetic();
  try {
    return arithmetic.valueOf(expression);
  } catch (error) {
    if (error instanceof Beyond) return undefined;
    throw error;
  }
}

/** Returns whether two quotients are equal; undefined if that takes too much. */
export function equalExact(a: ExactQuotient, b: ExactQuotient): boolean | undefined {
  const ratio = ratioOf(a, b);
  return ratio === undefined ? undefined : ratio === 'none' ? false : ratio === 'both 0' || ratio.equals(1);
}

/** Returns the rational r with a = r·b; 'none' if there is none. */
export function ratioOf(a: ExactQuotient, b: ExactQuotient): Fraction | 'none' | 'both 0' | undefined {
  const arithmetic = new Arithmetic();
  try {
    const [x, y] = [arithmetic.product(a.over, b.under), arithmetic.product(b.over, a.under)];
    if (x.size === 0 && y.size === 0) return 'both 0';
    if (x.size !== y.size) return 'none';
    let ratio: Fraction | undefined;
    for (const [name, { coefficient }] of x) {
      const other = y.get(name);
      if (!other) return 'none';
      const own = coefficient.div(other.coefficient);
      if (ratio && !ratio.equals(own)) return 'none';
      ratio = own;
    }
    return ratio ?? 'none';
  } catch (error) {
    if (error instanceof Beyond) return undefined;
    throw error;
  }
}

const ONE = new Fraction(1);
const sumOf = (...terms: readonly Term[]): Sum => new Map(terms.map((term) => [nameOf(term.powers), term]));
const nameOf = (powers: Term['powers']): string =>
  [...powers]
    .map(([atom, power]) => `${atom}^${power.n}/${power.d}`)
    .sort()
    .join(' ');
const constant = (value: Fraction): Sum =>
  value.n === 0n ? new Map() : sumOf({ coefficient: value, powers: new Map() });
const atom = (name: string, power: Fraction = ONE): Term => ({ coefficient: ONE, powers: new Map([[name, power]]) });
const UNIT = constant(ONE);
const exact = (over: Sum, under: Sum = UNIT): ExactQuotient => ({ over, under });

/** Returns a quotient as a rational number, if it is one. */
function numberOf({ over, under }: ExactQuotient): Fraction | undefined {
  const [x, y] = [over, under].map((sum) =>
    sum.size === 0 ? new Fraction(0) : sum.size === 1 ? sum.get('')?.coefficient : undefined,
  );
  return x && y && y.n !== 0n ? x.div(y) : undefined;
}

class Arithmetic {
  #products = 0;

  valueOf(of: Expression): ExactQuotient {
    switch (of.kind) {
      case 'number':
        return exact(constant(this.#kept(of.value)));
      case 'symbol':
        return exact(sumOf(atom(of.name)));
      case 'sum':
        return of.terms.map((term) => this.valueOf(term)).reduce((a, b) => this.#sum(a, b), exact(new Map()));
      case 'product':
        return of.factors.map((factor) => this.valueOf(factor)).reduce((a, b) => this.#times(a, b), exact(UNIT));
      case 'quotient':
        return this.#times(this.valueOf(of.over), this.#inverse(this.valueOf(of.under)));
      case 'power':
        return this.#power(this.valueOf(of.base), this.valueOf(of.exponent));
      case 'call':
        return this.#call(
          of.name,
          of.of.map((one) => this.valueOf(one)),
        );
    }
  }

  product(a: Sum, b: Sum): Sum {
    if ((this.#products += a.size * b.size) > LIMITS.products) throw new Beyond();
    const out = new Map<string, Term>();
    for (const x of a.values()) for (const y of b.values()) this.#add(out, this.#term(x, y));
    return out;
  }

  #add(out: Map<string, Term>, term: Term): void {
    const name = nameOf(term.powers),
      coefficient = this.#kept((out.get(name)?.coefficient ?? new Fraction(0)).add(term.coefficient));
    if (coefficient.n === 0n) out.delete(name);
    else out.set(name, { ...term, coefficient });
    if (out.size > LIMITS.terms) throw new Beyond();
  }

  #term(x: Term, y: Term): Term {
    const powers = new Map(x.powers);
    let coefficient = x.coefficient.mul(y.coefficient);
    for (const [name, power] of y.powers) {
      let sum = (powers.get(name) ?? new Fraction(0)).add(power);
      if (name === 'i' && sum.equals(2)) {
        coefficient = coefficient.neg();
        sum = new Fraction(0);
      } else if (/^\d/.test(name) && sum.compare(1) >= 0) {
        coefficient = coefficient.mul(new Fraction(BigInt(name)));
        sum = sum.sub(1);
      }
      if (sum.n === 0n) powers.delete(name);
      else powers.set(name, sum);
    }
    return { coefficient: this.#kept(coefficient), powers };
  }

  #kept(value: Fraction): Fraction {
    if (value.n >= LARGEST || value.d >= LARGEST) throw new Beyond();
    return value;
  }

  #sum(a: ExactQuotient, b: ExactQuotient): ExactQuotient {
    const out = new Map(this.product(a.over, b.under));
    for (const term of this.product(b.over, a.under).values()) this.#add(out, term);
    return exact(out, this.product(a.under, b.under));
  }

  #times(a: ExactQuotient, b: ExactQuotient): ExactQuotient {
    return exact(this.product(a.over, b.over), this.product(a.under, b.under));
  }

  #inverse({ over, under }: ExactQuotient): ExactQuotient {
    if (over.size === 0) throw new Beyond();
    return exact(under, over);
  }

  #power(base: ExactQuotient, exponent: ExactQuotient): ExactQuotient {
    const power = numberOf(exponent),
      number = numberOf(base);
    if (!power) throw new Beyond();
    if (power.d === 1n) return this.#whole(base, power, number);
    if (!number || power.d > 60n) throw new Beyond();
    return this.#whole(this.#root(number, power.d), new Fraction(power.s * power.n));
  }

  #whole(base: ExactQuotient, power: Fraction, number?: Fraction): ExactQuotient {
    const of = power.s < 0n ? this.#inverse(base) : base,
      times = power.n;
    if (number) {
      const bits = BigInt(Math.max(number.n.toString(2).length, number.d.toString(2).length) - 1);
      // 0 and 1 have no bits
      if (bits > 0n && bits * times > LIMITS.bits) throw new Beyond();
      if (bits === 0n && times > BigInt(LIMITS.exponent)) return this.#whole(base, new Fraction(2n + (times % 2n)));
    } else if (times > BigInt(LIMITS.exponent)) throw new Beyond();
    let out = exact(UNIT);
    for (let left = times, square = of; left > 0n; left >>= 1n) {
      if (left & 1n) out = this.#times(out, square);
      if (left > 1n) square = this.#times(square, square);
    }
    return out;
  }

  /** Returns the real root of a number, or for a square root of a negative number i times one. */
  #root(number: Fraction, degree: bigint): ExactQuotient {
    if (number.n === 0n) return exact(new Map());
    const { d } = number,
      negative = number.s < 0n;
    if (negative && degree % 2n === 0n && degree !== 2n) throw new Beyond();
    let root = exact(constant(new Fraction(1n, d)));
    // root(n / d) is root(n d^(degree - 1)) / d
    for (const [of, times] of [
      [number.n, 1n],
      [d, degree - 1n],
    ] as const)
      for (const [prime, power] of primes(of)) root = this.#times(root, this.#primePower(prime, power * times, degree));
    if (!negative) return root;
    return this.#times(root, exact(degree === 2n ? sumOf(atom('i')) : constant(new Fraction(-1))));
  }

  #primePower(prime: bigint, power: bigint, degree: bigint): ExactQuotient {
    const whole = this.#whole(exact(constant(new Fraction(prime))), new Fraction(power / degree), new Fraction(prime)),
      left = new Fraction(power % degree, degree);
    return left.n === 0n ? whole : this.#times(whole, exact(sumOf(atom(String(prime), left))));
  }

  #call(name: string, [of]: readonly ExactQuotient[]): ExactQuotient {
    const number = numberOf(of);
    if (!number) throw new Beyond();
    if (name === 'abs') return exact(constant(number.abs()));
    if (name !== 'factorial' || number.d !== 1n || number.s < 0n || number.n > LIMITS.factorial) throw new Beyond();
    let product = 1n;
    for (let i = 2n; i <= number.n; i++) product *= i;
    return exact(constant(this.#kept(new Fraction(product))));
  }
}

/** Returns prime factors with their powers. @throws Beyond if a large factor is left */
function primes(of: bigint): ReadonlyMap<bigint, bigint> {
  const found = new Map<bigint, bigint>();
  let left = of;
  for (let prime = 2n; prime * prime <= left && prime < LIMITS.prime; prime += prime === 2n ? 1n : 2n)
    while (left % prime === 0n) {
      found.set(prime, (found.get(prime) ?? 0n) + 1n);
      left /= prime;
    }
  if (left >= LIMITS.prime * LIMITS.prime) throw new Beyond();
  if (left > 1n) found.set(left, (found.get(left) ?? 0n) + 1n);
  return found;
}
