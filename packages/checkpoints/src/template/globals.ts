import { MarkedText } from '../chat/marked-text.ts';
import { numberSource } from '../read/json-numbers.ts';
import { Arguments, whole } from './arguments.ts';
import { TemplateText } from './text.ts';
import {
  Callable,
  Dict,
  Float,
  iterate,
  Namespace,
  RangeValue,
  lengthOfValue,
  toText,
  type Keywords,
  type TemplateValue,
} from './values.ts';
import type { RenderWork } from './render-limit.ts';

/** Maximum items of a range, which Jinja's sandbox bounds too, and characters of a date format. */
const LIMITS = { range: 100_000, date: 2 ** 8 } as const;

/** Returns the globals of transformers' Jinja environment; `refuse` receives the message of `raise_exception`. */
export function globals(work: RenderWork, refuse: (message: string) => never): Map<string, TemplateValue> {
  const functions: readonly Callable[] = [
    new Callable('range', range),
    new Callable('dict', (args, keywords) => dict(args, keywords, work)),
    new Callable('namespace', (args, keywords) => {
      const made = new Namespace();
      for (const [key, value] of dict(args, keywords, work).entries()) {
        const name = toText(key, work).text;
        if (name.startsWith('_')) throw new Error(`a namespace takes no field '${name.slice(0, 60)}'`);
        made.fields.set(name, value);
      }
      return made;
    }),
    new Callable('joiner', (args, keywords) => {
      const by = new Arguments('joiner', ['sep'], args, keywords).get('sep') ?? new TemplateText(', ');
      let used = false;
      return new Callable('joiner', () => {
        const before = used;
        used = true;
        return before ? by : new TemplateText('');
      });
    }),
    new Callable('cycler', (items) => {
      let at = -1;
      if (items.length === 0) throw new Error('at least one item has to be provided');
      const next = new Callable('next', () => items[++at % items.length] as TemplateValue);
      return new Callable('cycler', next.call, new Map([['next', next]]));
    }),
    new Callable('strftime_now', ([form]) => new TemplateText(strftime(new Date(), form))),
    new Callable('raise_exception', ([message]) =>
      refuse(
        message === undefined || (lengthOfValue(message) !== undefined && !(message instanceof TemplateText))
          ? 'a list or a map'
          : toText(message, work).text,
      ),
    ),
  ];
  return new Map(functions.map((one) => [one.name, one]));
}

function range(args: readonly TemplateValue[]): TemplateValue {
  const [first, second, third] = args.map(whole);
  if (first === undefined || args.length > 3) throw new Error(`range expected 1 to 3 arguments, got ${args.length}`);
  if (third === 0) throw new Error('range() arg 3 must not be zero');
  const made = new RangeValue(second === undefined ? 0 : first, second ?? first, third ?? 1);
  if (made.length > LIMITS.range) throw new Error(`a range of ${made.length} items`);
  return made;
}

function dict([from, ...more]: readonly TemplateValue[], keywords: Keywords, work: RenderWork): Dict {
  if (more.length > 0) throw new Error(`dict expected at most 1 argument, got ${more.length + 1}`);
  const made = new Dict();
  if (from instanceof Dict) for (const [key, value] of from.entries()) made.set(key, value);
  else if (from !== undefined)
    for (const pair of iterate(from, work)) {
      const [key, value, ...rest] = iterate(pair, work);
      if (key === undefined || value === undefined || rest.length > 0)
        throw new Error('dictionary update sequence takes pairs');
      made.set(key, value);
    }
  for (const [key, value] of keywords) made.set(new TemplateText(key), value);
  return made;
}

