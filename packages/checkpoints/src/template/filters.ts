import { Arguments, whole } from './arguments.ts';
import type { Filter, FilterEntry } from './filter.ts';
import { attributeOf, path } from './lookup.ts';
import { percent } from './format.ts';
import { json } from './json.ts';
import { capitalize, lines, pad, strip } from './methods.ts';
import { listFilters } from './list-filters.ts';
import { test } from './tests.ts';
import { escapeHtml, join, repeat, replace, TemplateText, TextBuilder } from './text.ts';
import {
  Dict,
  Float,
  Iter,
  iterate,
  number,
  lengthOfValue,
  toText,
  truthy,
  Tuple,
  typeName,
  UndefinedValue,
  type Keywords,
  type TemplateValue,
} from './values.ts';
import type { RenderWork } from './render-limit.ts';

const text = (change: (value: TemplateText, given: Arguments, work: RenderWork) => TemplateValue): Filter => {
  return (value, given, work) => change(toText(value, work), given, work);
};

/** Integer text as Python's int() accepts it, with surrounding white space and with underscores between digits. */
const WHOLE = /^\s*[+-]?\d+(?:_\d+)*\s*$/;
const FLOAT = /^\s*[+-]?(?:(?:\d+(?:_\d+)*)(?:\.(?:\d+)?)?|\.\d+)(?:[eE][+-]?\d+)?\s*$/;

function asFloat(value: TemplateValue): number | undefined {
  if (!(value instanceof TemplateText)) return number(value);
  const plain = value.text.trim().toLowerCase();
  if (/^[+-]?(?:inf|infinity|nan)$/.test(plain))
    return plain.includes('nan') ? Number.NaN : plain.startsWith('-') ? -Infinity : Infinity;
  return FLOAT.test(value.text) ? Number(value.text.replaceAll('_', '')) : undefined;
}

function toWhole(value: TemplateValue, given: Arguments): TemplateValue {
  const base = given.whole('base', 10);
  if (value instanceof TemplateText && base !== 10) {
    const digits = value.text
      .trim()
      .toLowerCase()
      .replace(/^0[xob]/, '');
    const known = '0123456789abcdefghijklmnopqrstuvwxyz'.slice(0, base);
    if (digits !== '' && [...digits].every((digit) => known.includes(digit))) return Number.parseInt(digits, base);
  } else if (value instanceof TemplateText && WHOLE.test(value.text)) return Number(value.text.replaceAll('_', ''));
  const found = asFloat(value);
  if (found !== undefined && Number.isFinite(found)) return Math.trunc(found);
  if (value instanceof UndefinedValue) throw new Error(value.what);
  return given.get('default') ?? 0;
}

function indent(value: TemplateValue, given: Arguments, work: RenderWork): TemplateValue {
  if (!(value instanceof TemplateText))
    throw new Error(`unsupported operand type(s) for +=: '${typeName(value)}' and 'str'`);
  const width = given.get('width') ?? 4;
  const by = width instanceof TemplateText ? width : repeat(work, new TemplateText(' '), whole(width));
  const all = lines(new TextBuilder(work).add(value).add('\n').done(), false, work);
  const made = new TextBuilder(work);
  all.forEach((line, i) => {
    if (i > 0) made.add('\n');
    if (i === 0 ? given.flag('first') : given.flag('blank') || line.text !== '') made.add(by);
    made.add(line);
  });
  return made.done(value.safe);
}

/** Rounds half to even, as Python does. */
function round(value: TemplateValue, given: Arguments): TemplateValue {
  const [found, places] = [number(value), given.whole('precision', 0)];
  const method = given.text('method')?.text ?? 'common';
  if (!['common', 'ceil', 'floor'].includes(method)) throw new Error('method must be common, ceil or floor');
  if (found === undefined)
    throw new Error(
      value instanceof UndefinedValue ? value.what : `type ${typeName(value)} doesn't define __round__ method`,
    );
  const scale = 10 ** places;
  if (method !== 'common') return new Float((method === 'ceil' ? Math.ceil : Math.floor)(found * scale) / scale);
  if (!(value instanceof Float) && places >= 0) return found;
  const scaled = found * scale;
  const down = Math.floor(scaled);
  const even = scaled - down === 0.5 ? down + (down % 2) : Math.round(scaled);
  // Printing to that many places is exact where the product is not.
  const exact =
    places > 0 && places <= 100 && Math.abs(scaled - down - 0.5) > 1e-9 ? Number(found.toFixed(places)) : even / scale;
  return value instanceof Float ? new Float(exact) : exact;
}

