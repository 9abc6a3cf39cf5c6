import { chars, choice, empty, never, repeat, sequence, text } from './node.ts';
import type { Node } from './node.ts';

/** Bounds of a number; a bound is part of the range unless it is `Above` or `Below`. */
export interface NumberRange {
  readonly least?: number;
  readonly most?: number;
  readonly leastOut?: boolean;
  readonly mostOut?: boolean;
}

/** Digits that a double tells apart: a number within bounds has at most these, so that none is rounded over a bound. */
const precision = 15;
/** The least number of more digits. */
const FAR = 10 ** precision;

/** A bound of numbers that are not negative: its digits before and after the point. */
interface Bound {
  readonly whole: string;
  readonly part: string;
  /** Whether the bound itself is outside. */
  readonly out: boolean;
}

/**
 * Returns decimal numbers, or whole ones, of a range, without an exponent.
 * @returns undefined for a bound with more digits than can be told apart
 */
export function numbersWithin(range: NumberRange, whole: boolean): Node | undefined {
  // numbers within bounds have at most 15 digits, so that one of 16, as every integer of Zod has, excludes none
  const within = (value: number | undefined): number | undefined =>
      value !== undefined && value < FAR ? value : undefined,
    { leastOut, mostOut } = range,
    most = within(range.most),
    least = range.least === undefined || within(-range.least) === undefined ? undefined : range.least;
  const low = least === undefined ? undefined : bound(Math.abs(least), leastOut === true),
    high = most === undefined ? undefined : bound(Math.abs(most), mostOut === true);
  if (low === null || high === null) return undefined;
  const zero = { whole: '0', part: '', out: false },
    positive =
      most !== undefined && most < 0 ? never : between(least !== undefined && least >= 0 ? low : zero, high, whole),
    // -0 is not written: it is 0
    negative =
      least !== undefined && least >= 0
        ? never
        : between(most !== undefined && most < 0 ? high : { ...zero, out: true }, low, whole);
  return choice(positive, sequence(text('-'), negative));
}

/** Returns a bound's digits; null for more than can be told apart. */
function bound(value: number, out: boolean): Bound | null {
  if (value > Number.MAX_SAFE_INTEGER) return null;
  const [whole = '', part = ''] = value.toFixed(20).split('.');
  const digits = String(value).includes('e') ? part.replace(/0+$/, '') : (String(value).split('.')[1] ?? '');
  return whole.length + digits.length > precision ? null : { whole, part: digits, out };
}

/** Numbers of at least 0 from `low` to `high`. */
function between(low: Bound | undefined, high: Bound | undefined, whole: boolean): Node {
  const from = low ?? { whole: '0', part: '', out: false };
  if (whole) {
    // the nearest whole numbers inside
    const first = BigInt(from.whole) + (from.part !== '' || from.out ? 1n : 0n),
      last = high && BigInt(high.whole) - (high.part === '' && high.out ? 1n : 0n);
    return last !== undefined && first > last ? never : wholes(first, last);
  }
  const [a, b] = [BigInt(from.whole), high && BigInt(high.whole)];
  if (b !== undefined && b < a) return never;
  if (b === a) return sequence(text(from.whole), fraction(from, high, room(from.whole)));
  const inner = b === undefined || b > a + 1n ? wholes(a + 1n, b === undefined ? undefined : b - 1n) : never,
    digits = room(high?.whole ?? '9'.repeat(9));
  return choice(
    sequence(text(from.whole), fraction(from, undefined, room(from.whole))),
    sequence(inner, fraction(undefined, undefined, digits)),
    high ? sequence(text(high.whole), fraction(undefined, high, digits)) : never,
  );
}

/** Digits after the point that numbers with these before it may have. */
const room = (whole: string): number => Math.max(0, Math.min(6, precision - whole.length));

/** What follows the digits before the point, nothing included where the bounds allow it. */
function fraction(low: Bound | undefined, high: Bound | undefined, room: number): Node {
  const digits = Math.max(
      room,
      Math.min(precision, (low?.part.length ?? 0) + 1),
      Math.min(precision, (high?.part.length ?? 0) + 1),
    ),
    from = low && { digits: low.part, out: low.out },
    to = high && { digits: high.part, out: high.out },
    none =
      (from === undefined || (from.digits === '' && !from.out)) && !(to !== undefined && to.digits === '' && to.out),
    some = room === 0 ? never : sequence(text('.'), fractions(from, to, digits, true));
  return none ? choice(empty, some) : some;
}

interface Edge {
  readonly digits: string;
  readonly out: boolean;
}

/** Digits after the point, at least one if `first`, that lie between the edges' digits. */
function fractions(low: Edge | undefined, high: Edge | undefined, room: number, first: boolean): Node {
  if (low === undefined && high === undefined) return repeat(chars([48, 57]), first ? 1 : 0, room);
  const from = low && digitOf(low.digits),
    to = high && digitOf(high.digits),
    ends =
      !first &&
      (low === undefined || (zeros(low.digits) && !low.out)) &&
      !(high !== undefined && zeros(high.digits) && high.out),
    options: Node[] = ends ? [empty] : [];
  if (room === 0) return choice(...options);
  for (let digit = from ?? 0; digit <= (to ?? 9); digit++) {
    const then = fractions(
      low && digit === from ? rest(low) : undefined,
      high && digit === to ? rest(high) : undefined,
      room - 1,
      false,
    );
    options.push(sequence(text(String(digit)), then));
  }
  return choice(...options);
}
const digitOf = (digits: string): number => Number(digits[0] ?? '0');
const rest = ({ digits, out }: Edge): Edge => ({ digits: digits.slice(1), out });
const zeros = (digits: string): boolean => /^0*$/.test(digits);

/** Whole numbers from `from`, of at least 0, to `to`. */
function wholes(from: bigint, to: bigint | undefined): Node {
  const last = to ?? 10n ** BigInt(Math.max(precision, String(from).length)) - 1n,
    options: Node[] = [];
  for (let low = from; low <= last; ) {
    const length = String(low).length,
      end = 10n ** BigInt(length) - 1n,
      high = last < end ? last : end;
    options.push(sameLength(String(low), String(high)));
    low = high + 1n;
  }
  return choice(...options);
}

/** Digits from `low` to `high`, which have the same length. */
function sameLength(low: string, high: string): Node {
  if (low === '') return empty;
  const [a, b] = [digitOf(low), digitOf(high)],
    [x, y] = [low.slice(1), high.slice(1)],
    any = (from: number, to: number): Node =>
      from > to ? never : sequence(chars([48 + from, 48 + to]), repeat(chars([48, 57]), x.length, x.length));
  if (a === b) return sequence(text(String(a)), sameLength(x, y));
  const [open, shut] = [/^0*$/.test(x), /^9*$/.test(y)];
  return choice(
    open ? never : sequence(text(String(a)), sameLength(x, '9'.repeat(x.length))),
    any(open ? a : a + 1, shut ? b : b - 1),
    shut ? never : sequence(text(String(b)), sameLength('0'.repeat(y.length), y)),
  );
}
