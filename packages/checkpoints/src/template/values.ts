import { compareText, concat, TemplateText, TextBuilder } from './text.ts';
import { ITEM, type RenderWork } from './render-limit.ts';

/** A value in a template: Python's values as far as templates meet them. Integers are JavaScript numbers. */
export type TemplateValue =
  | null
  | boolean
  | number
  | Float
  | TemplateText
  | readonly TemplateValue[]
  | Tuple
  | Dict
  | RangeValue
  | DictView
  | Iter
  | Namespace
  | Callable
  | UndefinedValue;

/** A number that Python prints with a decimal point, or an integer that a number of JavaScript cannot hold. */
export class Float {
  readonly value: number;
  /** The digits of such an integer. */
  readonly digits: string | undefined;
  constructor(value: number, digits?: string) {
    [this.value, this.digits] = [value, digits];
  }
}

/** An undefined name or field; `what` is the error message of any operation that needs its value. */
export class UndefinedValue {
  readonly what: string;
  constructor(what: string) {
    this.what = what;
  }
}

/** Python's tuple. */
export class Tuple {
  readonly items: readonly TemplateValue[];
  constructor(items: readonly TemplateValue[]) {
    this.items = items;
  }
}

/** An item of `groupby`: a tuple whose items also have names. */
export class GroupTuple extends Tuple {}

/** `range(...)`; not materialised until it is looped over. */
export class RangeValue {
  readonly start: number;
  readonly step: number;
  readonly length: number;
  readonly label: string;
  constructor(start: number, stop: number, step: number) {
    [this.start, this.step] = [start, step];
    this.length = Math.max(0, Math.ceil((stop - start) / step));
    this.label = `range(${start}, ${stop}${step === 1 ? '' : `, ${step}`})`;
  }
}

/** `keys()`, `values()` and `items()` of a dict. */
export class DictView {
  readonly name: 'keys' | 'values' | 'items';
  readonly items: readonly TemplateValue[];
  constructor(name: DictView['name'], items: readonly TemplateValue[]) {
    this.name = name;
    this.items = items;
  }
}

/** A generator: evaluated when first looped over, and empty afterwards. */
export class Iter {
  #make: (() => readonly TemplateValue[]) | undefined;
  constructor(make: () => readonly TemplateValue[]) {
    this.#make = make;
  }
  take(): readonly TemplateValue[] {
    const make = this.#make;
    this.#make = undefined;
    return make?.() ?? [];
  }
}

/** `namespace(...)`, whose fields a template may set. */
export class Namespace {
  readonly fields = new Map<string, TemplateValue>();
}

/** Keyword arguments of a call. */
export type Keywords = ReadonlyMap<string, TemplateValue>;

/** A function, a method or a macro. */
export class Callable {
  readonly name: string;
  readonly call: (args: readonly TemplateValue[], keywords: Keywords) => TemplateValue;
  /** Fields of the object that it represents, such as `loop`. */
  readonly fields: { get(name: string): TemplateValue | undefined } | undefined;
  constructor(name: string, call: Callable['call'], fields?: Callable['fields']) {
    [this.name, this.call, this.fields] = [name, call, fields];
  }
}

/** A dict in insertion order; keys keep their origin spans. */
export class Dict {
  readonly #entries = new Map<unknown, readonly [TemplateValue, TemplateValue]>();

