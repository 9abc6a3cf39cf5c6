import { TemplateText } from './text.ts';
import {
  Callable,
  compare,
  contains,
  Dict,
  equal,
  Float,
  number,
  RangeValue,
  toText,
  Tuple,
  UndefinedValue,
  DictView,
  Iter,
  type TemplateValue,
} from './values.ts';
import type { RenderWork } from './render-limit.ts';

type Test = (value: TemplateValue, args: readonly TemplateValue[], work: RenderWork) => boolean;

const collection = (value: TemplateValue): boolean =>
  value instanceof TemplateText ||
  Array.isArray(value) ||
  [Tuple, Dict, RangeValue, DictView, Iter, UndefinedValue].some(
    (type) => value instanceof (type as new (...of: never[]) => unknown),
  );

const cased =
  (change: (text: string) => string): Test =>
  (value, _, work) => {
    const { text } = toText(value, work);
    return text === change(text) && text !== other(text, change);
  };

/** A text without letters is neither lower nor upper case. */
const other = (text: string, change: (text: string) => string): string =>
  change('a') === 'a' ? text.toUpperCase() : text.toLowerCase();

const ordered =
  (operator: string, holds: (order: number) => boolean): Test =>
  (value, [than], work) =>
    holds(compare(value, than as TemplateValue, work, operator));

const same: Test = (value, [to], work) => equal(value, to as TemplateValue, work);
const [greater, least, less, most] = [
  ordered('>', (order) => order > 0),
  ordered('>=', (order) => order >= 0),
  ordered('<', (order) => order < 0),
  ordered('<=', (order) => order <= 0),
];

/** Jinja's tests, each with its number of arguments. */
const TESTS: Readonly<Record<string, readonly [Test, number]>> = {
  boolean: [(value) => typeof value === 'boolean', 0],
  callable: [(value) => value instanceof Callable || value instanceof UndefinedValue, 0],
  defined: [(value) => !(value instanceof UndefinedValue), 0],
  undefined: [(value) => value instanceof UndefinedValue, 0],
  divisibleby: [(value, [by]) => numberOf(value) % numberOf(by as TemplateValue) === 0, 1],
  even: [(value) => numberOf(value) % 2 === 0, 0],
  odd: [(value) => Math.abs(numberOf(value) % 2) === 1, 0],
  false: [(value) => value === false, 0],
  true: [(value) => value === true, 0],
  none: [(value) => value === null, 0],
  integer: [(value) => typeof value === 'number', 0],
  float: [(value) => value instanceof Float, 0],
  number: [(value) => number(value) !== undefined, 0],
  string: [(value) => value instanceof TemplateText, 0],
  mapping: [(value) => value instanceof Dict, 0],
  iterable: [collection, 0],
  sequence: [(value) => collection(value) && !(value instanceof Iter), 0],
  lower: [cased((text) => text.toLowerCase()), 0],
  upper: [cased((text) => text.toUpperCase()), 0],
  escaped: [(value) => value instanceof TemplateText && value.safe, 0],
  in: [(value, [within], work) => contains(within as TemplateValue, value, work), 1],
  sameas: [
    (value, [as]) =>
      value === as || (value instanceof TemplateText && as instanceof TemplateText && value.text === as.text),
    1,
  ],
  ...{ eq: [same, 1], equalto: [same, 1], '==': [same, 1] },
  ...{ ne: [(...given) => !same(...given), 1], '!=': [(...given) => !same(...given), 1] },
  ...{ gt: [greater, 1], greaterthan: [greater, 1], '>': [greater, 1], ge: [least, 1], '>=': [least, 1] },
  ...{ lt: [less, 1], lessthan: [less, 1], '<': [less, 1], le: [most, 1], '<=': [most, 1] },
};

function numberOf(value: TemplateValue): number {
  const found = number(value);
  if (found !== undefined) return found;
  if (value instanceof UndefinedValue) throw new Error(value.what);
  throw new Error('a test of a number, on a value that is not a number');
}

/** Applies a test by name. @throws Error for a test that Jinja does not know, or for a wrong number of arguments */
export function test(name: string, value: TemplateValue, args: readonly TemplateValue[], work: RenderWork): boolean {
  const found = Object.hasOwn(TESTS, name) ? TESTS[name] : undefined;
  if (found === undefined) throw new Error(`No test named '${name}'.`);
  if (found[1] !== args.length) throw new Error(`test '${name}' takes ${found[1]} arguments, got ${args.length}`);
  work.spend(value instanceof TemplateText ? value.text.length : 1);
  return found[0](value, args, work);
}

/** Returns whether a test of that name exists. */
export const isTest = (name: string): boolean => Object.hasOwn(TESTS, name);
