import { percent } from './format.ts';
import { concat, escapeHtml, repeat, TemplateText } from './text.ts';
import {
  compare,
  contains,
  equal,
  Float,
  iterate,
  number,
  toText,
  Tuple,
  typeName,
  UndefinedValue,
  type TemplateValue,
} from './values.ts';
import { ITEM, type RenderWork } from './render-limit.ts';

/** Returns the result of a comparison; undefined if the operator is not a comparison. */
export function comparison(
  operator: string,
  a: TemplateValue,
  b: TemplateValue,
  work: RenderWork,
): boolean | undefined {
  switch (operator) {
    case '==':
      return equal(a, b, work);
    case '!=':
      return !equal(a, b, work);
    case '<':
      return compare(a, b, work, '<') < 0;
    case '<=':
      return compare(a, b, work, '<=') <= 0;
    case '>':
      return compare(a, b, work, '>') > 0;
    case '>=':
      return compare(a, b, work, '>=') >= 0;
    case 'in':
      return contains(b, a, work);
    case 'not in':
      return !contains(b, a, work);
  }
  return undefined;
}

/** Comparison operators. */
export const COMPARES: readonly string[] = ['==', '!=', '<', '<=', '>', '>=', 'in', 'not in'];

/** Applies one of Python's operators to two values. @throws Error for unsupported operands */
export function operate(operator: string, a: TemplateValue, b: TemplateValue, work: RenderWork): TemplateValue {
  if (operator === '~') return concat(work, toText(a, work), toText(b, work));
  if (operator === '%' && a instanceof TemplateText) return percent(a, b, work);
  for (const one of [a, b]) if (one instanceof UndefinedValue) throw new Error(one.what);
  const [x, y] = [number(a), number(b)];
  if (x !== undefined && y !== undefined)
    return arithmetic(operator, x, y, a instanceof Float || b instanceof Float, typeName(a), typeName(b));
  if (operator === '+' && a instanceof TemplateText && b instanceof TemplateText) {
    if (!a.safe && !b.safe) return concat(work, a, b);
    return concat(work, escapeHtml(work, a), escapeHtml(work, b)).as(true);
  }
  if (operator === '+' && Array.isArray(a) && Array.isArray(b)) return joined(a, b as readonly TemplateValue[], work);
  if (operator === '+' && a instanceof Tuple && b instanceof Tuple) return new Tuple(joined(a.items, b.items, work));
  if (operator === '*') {
    const [many, times] = y === undefined ? [b, x] : [a, y];
    if (times !== undefined && !(a instanceof Float || b instanceof Float)) {
      if (many instanceof TemplateText) return repeat(work, many, times).as(many.safe);
      const items =
        many instanceof Tuple ? many.items : Array.isArray(many) ? (many as readonly TemplateValue[]) : undefined;
      if (items !== undefined) {
        work.made(items.length * Math.max(0, times));
        const all = Array.from({ length: Math.max(0, times) }, () => items).flat();
        return many instanceof Tuple ? new Tuple(all) : all;
      }
    }
  }
  throw new Error(`unsupported operand type(s) for ${operator}: '${typeName(a)}' and '${typeName(b)}'`);
}

function joined(a: readonly TemplateValue[], b: readonly TemplateValue[], work: RenderWork): TemplateValue[] {
  work.spend(ITEM);
  work.made(a.length + b.length);
  return [...a, ...b];
}

function arithmetic(operator: string, a: number, b: number, float: boolean, ofA: string, ofB: string): TemplateValue {
  const made = (value: number, asFloat = float): TemplateValue => {
    if (asFloat) return new Float(value);
    if (!Number.isFinite(value)) throw new Error('a whole number that is too large');
    return value === 0 ? 0 : value;
  };
  if (b === 0 && ['/', '//', '%'].includes(operator)) throw new Error('division by zero');
  switch (operator) {
    case '+':
      return made(a + b);
    case '-':
      return made(a - b);
    case '*':
      return made(a * b);
    case '/':
      return made(a / b, true);
    case '//':
      return made(Math.floor(a / b));
    case '%': {
      const rest = a % b;
      return made(rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest);
    }
    case '**': {
      if (a === 0 && b < 0) throw new Error('0.0 cannot be raised to a negative power');
      const power = a ** b;
      if (!Number.isFinite(power)) throw new Error('a power that is no finite real number');
      return made(power, float || b < 0);
    }
  }
  throw new Error(`unsupported operand type(s) for ${operator}: '${ofA}' and '${ofB}'`);
}

/** `-value` and `+value`. */
export function sign(operator: string, value: TemplateValue): TemplateValue {
  const found = number(value);
  if (found === undefined)
    throw new Error(
      value instanceof UndefinedValue ? value.what : `bad operand type for unary ${operator}: '${typeName(value)}'`,
    );
  const signed = operator === '-' ? -found : found;
  return value instanceof Float ? new Float(signed) : signed === 0 ? 0 : signed;
}

/** Returns the values of an unpacking. @throws Error unless there are as many as names */
export function unpack(value: TemplateValue, count: number, work: RenderWork): readonly TemplateValue[] {
  const items = iterate(value, work);
  if (items.length === count) return items;
  throw new Error(
    items.length > count
      ? `too many values to unpack (expected ${count})`
      : `not enough values to unpack (expected ${count}, got ${items.length})`,
  );
}
