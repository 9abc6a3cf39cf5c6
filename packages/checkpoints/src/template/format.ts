import { whole } from './arguments.ts';
import { concat, repeat, TemplateText, TextBuilder } from './text.ts';
import {
  Dict,
  Float,
  floatText,
  number,
  repr,
  lengthOfValue,
  toText,
  Tuple,
  typeName,
  UndefinedValue,
  wholeText,
  type Keywords,
  type TemplateValue,
} from './values.ts';
import type { RenderWork } from './render-limit.ts';

/** Maximum width that a format may ask for: `{:999999999}`. */
const WIDEST = 2 ** 16;

const FIELD = /\{\{|\}\}|\{([^{}!:]*)(?:!([rsa]))?(?::([^{}]*))?\}|[{}]/g;

/** Python's `str.format`, without nested formats. @throws Error for a field that is not given */
export function format(
  form: TemplateText,
  args: readonly TemplateValue[],
  keywords: Keywords,
  work: RenderWork,
): TemplateText {
  const made = new TextBuilder(work);
  let [at, next] = [0, 0];
  for (const { 0: whole_, 1: name, 2: conversion, 3: spec, index } of form.text.matchAll(FIELD)) {
    work.spend(whole_.length);
    made.add(form.slice(at, index));
    at = index + whole_.length;
    if (whole_ === '{{' || whole_ === '}}') made.add(form.slice(index, index + 1));
    else if (name === undefined) throw new Error(`Single '${whole_}' encountered in format string`);
    else {
      const [key = '', ...rest] = name.split(/(?=[.[])/);
      const value = rest.reduce<TemplateValue>(
        (object, part) => part_(object, part),
        given(key === '' ? next++ : /^\d+$/.test(key) ? Number(key) : key, args, keywords),
      );
      const shown = conversion === undefined ? value : conversion === 's' ? toText(value, work) : reprOf(value, work);
      made.add(shape(shown, spec ?? '', work));
    }
  }
  return made.add(form.slice(at)).done();
}

function given(key: number | string, args: readonly TemplateValue[], keywords: Keywords): TemplateValue {
  const value = typeof key === 'number' ? args[key] : keywords.get(key);
  if (value !== undefined) return value;
  throw new Error(typeof key === 'number' ? `Replacement index ${key} out of range` : `no field '${key}'`);
}

function part_(object: TemplateValue, part: string): TemplateValue {
  const key = part.startsWith('[') ? part.slice(1, -1) : part.slice(1);
  const found = object instanceof Dict && part.startsWith('[') ? object.get(new TemplateText(key)) : undefined;
  if (found === undefined) throw new Error(`no field '${key}' in a form`);
  return found;
}

function reprOf(value: TemplateValue, work: RenderWork): TemplateText {
  const made = new TextBuilder(work);
  repr(value, made, work);
  return made.done();
}

const SPEC = /^(?:(.)?([<>^=]))?([+\- ]?)(#?)(0?)(\d*)([,_]?)(?:\.(\d+))?([a-zA-Z%]?)$/su;

/** Formats one value by `spec`. */
function shape(value: TemplateValue, spec: string, work: RenderWork): TemplateText {
  if (spec === '') return toText(value, work);
  const parts = SPEC.exec(spec);
  if (!parts) throw new Error(`Invalid format specifier '${spec.slice(0, 40)}'`);
  const [, fill, align, sign, , zero, width, group, precision, kind] = parts as unknown as (string | undefined)[];
  const found = number(value);
  if (Number(width ?? 0) > WIDEST || Number(precision ?? 0) > 100) throw new Error(`too wide a form '${spec}'`);
  let body: TemplateText;
  if (value instanceof TemplateText) {
    if (kind !== '' && kind !== 's') throw new Error(`Unknown format code '${kind}' for object of type 'str'`);
    body =
      precision === undefined ? value : value.slice(0, value.begins(work)?.[Number(precision)] ?? Number(precision));
  } else if (found !== undefined) {
    const digits = numberText(Math.abs(found), value instanceof Float, kind ?? '', precision, group ?? '');
    body = new TemplateText((found < 0 || Object.is(found, -0) ? '-' : sign === '-' ? '' : (sign ?? '')) + digits);
  } else throw new Error(`unsupported format string passed to ${typeName(value)}.__format__`);
  const missing = Math.max(0, Number(width ?? 0) - body.count(work));
  const how = align ?? (found === undefined ? '<' : zero ? '=' : '>');
  const filler = new TemplateText(fill ?? (zero ? '0' : ' '));
  if (how === '=') {
    const signs = /^[+\- ]/.test(body.text) ? 1 : 0;
    return concat(work, body.slice(0, signs), repeat(work, filler, missing), body.slice(signs));
  }
  const before = how === '<' ? 0 : how === '>' ? missing : Math.floor(missing / 2);
  return concat(work, repeat(work, filler, before), body, repeat(work, filler, missing - before));
}

/** Formats a non-negative number in digits. */
function numberText(value: number, float: boolean, kind: string, precision: string | undefined, group: string): string {
  const places = precision === undefined ? 6 : Number(precision);
  const grouped = (text: string): string => {
    if (group === '') return text;
    const [digits = '', rest] = text.split('.');
    const cut = digits.replace(/\B(?=(\d{3})+$)/g, group);
    return rest === undefined ? cut : `${cut}.${rest}`;
  };
  switch (kind) {
    case 'd':
    case 'n':
      if (float) throw new Error(`Unknown format code '${kind}' for object of type 'float'`);
      return grouped(wholeText(value));
    case 'x':
      return value.toString(16);
    case 'X':
      return value.toString(16).toUpperCase();
    case 'o':
      return value.toString(8);
    case 'b':
      return value.toString(2);
    case 'f':
    case 'F':
      return grouped(value.toFixed(places));
    case '%':
      return `${(value * 100).toFixed(places)}%`;
    case 'e':
    case 'E': {
      const [digits, power] = value.toExponential(places).split('e') as [string, string];
      return `${digits}${kind}${power.slice(0, 1)}${power.slice(1).padStart(2, '0')}`;
    }
    case '':
      if (precision === undefined) return grouped(float ? floatText(value) : wholeText(value));
  }
  throw new Error(`a number in the form '${kind}'`);
}

const PERCENT = /%(?:\(([^()]{0,256})\))?([-+ 0#]*)([1-9]\d*)?(?:\.(\d+))?([a-zA-Z%])/g;

/** Python's `%` on a string. @throws Error for fewer or more values than the format has */
export function percent(form: TemplateText, values: TemplateValue, work: RenderWork): TemplateText {
  const made = new TextBuilder(work);
  const list = values instanceof Tuple ? values.items : [values];
  let [at, next, named] = [0, 0, false];
  for (const { 0: all, 1: name, 2: flags = '', 3: width = '', 4: precision, 5: kind, index } of form.text.matchAll(
    PERCENT,
  )) {
    work.spend(all.length);
    made.add(form.slice(at, index));
    at = index + all.length;
    if (kind === '%') {
      made.add('%');
      continue;
    }
    named ||= name !== undefined;
    const value =
      name === undefined ? list[next++] : values instanceof Dict ? values.get(new TemplateText(name)) : undefined;
    if (value === undefined) throw new Error('not enough arguments for format string');
    const align = flags.includes('-') ? '<' : flags.includes('0') ? '' : '>';
    const size = `${flags.includes('+') ? '+' : ''}${flags.includes('0') && align === '' ? '0' : ''}${width}`;
    if (kind === 's' || kind === 'r')
      made.add(
        shape(
          kind === 's' ? toText(value, work) : reprOf(value, work),
          `${align || '>'}${width}${precision === undefined ? '' : `.${precision}`}`,
          work,
        ),
      );
    else {
      const found = number(value);
      if (found === undefined)
        throw new Error(
          value instanceof UndefinedValue
            ? value.what
            : `%${kind} format: a real number is required, not ${typeName(value)}`,
        );
      if (kind === 'd' || kind === 'i') made.add(shape(Math.trunc(found), `${align}${size}d`, work));
      else if (kind === 'x' || kind === 'X' || kind === 'o')
        made.add(shape(whole(value), `${align}${size}${kind}`, work));
      else if (kind === 'f' || kind === 'F' || kind === 'e' || kind === 'E')
        made.add(shape(new Float(found), `${align}${size}.${precision ?? 6}${kind}`, work));
      else throw new Error(`unsupported format character '${kind}'`);
    }
  }
  if (
    !named &&
    next < list.length &&
    (values instanceof Tuple || values instanceof TemplateText || lengthOfValue(values) === undefined)
  )
    throw new Error('not all arguments converted during string formatting');
  return made.add(form.slice(at)).done();
}