  get size(): number {
    return this.#entries.size;
  }
  get(key: TemplateValue): TemplateValue | undefined {
    return this.#entries.get(hash(key))?.[1];
  }
  has(key: TemplateValue): boolean {
    return this.#entries.has(hash(key));
  }
  set(key: TemplateValue, value: TemplateValue): void {
    const at = hash(key);
    this.#entries.set(at, [this.#entries.get(at)?.[0] ?? key, value]);
  }
  entries(): readonly (readonly [TemplateValue, TemplateValue])[] {
    return [...this.#entries.values()];
  }
}

/** Returns a value that is the same for keys that Python holds equal. @throws Error for a mutable key */
export function hash(key: TemplateValue): unknown {
  if (key instanceof TemplateText) return `t${key.text}`;
  if (key instanceof Float) return key.value;
  if (typeof key === 'boolean') return Number(key);
  if (key === null || typeof key === 'number') return key;
  if (key instanceof Tuple)
    return `u${JSON.stringify(key.items.map((item) => [typeof hash(item), String(hash(item))]))}`;
  if (Array.isArray(key) || key instanceof Dict) throw new Error(`unhashable type: '${typeName(key)}'`);
  return key;
}

/** Returns Python's type name of a value. */
export function typeName(value: TemplateValue): string {
  if (value === null) return 'NoneType';
  if (typeof value === 'boolean') return 'bool';
  if (typeof value === 'number') return 'int';
  if (Array.isArray(value)) return 'list';
  if (value instanceof DictView) return `dict_${value.name}`;
  const names: readonly [new (...of: never[]) => unknown, string][] = [
    [Float, 'float'],
    [TemplateText, 'str'],
    [Tuple, 'tuple'],
    [Dict, 'dict'],
    [RangeValue, 'range'],
    [Iter, 'generator'],
    [Namespace, 'Namespace'],
    [Callable, 'function'],
    [UndefinedValue, 'Undefined'],
  ];
  return names.find(([type]) => value instanceof type)?.[1] ?? 'object';
}

/** Returns a value as a number, if it is one; True is 1. */
export function number(value: TemplateValue): number | undefined {
  if (typeof value === 'number') return value;
  if (typeof value === 'boolean') return Number(value);
  return value instanceof Float ? value.value : undefined;
}

/** Returns the length of a value that has one, without looking at its items. */
export function lengthOfValue(value: TemplateValue): number | undefined {
  if (Array.isArray(value)) return value.length;
  if (value instanceof Tuple || value instanceof DictView) return value.items.length;
  if (value instanceof Dict) return value.size;
  if (value instanceof RangeValue) return value.length;
  if (value instanceof UndefinedValue) return 0;
  return value instanceof TemplateText ? value.text.length : undefined;
}

/** Returns whether Python holds a value for true. */
export function truthy(value: TemplateValue): boolean {
  return number(value) !== undefined ? number(value) !== 0 : value !== null && lengthOfValue(value) !== 0;
}

/** Returns the items that a loop iterates over. @throws Error for a value that is not iterable */
export function iterate(value: TemplateValue, work: RenderWork): readonly TemplateValue[] {
  const items = itemsOf(value, work);
  if (items === undefined) throw new Error(`'${typeName(value)}' object is not iterable`);
  work.spend(ITEM * items.length);
  return items;
}

function itemsOf(value: TemplateValue, work: RenderWork): readonly TemplateValue[] | undefined {
  if (value instanceof TemplateText) {
    const at = value.begins(work);
    if (at === undefined) return Array.from(value.text, (_, i) => value.slice(i, i + 1).as(false));
    return at.slice(1).map((end, i) => value.slice(at[i], end).as(false));
  }
  if (Array.isArray(value)) return value;
  if (value instanceof Tuple || value instanceof DictView) return value.items;
  if (value instanceof Dict) return value.entries().map(([key]) => key);
  if (value instanceof RangeValue) return Array.from({ length: value.length }, (_, i) => value.start + i * value.step);
  if (value instanceof Iter) return value.take();
  return value instanceof UndefinedValue ? [] : undefined;
}

/** Python's `==`. */
export function equal(a: TemplateValue, b: TemplateValue, work: RenderWork): boolean {
  work.spend(1);
  if (a instanceof TemplateText && b instanceof TemplateText) {
    if (a.text.length !== b.text.length) return false;
    work.spend(a.text.length);
    return a.text === b.text;
  }
  const [x, y] = [number(a), number(b)];
  if (x !== undefined || y !== undefined) return x === y;
  if (a === b) return true;
  if (a instanceof UndefinedValue) return b instanceof UndefinedValue;
  const alike = (one: readonly TemplateValue[], other: readonly TemplateValue[]): boolean =>
    one.length === other.length && one.every((item, i) => equal(item, other[i] as TemplateValue, work));
  if (Array.isArray(a)) return Array.isArray(b) && alike(a, b as readonly TemplateValue[]);
  if (a instanceof Tuple) return b instanceof Tuple && alike(a.items, b.items);
  if (a instanceof Dict)
    return (
      b instanceof Dict &&
      a.size === b.size &&
      a.entries().every(([key, value]) => b.has(key) && equal(value, b.get(key) as TemplateValue, work))
    );
  if (a instanceof RangeValue && b instanceof RangeValue)
    return a.length === b.length && (a.length === 0 || (a.start === b.start && (a.length === 1 || a.step === b.step)));
  return false;
}

/** Python's order: negative if `a < b`. `operator` is named in the error. @throws Error for unordered values */
export function compare(a: TemplateValue, b: TemplateValue, work: RenderWork, operator = '<'): number {
  work.spend(1);
  if (a instanceof TemplateText && b instanceof TemplateText) {
    work.spend(Math.min(a.text.length, b.text.length));
    return compareText(a.text, b.text);
  }
  const [x, y] = [number(a), number(b)];
  if (x !== undefined && y !== undefined) return x < y ? -1 : x > y ? 1 : x === y ? 0 : Number.NaN;
  const lists =
    Array.isArray(a) && Array.isArray(b)
      ? [a as readonly TemplateValue[], b as readonly TemplateValue[]]
      : a instanceof Tuple && b instanceof Tuple
        ? [a.items, b.items]
        : undefined;
  if (lists !== undefined) {
    const [one, other] = lists as [readonly TemplateValue[], readonly TemplateValue[]];
    const at = one.findIndex((item, i) => i >= other.length || !equal(item, other[i] as TemplateValue, work));
    return at >= 0 && at < other.length
      ? compare(one[at] as TemplateValue, other[at] as TemplateValue, work, operator)
      : Math.sign(one.length - other.length);
  }
  for (const one of [a, b]) if (one instanceof UndefinedValue) throw new Error(one.what);
  throw new Error(`'${operator}' not supported between instances of '${typeName(a)}' and '${typeName(b)}'`);
}

/** Python's `in`. */
export function contains(container: TemplateValue, item: TemplateValue, work: RenderWork): boolean {
  if (container instanceof TemplateText) {
    if (!(item instanceof TemplateText))
      throw new Error(`'in <string>' requires string as left operand, not ${typeName(item)}`);
    work.spend(container.text.length);
    return container.text.includes(item.text);
  }
  if (container instanceof Dict) return container.has(item);
  return iterate(container, work).some((one) => equal(one, item, work));
}

/** Python's `str`. */
export function toText(value: TemplateValue, work: RenderWork): TemplateText {
  if (value instanceof TemplateText) return value;
  if (value instanceof UndefinedValue) return new TemplateText('');
  const made = new TextBuilder(work);
  repr(value, made, work);
  return made.done();
}

/** Python's `repr`. @throws Error for a value that Python prints with an address */
export function repr(value: TemplateValue, made: TextBuilder, work: RenderWork): void {
  work.spend(1);
  const list = (open: string, items: readonly TemplateValue[], close: string): void => {
    made.add(open);
    items.forEach((item, i) => {
      if (i > 0) made.add(', ');
      repr(item, made, work);
    });
    made.add(close);
  };
  if (value === null) made.add('None');
  else if (typeof value === 'boolean') made.add(value ? 'True' : 'False');
  else if (typeof value === 'number') made.add(wholeText(value));
  else if (value instanceof Float) made.add(value.digits ?? floatText(value.value));
  else if (value instanceof UndefinedValue) made.add('Undefined');
  else if (value instanceof TemplateText) made.add(reprText(value, work));
  else if (value instanceof RangeValue) made.add(value.label);
  else if (Array.isArray(value)) list('[', value as readonly TemplateValue[], ']');
  else if (value instanceof Tuple) list('(', value.items, value.items.length === 1 ? ',)' : ')');
  else if (value instanceof DictView) list(`dict_${value.name}([`, value.items, '])');
  else if (value instanceof Dict) {
    made.add('{');
    value.entries().forEach(([key, inner], i) => {
      if (i > 0) made.add(', ');
      repr(key, made, work);
      made.add(': ');
      repr(inner, made, work);
    });
    made.add('}');
  } else throw new Error(`a ${typeName(value)} that is printed`);
}

/** Formats an integer in digits. */
export function wholeText(value: number): string {
  return Math.abs(value) <= Number.MAX_SAFE_INTEGER ? String(value === 0 ? 0 : value) : BigInt(value).toString();
}

/** Formats a float as Python does. */
export function floatText(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'nan' : value < 0 ? '-inf' : 'inf';
  if (value === 0) return Object.is(value, -0) ? '-0.0' : '0.0';
  const [digits, exponent] = value.toExponential().split('e') as [string, string];
  const power = Number(exponent);
  if (power < -4 || power >= 16) return `${digits}e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`;
  const text = power < 0 ? value.toFixed(Math.max(0, digits.replace(/\D/g, '').length - 1 - power)) : String(value);
  return text.includes('.') ? text : `${text}.0`;
}

const NAMED: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '\\': '\\\\' };

function reprText(text: TemplateText, work: RenderWork): TemplateText {
  const quote = text.text.includes("'") && !text.text.includes('"') ? '"' : "'";
  const hex = (char: string): string => {
    const code = char.codePointAt(0) as number;
    if (code < 0x100) return `\\x${code.toString(16).padStart(2, '0')}`;
    return code < 0x10000 ? `\\u${code.toString(16).padStart(4, '0')}` : `\\U${code.toString(16).padStart(8, '0')}`;
  };
  const inner = text.map(work, (part) =>
    part.replace(/[\\'"\p{C}\p{Z}]/gu, (char) => {
      if (char === ' ' || char === '"') return char;
      if (char === "'") return quote === "'" ? "\\'" : char;
      return NAMED[char] ?? hex(char);
    }),
  );
  const made = new TextBuilder(work).add(quote).add(inner).add(quote).done();
  return text.safe ? concat(work, 'Markup(', made, ')') : made;
}