function tojson(value: TemplateValue, given: Arguments, work: RenderWork): TemplateValue {
  const indent = given.get('indent') ?? null;
  const separators = given.get('separators') ?? null;
  const [item, key] = separators === null ? [] : iterate(separators, work);
  if (separators !== null && !(item instanceof TemplateText && key instanceof TemplateText))
    throw new Error('separators must be two texts');
  const by =
    indent === null
      ? undefined
      : indent instanceof TemplateText
        ? indent.text
        : repeat(work, new TemplateText(' '), whole(indent)).text;
  return json(
    value,
    {
      ascii: given.flag('ensure_ascii'),
      indent: by === undefined ? undefined : by,
      item: (item as TemplateText | undefined) ?? new TemplateText(by === undefined ? ', ' : ','),
      key: (key as TemplateText | undefined) ?? new TemplateText(': '),
      sorted: given.flag('sort_keys'),
    },
    work,
  );
}

function truncate(value: TemplateText, given: Arguments, work: RenderWork): TemplateValue {
  const [length, end] = [given.whole('length', 255), given.text('end') ?? new TemplateText('...')];
  const size = end.count(work);
  if (length < size) throw new Error(`expected length >= ${size}, got ${length}`);
  const leeway = given.get('leeway') ?? 5;
  if (value.count(work) <= length + whole(leeway)) return value;
  const kept = value.text.slice(0, value.begins(work)?.[length - size] ?? length - size);
  const cut = given.flag('killwords') ? kept.length : kept.includes(' ') ? kept.lastIndexOf(' ') : kept.length;
  return new TextBuilder(work).add(value.slice(0, cut)).add(end).done();
}

