import Fraction from 'fraction.js';
import { answerOf } from './answer.ts';
import type { MathAnswer } from './answer.ts';
import { equalExact, exactly, ratioOf } from './exact.ts';
import type { Expression } from './expression.ts';
import { equalNear } from './equal-near.ts';
import { plainLatex } from './plain-latex.ts';

/**
 * Returns whether two closed-form answers are the same value: numbers, fractions, percent signs and units dropped,
 * radicals, π, formulas in letters, ordered points and intervals, unordered sets and lists, matrices, equations, words.
 * The comparison is exact; values without an exact form here, such as logarithms and nested roots, are compared to ten
 * digits; anything that is not a formula is compared as text.
 */
export function sameMath(a: string, b: string): boolean {
  const [x, y] = [plainLatex(a), plainLatex(b)];
  if (joined(x) === joined(y)) return true;
  const [one, two] = [answerOf(x), answerOf(y)];
  return one !== undefined && two !== undefined && (same(one, two) || same(aloneOf(one, two), aloneOf(two, one)));
}

/** Removes spaces, but between digits, where they part two numbers unless these are groups of three. */
const joined = (text: string): string =>
  /^\d{1,3}(?: \d{3})+$/.test(text) ? text.replaceAll(' ', '') : text.replace(/(?<!\d) | (?!\d)/g, '');

/** Reduces "x = 5" to 5, where the other answer is a value. */
const aloneOf = (answer: MathAnswer, other: MathAnswer): MathAnswer =>
  answer.kind === 'relation' && answer.name !== undefined && other.kind === 'value'
    ? { kind: 'value', value: answer.more }
    : answer;

function same(a: MathAnswer, b: MathAnswer): boolean {
  if (a.kind === 'value' && b.kind === 'value') return equal(a.value, b.value);
  if (a.kind === 'text' && b.kind === 'text')
    return a.text === b.text || (a.text.length > 1 && a.text.toLowerCase() === b.text.toLowerCase());
  if ((a.kind === 'set' && b.kind === 'set') || (a.kind === 'union' && b.kind === 'union'))
    return holds(a.items, b.items) && holds(b.items, a.items);
  if (a.kind === 'tuple' && b.kind === 'tuple') return a.brackets === b.brackets && inOrder(a.items, b.items);
  if (a.kind === 'matrix' && b.kind === 'matrix')
    return a.lines === b.lines && a.rows.length === b.rows.length && a.rows.every((row, i) => inOrder(row, b.rows[i]));
  if (a.kind === 'relation' && b.kind === 'relation')
    return (
      a.sign === b.sign && ((a.name !== undefined && a.name === b.name && equal(a.more, b.more)) || sameRelation(a, b))
    );
  return false;
}

const inOrder = (a: readonly MathAnswer[], b: readonly MathAnswer[]): boolean =>
  a.length === b.length && a.every((item, i) => same(item, b[i]));
const holds = (all: readonly MathAnswer[], some: readonly MathAnswer[]): boolean =>
  some.every((item) => all.some((other) => same(item, other)));

function equal(a: Expression, b: Expression): boolean {
  const [x, y] = [exactly(a), exactly(b)];
  return (x && y && equalExact(x, y)) ?? equalNear(a, b) ?? false;
}

const MINUS: Expression = { kind: 'number', value: new Fraction(-1) };

type Relation = Extract<MathAnswer, { kind: 'relation' }>;
/** Returns whether two relations are equivalent: equations up to a factor, inequalities up to a positive one. */
function sameRelation(a: Relation, b: Relation): boolean {
  const [x, y] = [a, b].map(({ less, more }) =>
    exactly({ kind: 'sum', terms: [less, { kind: 'product', factors: [MINUS, more] }] }),
  );
  const ratio = x && y && ratioOf(x, y);
  if (ratio === undefined || ratio === 'none') return false;
  return ratio === 'both 0' || a.sign === '=' || a.sign === '\\ne' || ratio.s > 0n;
}