function strftime(now: Date, form: TemplateValue | undefined): string {
  if (!(form instanceof TemplateText) || form.text.length > LIMITS.date)
    throw new Error(`a date in a form of other than ${LIMITS.date} characters at most`);
  const digits = (number: number, count = 2): string => String(number).padStart(count, '0');
  const english = (options: Intl.DateTimeFormatOptions): string => now.toLocaleDateString('en-US', options);
  const day = Math.round(
    (new Date(now.getFullYear(), now.getMonth(), now.getDate(), 12).getTime() -
      new Date(now.getFullYear(), 0, 1, 12).getTime()) /
      86_400_000,
  );
  const parts: Readonly<Record<string, () => string>> = {
    d: () => digits(now.getDate()),
    m: () => digits(now.getMonth() + 1),
    y: () => digits(now.getFullYear() % 100),
    Y: () => String(now.getFullYear()),
    H: () => digits(now.getHours()),
    I: () => digits(now.getHours() % 12 || 12),
    M: () => digits(now.getMinutes()),
    S: () => digits(now.getSeconds()),
    p: () => (now.getHours() < 12 ? 'AM' : 'PM'),
    b: () => english({ month: 'short' }),
    B: () => english({ month: 'long' }),
    a: () => english({ weekday: 'short' }),
    A: () => english({ weekday: 'long' }),
    j: () => digits(day + 1, 3),
    w: () => String(now.getDay()),
    F: () => `${now.getFullYear()}-${digits(now.getMonth() + 1)}-${digits(now.getDate())}`,
    T: () => `${digits(now.getHours())}:${digits(now.getMinutes())}:${digits(now.getSeconds())}`,
    '%': () => '%',
  };
  // `-` leaves out leading zeros, as in the C library of Linux.
  return form.text.replace(/%(-?)([a-zA-Z%])/g, (all, bare: string, letter: string) => {
    const part = parts[letter]?.();
    return part === undefined ? all : bare === '' ? part : part.replace(/^0+(?=\d)/, '');
  });
}

/** Roles that belong to the protocol: some templates make a control token of one. */
const ROLES: readonly string[] = ['system', 'developer', 'user', 'assistant', 'tool', 'function', 'ipython', 'model'];

/** Converts messages; all their text counts as coming from the conversation, except the protocol's roles. */
export function givenMessages(messages: readonly unknown[]): TemplateValue {
  return messages.map((message) => {
    const made = fromConversation(message);
    const role = made instanceof Dict ? made.get(new TemplateText('role')) : undefined;
    if (role instanceof TemplateText && ROLES.includes(role.text))
      (made as Dict).set(new TemplateText('role'), new TemplateText(role.text));
    return made;
  });
}

/** Converts a JSON value; its texts count as coming from the conversation. @throws Error for what JSON cannot hold */
export function fromConversation(value: unknown): TemplateValue {
  if (value === null || typeof value === 'boolean') return value;
  if (typeof value === 'string') return TemplateText.given(value);
  if (typeof value === 'number') return Number.isInteger(value) ? value : new Float(value);
  const within = (key: string, inner: unknown): TemplateValue =>
    typeof inner === 'number' ? numberOf(inner, numberSource(value as object, key)) : fromConversation(inner);
  if (Array.isArray(value)) return value.map((inner, i) => within(String(i), inner));
  if (value instanceof MarkedText) return marked(value);
  if (typeof value !== 'object') throw new Error(`a conversation with a ${typeof value} in it`);
  const dict = new Dict();
  for (const [name, inner] of Object.entries(value))
    if (inner !== undefined) dict.set(TemplateText.given(name), within(name, inner));
  return dict;
}

/** Returns a number as Python reads it from JSON: `1.0` is no integer, and an integer has all of its digits. */
function numberOf(value: number, source: string | undefined): TemplateValue {
  if (source === undefined) return fromConversation(value);
  if (/[.eE]/.test(source)) return new Float(value);
  return Number.isSafeInteger(value) ? value : new Float(value, source);
}

function marked({ parts }: MarkedText): TemplateText {
  const spans: number[] = [];
  let text = '';
  for (const part of parts) {
    if (typeof part === 'string' && part !== '') spans.push(text.length, text.length + part.length);
    text += typeof part === 'string' ? part : part.mark;
  }
  return new TemplateText(text, spans);
}

/** Converts a list of function signatures; undefined becomes None. */
export const givenTools = (tools: readonly unknown[] | undefined): TemplateValue =>
  tools === undefined ? null : fromConversation(tools);