const FILTERS: Readonly<Record<string, FilterEntry>> = {
  ...listFilters,
  abs: [
    [],
    (value) => {
      const found = number(value);
      if (found === undefined) throw new Error(`bad operand type for abs(): '${typeName(value)}'`);
      return value instanceof Float ? new Float(Math.abs(found)) : Math.abs(found);
    },
  ],
  attr: [['name'], (value, given, work) => attributeOf(value, given.need('name'), work)],
  capitalize: [[], text((value, _, work) => capitalize(value, work).as(value.safe))],
  center: [
    ['width'],
    text((value, given, work) =>
      pad(value, given.whole('width', 80), new TemplateText(' '), 'both', work).as(value.safe),
    ),
  ],
  default: [
    ['default_value', 'boolean'],
    (value, given) =>
      value instanceof UndefinedValue || (given.flag('boolean') && !truthy(value))
        ? (given.get('default_value') ?? new TemplateText(''))
        : value,
  ],
  escape: [[], text((value, _, work) => escapeHtml(work, value))],
  forceescape: [[], text((value, _, work) => escapeHtml(work, value.as(false)))],
  float: [
    ['default'],
    (value, given) => {
      const found = asFloat(value);
      if (found !== undefined) return new Float(found);
      if (value instanceof UndefinedValue) throw new Error(value.what);
      return given.get('default') ?? new Float(0);
    },
  ],
  indent: [['width', 'first', 'blank'], indent],
  int: [['default', 'base'], toWhole],
  items: [
    [],
    (value) => {
      if (value instanceof UndefinedValue) return new Iter(() => []);
      if (!(value instanceof Dict)) throw new Error('Can only get item pairs from a mapping.');
      return new Iter(() => value.entries().map((entry) => new Tuple(entry)));
    },
  ],
  length: [
    [],
    (value, _, work) => {
      const size = value instanceof TemplateText ? value.count(work) : lengthOfValue(value);
      if (size !== undefined) return size;
      throw new Error(`object of type '${typeName(value)}' has no len()`);
    },
  ],
  lower: [[], text((value, _, work) => value.map(work, (part) => part.toLowerCase()))],
  upper: [[], text((value, _, work) => value.map(work, (part) => part.toUpperCase()))],
  replace: [
    ['old', 'new', 'count'],
    text((value, given, work) => {
      work.spend(value.text.length);
      const [old, by] = [given.need('old'), given.need('new')].map((one) => toText(one, work)) as [
        TemplateText,
        TemplateText,
      ];
      const count = given.get('count') ?? null;
      return replace(work, value, old.text, by, count === null ? -1 : whole(count));
    }),
  ],
  round: [['precision', 'method'], round],
  safe: [[], text((value) => value.as(true))],
  string: [[], text((value) => value)],
  title: [
    [],
    text((value, _, work) => {
      const made = new TextBuilder(work);
      let at = 0;
      for (const { 0: word, index } of value.text.matchAll(/[-\s({[<]+|[^-\s({[<]+/gu)) {
        made.add(capitalize(value.slice(index, index + word.length), work));
        at = index + word.length;
      }
      return made.add(value.slice(at)).done();
    }),
  ],
  tojson: [['ensure_ascii', 'indent', 'separators', 'sort_keys'], tojson],
  trim: [['chars'], text((value, given, work) => strip(value, given.text('chars'), 'both', work))],
  truncate: [
    ['length', 'killwords', 'end', 'leeway'],
    (value, given, work) => {
      if (value instanceof TemplateText) return truncate(value, given, work);
      if ((lengthOfValue(value) ?? Infinity) <= given.whole('length', 255)) return value;
      throw new Error(`object of type '${typeName(value)}' has no len()`);
    },
  ],
  wordcount: [
    [],
    text((value, _, work) => {
      work.spend(value.text.length);
      return value.text.match(/[\p{L}\p{N}_]+/gu)?.length ?? 0;
    }),
  ],
  join: [
    ['d', 'attribute'],
    (value, given, work) => {
      const by = given.get('d') ?? new TemplateText('');
      const attribute = given.get('attribute');
      const all = iterate(value, work).map((item) => (attribute == null ? item : path(item, attribute, work)));
      return join(
        work,
        toText(by, work),
        all.map((item) => toText(item, work)),
      );
    },
  ],
};

const NAMES: Readonly<Record<string, string>> = { count: 'length', d: 'default', e: 'escape' };

/** Filters that forward arguments to another filter, a test or a format. */
const VARIADIC: Readonly<
  Record<
    string,
    (value: TemplateValue, args: readonly TemplateValue[], keywords: Keywords, work: RenderWork) => TemplateValue
  >
> = {
  format: (value, args, keywords, work) => {
    const named = new Dict();
    for (const [name, one] of keywords) named.set(new TemplateText(name), one);
    return percent(toText(value, work), keywords.size > 0 ? named : new Tuple(args), work);
  },
  map: (value, args, keywords, work) => {
    const [name, ...rest] = args;
    const attribute = keywords.get('attribute');
    const otherwise = keywords.get('default');
    const each = (item: TemplateValue): TemplateValue => {
      if (attribute === undefined || args.length > 0) return filter(named(name, 'map'), item, rest, keywords, work);
      const found = path(item, attribute, work);
      return found instanceof UndefinedValue && otherwise !== undefined ? otherwise : found;
    };
    return chosen(value, work, (items) => items.map(each));
  },
  select: select(true, false),
  reject: select(false, false),
  selectattr: select(true, true),
  rejectattr: select(false, true),
};

function named(name: TemplateValue | undefined, of: string): string {
  if (name instanceof TemplateText) return name.text;
  throw new Error(`${of} requires a filter or test by name`);
}

function select(wanted: boolean, attribute: boolean) {
  return (value: TemplateValue, args: readonly TemplateValue[], _: Keywords, work: RenderWork): TemplateValue => {
    const rest = [...args];
    const field = attribute ? rest.shift() : undefined;
    if (attribute && field === undefined) throw new Error('Missing parameter for attribute name');
    const [name, ...than] = rest;
    const keeps = (item: TemplateValue): boolean => {
      const own = field === undefined ? item : path(item, field, work);
      return (name === undefined ? truthy(own) : test(named(name, 'select'), own, than, work)) === wanted;
    };
    return chosen(value, work, (items) => items.filter(keeps));
  };
}

/** Chooses from the items of a collection; a false value, None and undefined included, has no items. */
function chosen(
  value: TemplateValue,
  work: RenderWork,
  choose: (items: readonly TemplateValue[]) => readonly TemplateValue[],
): TemplateValue {
  return new Iter(() => (truthy(value) ? choose(iterate(value, work)) : []));
}

/** Applies a filter by name. @throws Error for an unknown filter */
export function filter(
  name: string,
  value: TemplateValue,
  args: readonly TemplateValue[],
  keywords: Keywords,
  work: RenderWork,
): TemplateValue {
  if (Object.hasOwn(VARIADIC, name)) return (VARIADIC[name] as (typeof VARIADIC)[string])(value, args, keywords, work);
  const own = Object.hasOwn(NAMES, name) ? (NAMES[name] as string) : name;
  if (!Object.hasOwn(FILTERS, own)) throw new Error(`No filter named '${name}'.`);
  const [names, apply] = FILTERS[own] as FilterEntry;
  return apply(value, new Arguments(name, names, args, keywords), work);
}

/** Returns whether a filter of that name exists. */
export const isFilter = (name: string): boolean =>
  Object.hasOwn(VARIADIC, name) || Object.hasOwn(NAMES, name) || Object.hasOwn(FILTERS, name);
