import type { Expression } from './expression.ts';

/** A complex number. */
type Complex = readonly [re: number, im: number];

/** Relative tolerance for values without an exact form here, such as logarithms and nested roots. */
const NEAR = 1e-10;
/** Values tried for symbols; some are negative, where √x² is not x. */
const PLACES = [0.7390851, 1.6180339, -0.5671432, 2.2360679, -1.3247179];

/** Returns whether two expressions agree wherever both have a value; undefined if there are too few such points. */
export function equalNear(a: Expression, b: Expression): boolean | undefined {
  let places = 0;
  for (const [round, place] of PLACES.entries()) {
    const at = (name: string): number => place + (((round + 1) * fractionOf(name)) % 1),
      [[x, y], [u, v]] = [valueAt(a, at), valueAt(b, at)];
    if (![x, y, u, v].every(Number.isFinite)) {
      if (Number.isFinite(x + y) !== Number.isFinite(u + v)) return false;
      continue;
    }
    if (Math.hypot(x - u, y - v) > NEAR * Math.max(Math.hypot(x, y), Math.hypot(u, v))) return false;
    places++;
  }
  return places >= 2 ? true : undefined;
}

/** Returns a number between 0 and 1 derived from a name by FNV-1a. */
const fractionOf = (name: string): number =>
  [...name].reduce((hash, letter) => Math.imul(hash ^ letter.codePointAt(0)!, 0x0100_0193) >>> 0, 0x811c_9dc5) /
  2 ** 32;

function valueAt(of: Expression, at: (name: string) => number): Complex {
  const value = (one: Expression): Complex => valueAt(one, at);
  switch (of.kind) {
    case 'number':
      return [of.value.valueOf(), 0];
    case 'symbol':
      return symbol(of.name, at);
    case 'sum':
      return of.terms.map(value).reduce(([a, b], [c, d]) => [a + c, b + d], [0, 0]);
    case 'product':
      return of.factors.map(value).reduce(times, [1, 0]);
    case 'quotient':
      return times(value(of.over), inverse(value(of.under)));
    case 'power':
      return power(value(of.base), value(of.exponent));
    case 'call':
      return call(of.name, of.of.map(value));
  }
}

function symbol(name: string, at: (name: string) => number): Complex {
  if (name === 'i') return [0, 1];
  return [{ e: Math.E, pi: Math.PI, infty: Number.NaN }[name] ?? at(name), 0];
}

const times = ([a, b]: Complex, [c, d]: Complex): Complex => [a * c - b * d, a * d + b * c];
const inverse = ([a, b]: Complex): Complex => [a / (a * a + b * b), -b / (a * a + b * b)];

/** Returns the real power if there is one, also for odd roots of negative numbers; else the principal one. */
function power([a, b]: Complex, [p, q]: Complex): Complex {
  if (b === 0 && q === 0) {
    const real = a ** p;
    if (!Number.isNaN(real)) return [real, 0];
    const degree = Math.round(1 / p);
    if (Math.abs(degree * p - 1) < 1e-12 && degree % 2 !== 0) return [-((-a) ** p), 0];
  }
  const log = Math.log(Math.hypot(a, b)),
    angle = Math.atan2(b, a),
    size = Math.exp(p * log - q * angle),
    turn = q * log + p * angle;
  return [size * Math.cos(turn), size * Math.sin(turn)];
}

const REAL: Readonly<Record<string, (x: number, base: number) => number>> = {
  sin: Math.sin,
  cos: Math.cos,
  tan: Math.tan,
  cot: (x) => 1 / Math.tan(x),
  sec: (x) => 1 / Math.cos(x),
  csc: (x) => 1 / Math.sin(x),
  arcsin: Math.asin,
  arccos: Math.acos,
  arctan: Math.atan,
  sinh: Math.sinh,
  cosh: Math.cosh,
  tanh: Math.tanh,
  ln: Math.log,
  exp: Math.exp,
  log: (x, base) => Math.log(x) / Math.log(base),
  floor: Math.floor,
  ceil: Math.ceil,
};

function call(name: string, [[x, y], [base] = [10, 0]]: readonly Complex[]): Complex {
  if (name === 'abs') return [Math.hypot(x, y), 0];
  return [y === 0 ? (REAL[name]?.(x, base) ?? Number.NaN) : Number.NaN, 0];
}
