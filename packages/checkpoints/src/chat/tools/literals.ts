import { KvError } from '@kv/core';
import type { Incoming, Reading } from './incoming.ts';

/** How a format that is not JSON writes values. */
export interface Literals {
  /** Name of the format, for errors. */
  readonly format: string;
  /** Texts around a string, the first of which is written. */
  readonly quotes: readonly string[];
  /** Whether a backslash escapes in strings. */
  readonly escapes: boolean;
  /** Whether keys of objects are written without quotes. */
  readonly bareKeys: boolean;
  /** Whether properties are written in the order of their names, without regard to case. */
  readonly sorted: boolean;
  /** What is written between two items, and after a key. */
  readonly comma: string;
  readonly colon: string;
  /** What `true`, `false` and `null` are written as; others may come. */
  readonly words: readonly [readonly string[], readonly string[], readonly string[]];
}

/** Python's literals, in which LFM2 writes arguments. */
export const PYTHON: Literals = {
  format: 'lfm2',
  quotes: ['"', "'"],
  escapes: true,
  bareKeys: false,
  sorted: false,
  comma: ', ',
  colon: ': ',
  words: [
    ['True', 'true'],
    ['False', 'false'],
    ['None', 'null'],
  ],
};

/** Gemma 4's values: strings between special tokens, keys without quotes. */
export const GEMMA: Literals = {
  format: 'gemma4',
  quotes: ['<|"|>'],
  escapes: false,
  bareKeys: true,
  sorted: true,
  comma: ',',
  colon: ':',
  words: [['true'], ['false'], ['null', 'None']],
};

/** JSON as Python writes it. */
export const JSON_VALUES: Literals = { ...PYTHON, format: 'json', quotes: ['"'], words: GEMMA.words };

/** Writes a value. @throws KvError for a string that the format cannot write */
export function writeLiteral(value: unknown, form: Literals, where: string): string {
  const { words, comma, colon, quotes, escapes, format, bareKeys } = form,
    within = (one: unknown): string => writeLiteral(one, form, where);
  if (value === true || value === false || value === null)
    return words[value === true ? 0 : value === false ? 1 : 2][0] as string;
  if (typeof value === 'number') return JSON.stringify(value);
  if (typeof value === 'string') {
    if (escapes) return JSON.stringify(value);
    if (value.includes('<|'))
      throw new KvError(where, `the format ${format} of this model cannot write ${JSON.stringify(value.slice(0, 60))}`);
    return `${quotes[0]}${value}${quotes[0]}`;
  }
  if (Array.isArray(value)) return `[${value.map(within).join(comma)}]`;
  const fields = Object.entries(value as object).map(
    ([name, one]) => `${bareKeys ? name : JSON.stringify(name)}${colon}${within(one)}`,
  );
  return `{${fields.join(comma)}}`;
}

/** Nesting of values at most. */
const DEEPEST = 64;
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/;
const WORDS: Readonly<Record<string, string>> = {
  ...{ true: 'true', false: 'false', null: 'null' },
  ...{ True: 'true', False: 'false', None: 'null' },
};

/** Reads a value and returns it as JSON text; undefined if it is none. */
export function* literalAsJson(input: Incoming, form: Literals, depth = 0): Reading<string | undefined> {
  if (depth > DEEPEST) return undefined;
  const first = yield* input.peek();
  if (first === '[') return yield* listAsJson(input, ['[', ']'], () => literalAsJson(input, form, depth + 1));
  if (first === '{') return yield* listAsJson(input, ['{', '}'], () => fieldAsJson(input, form, depth + 1));
  const text = yield* stringAsJson(input, form);
  if (text !== undefined) return text;
  const word = yield* input.all(/[-+.\w]/);
  return WORDS[word] ?? (NUMBER.test(word) ? word : undefined);
}

/** Reads items between two brackets, and returns them with the brackets. */
export function* listAsJson(
  input: Incoming,
  [open, close]: readonly [string, string],
  item: () => Reading<string | undefined>,
): Reading<string | undefined> {
  let made = open;
  if (!(yield* input.literal(open))) return undefined;
  yield* input.space();
  if ((yield* input.peek()) === close) return (yield* input.literal(close)) ? open + close : undefined;
  for (;;) {
    const one = yield* item();
    if (one === undefined) return undefined;
    made += one;
    yield* input.space();
    if ((yield* input.peek()) === close) return (yield* input.literal(close)) ? made + close : undefined;
    if (!(yield* input.literal(','))) return undefined;
    made += ',';
    yield* input.space();
  }
}

function* fieldAsJson(input: Incoming, form: Literals, depth: number): Reading<string | undefined> {
  const key =
    (yield* stringAsJson(input, form)) ??
    (form.bareKeys ? JSON.stringify(yield* input.all(/[^:{}[\],\s]/)) : undefined);
  yield* input.space();
  if (key === undefined || !(yield* input.literal(':'))) return undefined;
  yield* input.space();
  const value = yield* literalAsJson(input, form, depth);
  return value === undefined ? undefined : `${key}:${value}`;
}

/** Reads a string, if one begins here. */
function* stringAsJson(input: Incoming, { quotes, escapes }: Literals): Reading<string | undefined> {
  const first = yield* input.peek(),
    quote = quotes.find((one) => one.startsWith(first));
  if (first === '' || quote === undefined || !(yield* input.literal(quote))) return undefined;
  let text = '';
  for (;;) {
    const mark: string | undefined = yield* input.until(escapes ? [quote, '\\'] : [quote], (part) => {
      text += part;
    });
    if (mark === quote) return JSON.stringify(text);
    if (mark === undefined) return undefined;
    const escaped = yield* escapeOf(input);
    if (escaped === undefined) return undefined;
    text += escaped;
  }
}

const ESCAPES: Readonly<Record<string, string>> = {
  ...{ n: '\n', r: '\r', t: '\t', b: '\b', f: '\f', v: '\v', a: '\x07', '0': '\0' },
  ...{ '\\': '\\', '"': '"', "'": "'", '/': '/', '\n': '' },
};
const DIGITS: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

/** Reads what follows a backslash, as Python does: what escapes nothing stays as it is. */
function* escapeOf(input: Incoming): Reading<string | undefined> {
  const char = yield* input.take(() => 'last'),
    digits = DIGITS[char];
  if (digits === undefined) return ESCAPES[char] ?? (char === '' ? undefined : `\\${char}`);
  let left: number = digits;
  const code = yield* input.take((one) => (!/[\da-fA-F]/.test(one) ? 'stop' : --left === 0 ? 'last' : 'take'));
  if (code.length !== digits) return undefined;
  const point = Number.parseInt(code, 16);
  return point <= 0x10_ff_ff ? String.fromCodePoint(point) : undefined;
}
