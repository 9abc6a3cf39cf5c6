import type { Arguments } from './arguments.ts';
import type { Filter, FilterEntry } from './filter.ts';
import { path } from './lookup.ts';
import { operate } from './operators.ts';
import { join, TemplateText } from './text.ts';
import {
  compare,
  Dict,
  equal,
  GroupTuple,
  hash,
  Iter,
  iterate,
  lengthOfValue,
  Tuple,
  typeName,
  UndefinedValue,
  type TemplateValue,
} from './values.ts';
import type { RenderWork } from './render-limit.ts';

/** Lower-cases a value, unless case counts. */
const folded = (value: TemplateValue, given: Arguments): TemplateValue =>
  value instanceof TemplateText && !given.flag('case_sensitive') ? new TemplateText(value.text.toLowerCase()) : value;

/** Returns the sort or group key of an item: the named field, or the item itself if none is named. */
function key(item: TemplateValue, given: Arguments, work: RenderWork): TemplateValue {
  const attribute = given.get('attribute') ?? null;
  if (attribute instanceof TemplateText && attribute.text.includes(','))
    return attribute.text.split(',').map((one) => folded(path(item, new TemplateText(one.trim()), work), given));
  return folded(attribute === null ? item : path(item, attribute, work), given);
}

/** Sorts items by their keys; the sort is stable. */
function sorted(
  items: readonly TemplateValue[],
  by: (item: TemplateValue) => TemplateValue,
  reverse: boolean,
  work: RenderWork,
): TemplateValue[] {
  const keyed = items.map((item) => [by(item), item] as const);
  keyed.sort(([a], [b]) => (reverse ? compare(b, a, work) : compare(a, b, work)));
  return keyed.map(([, item]) => item);
}

const end =
  (wanted: (order: number) => boolean): Filter =>
  (value, given, work) => {
    const [first, ...rest] = iterate(value, work);
    if (first === undefined) return new UndefinedValue('No aggregated item, sequence was empty.');
    return rest.reduce(
      (best, item) => (wanted(compare(key(item, given, work), key(best, given, work), work)) ? item : best),
      first,
    );
  };

function dictsort(value: TemplateValue, given: Arguments, work: RenderWork): TemplateValue {
  if (!(value instanceof Dict)) throw new Error(`'${typeName(value)}' object has no attribute 'items'`);
  const by = given.text('by')?.text ?? 'key';
  if (by !== 'key' && by !== 'value') throw new Error("You can only sort by either 'key' or 'value'");
  const pairs = value.entries().map((entry) => new Tuple(entry));
  const item = (pair: TemplateValue): TemplateValue =>
    folded((pair as Tuple).items[by === 'key' ? 0 : 1] as TemplateValue, given);
  return sorted(pairs, item, given.flag('reverse'), work);
}

function unique(value: TemplateValue, given: Arguments, work: RenderWork): TemplateValue {
  return new Iter(() => {
    const seen = new Set<unknown>();
    return iterate(value, work).filter((item) => {
      const own = hash(key(item, given, work));
      return !seen.has(own) && seen.add(own);
    });
  });
}

function groupby(value: TemplateValue, given: Arguments, work: RenderWork): TemplateValue {
  const otherwise = given.get('default');
  const own = (item: TemplateValue): TemplateValue => {
    const found = path(item, given.need('attribute'), work);
    return found instanceof UndefinedValue && otherwise !== undefined ? otherwise : found;
  };
  const groups: { key: TemplateValue; grouper: TemplateValue; items: TemplateValue[] }[] = [];
  for (const item of sorted(iterate(value, work), (one) => folded(own(one), given), false, work)) {
    const at = folded(own(item), given);
    const last = groups.at(-1);
    if (last !== undefined && equal(last.key, at, work)) last.items.push(item);
    else groups.push({ key: at, grouper: own(item), items: [item] });
  }
  return groups.map(({ grouper, items }) => new GroupTuple([grouper, items]));
}

function batch(value: TemplateValue, given: Arguments, work: RenderWork): TemplateValue {
  return new Iter(() => {
    const [items, count, fill] = [iterate(value, work), given.whole('linecount', 1), given.get('fill_with') ?? null];
    if (count < 1) throw new Error('batch() takes a count of at least 1');
    work.made(items.length + count);
    const rows = Array.from({ length: Math.ceil(items.length / count) }, (_, i) =>
      items.slice(i * count, (i + 1) * count),
    );
    const last = rows.at(-1);
    if (last !== undefined && fill !== null) while (last.length < count) last.push(fill);
    return rows;
  });
}

function slices(value: TemplateValue, given: Arguments, work: RenderWork): TemplateValue {
  return new Iter(() => {
    const [items, count, fill] = [iterate(value, work), given.whole('slices', 1), given.get('fill_with') ?? null];
    if (count < 1) throw new Error('slice() takes a count of at least 1');
    work.made(items.length + count);
    const [each, more] = [Math.floor(items.length / count), items.length % count];
    return Array.from({ length: count }, (_, i) => {
      const from = i * each + Math.min(i, more);
      const row = items.slice(from, from + each + (i < more ? 1 : 0));
      return fill !== null && i >= more ? [...row, fill] : row;
    });
  });
}

function sum(value: TemplateValue, given: Arguments, work: RenderWork): TemplateValue {
  const attribute = given.get('attribute') ?? null;
  const items = iterate(value, work).map((item) => (attribute === null ? item : path(item, attribute, work)));
  const start = given.get('start') ?? 0;
  if (start instanceof TemplateText) throw new Error("sum() can't sum strings [use ''.join(seq) instead]");
  return items.reduce((total, item) => operate('+', total, item, work), start);
}

/** Jinja's filters of collections. */
export const listFilters: Readonly<Record<string, FilterEntry>> = {
  batch: [['linecount', 'fill_with'], batch],
  dictsort: [['case_sensitive', 'by', 'reverse'], dictsort],
  first: [
    [],
    (value, _, work) => {
      const [item] = iterate(value, work);
      return item === undefined ? new UndefinedValue('No first item, sequence was empty.') : item;
    },
  ],
  last: [
    [],
    (value, _, work) => {
      if (value instanceof Iter) throw new Error("'generator' object is not reversible");
      const item = iterate(value, work).at(-1);
      return item === undefined ? new UndefinedValue('No last item, sequence was empty.') : item;
    },
  ],
  groupby: [['attribute', 'default', 'case_sensitive'], groupby],
  list: [[], (value, _, work) => [...iterate(value, work)]],
  max: [['case_sensitive', 'attribute'], end((order) => order > 0)],
  min: [['case_sensitive', 'attribute'], end((order) => order < 0)],
  reverse: [
    [],
    (value, _, work) => {
      if (lengthOfValue(value) === undefined && !(value instanceof Iter)) throw new Error('argument must be iterable');
      const items = [...iterate(value, work)].reverse();
      return value instanceof TemplateText ? join(work, '', items as TemplateText[]) : new Iter(() => items);
    },
  ],
  slice: [['slices', 'fill_with'], slices],
  sort: [
    ['reverse', 'case_sensitive', 'attribute'],
    (value, given, work) => sorted(iterate(value, work), (item) => key(item, given, work), given.flag('reverse'), work),
  ],
  sum: [['attribute', 'start'], sum],
  unique: [['case_sensitive', 'attribute'], unique],
};
