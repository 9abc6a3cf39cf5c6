import { Arguments, whole } from './arguments.ts';
import { format } from './format.ts';
import { join, repeat, replace, TemplateText, concat } from './text.ts';
import {
  Callable,
  Dict,
  equal,
  iterate,
  Tuple,
  typeName,
  DictView,
  type Keywords,
  type TemplateValue,
} from './values.ts';
import type { RenderWork } from './render-limit.ts';

type Method<T> = (self: T, args: readonly TemplateValue[], keywords: Keywords, work: RenderWork) => TemplateValue;

/**
 * Returns a method that a template may call, or undefined if there is none.
 * @throws Error for one that mutates the value
 */
export function methodOf(value: TemplateValue, name: string, work: RenderWork): Callable | undefined {
  const bind = <T>(methods: ReadonlyMap<string, Method<T>>, self: T): Callable | undefined => {
    const method = methods.get(name);
    return method && new Callable(name, (args, keywords) => method(self, args, keywords, work));
  };
  if (value instanceof TemplateText) return bind(TEXT, value);
  const changes = value instanceof Dict ? DICT_CHANGES : Array.isArray(value) ? LIST_CHANGES : [];
  if (changes.includes(name))
    return new Callable(name, () => {
      throw new Error(`${typeName(value)}.${name}() is not allowed: a template may not change what it is given`);
    });
  if (value instanceof Dict) return bind(DICT, value);
  if (Array.isArray(value)) return bind(LIST, value as readonly TemplateValue[]);
  return value instanceof Tuple ? bind(LIST, value.items) : undefined;
}

const DICT_CHANGES: readonly string[] = ['clear', 'pop', 'popitem', 'setdefault', 'update'];
const LIST_CHANGES: readonly string[] = ['append', 'clear', 'pop', 'reverse', 'insert', 'sort', 'extend', 'remove'];

const DICT = new Map<string, Method<Dict>>([
  [
    'get',
    (self, args, keywords) => {
      const given = new Arguments('get', ['key', 'default'], args, keywords);
      const found = self.get(given.need('key'));
      return found === undefined ? (given.get('default') ?? null) : found;
    },
  ],
  [
    'keys',
    (self) =>
      new DictView(
        'keys',
        self.entries().map(([key]) => key),
      ),
  ],
  [
    'values',
    (self) =>
      new DictView(
        'values',
        self.entries().map(([, value]) => value),
      ),
  ],
  [
    'items',
    (self) =>
      new DictView(
        'items',
        self.entries().map((entry) => new Tuple(entry)),
      ),
  ],
  [
    'copy',
    (self) => {
      const copy = new Dict();
      for (const [key, value] of self.entries()) copy.set(key, value);
      return copy;
    },
  ],
]);

const LIST = new Map<string, Method<readonly TemplateValue[]>>([
  ['copy', (self) => self],
  ['count', (self, [item], _, work) => self.filter((one) => equal(one, item ?? null, work)).length],
  [
    'index',
    (self, [item], _, work) => {
      const at = self.findIndex((one) => equal(one, item ?? null, work));
      if (at < 0) throw new Error('a value is not in the list');
      return at;
    },
  ],
]);

/** White space as Python defines it. */
const SPACE = /[\s\x1c-\x1f\x85]/u;
const isSpace = (char: string): boolean => char !== '\ufeff' && SPACE.test(char);

/** Strips characters of `chars` from the ends; white space if none are given. */
export function strip(
  text: TemplateText,
  chars: TemplateText | undefined,
  ends: 'both' | 'left' | 'right',
  work: RenderWork,
): TemplateText {
  work.spend(text.text.length);
  const own = chars && new Set(chars.text);
  const at = text.begins(work);
  const unit = (i: number): number => at?.[i] ?? i;
  const goes = (i: number): boolean => {
    const char = text.text.slice(unit(i), unit(i + 1));
    return own ? own.has(char) : isSpace(char);
  };
  let [from, to] = [0, (at?.length ?? text.text.length + 1) - 1];
  if (ends !== 'right') while (from < to && goes(from)) from++;
  if (ends !== 'left') while (to > from && goes(to - 1)) to--;
  return text.slice(unit(from), unit(to));
}

/** Python's `str.split` and `rsplit`. */
function split(
  text: TemplateText,
  by: TemplateText | undefined,
  most: number,
  fromRight: boolean,
  work: RenderWork,
): TemplateText[] {
  work.spend(text.text.length);
  const cuts: [number, number][] = [];
  if (by === undefined)
    for (const { 0: run, index } of text.text.matchAll(/[^\S\ufeff]+|[\x1c-\x1f\x85]+/gu)) {
      const last = cuts.at(-1);
      if (last !== undefined && last[1] === index) last[1] = index + run.length;
      else cuts.push([index, index + run.length]);
    }
  else if (by.text === '') throw new Error('empty separator');
  else
    for (let at = text.text.indexOf(by.text); at >= 0; at = text.text.indexOf(by.text, at + by.text.length))
      cuts.push([at, at + by.text.length]);
  if (by !== undefined && fromRight) {
    cuts.length = 0;
    for (let end = text.text.length; ; ) {
      const at = end < by.text.length ? -1 : text.text.lastIndexOf(by.text, end - by.text.length);
      if (at < 0) break;
      cuts.push([at, at + by.text.length]);
      end = at;
    }
    cuts.reverse();
  }
  let [from, to] = [0, text.text.length];
  if (by === undefined) {
    // White space at an end is dropped, unless it belongs to the remainder after the last allowed split.
    const goes = (near: boolean): boolean => near || most < 0 || cuts.length <= most;
    const start = (): void => {
      if (cuts[0]?.[0] === 0 && goes(!fromRight)) from = (cuts.shift() as [number, number])[1];
    };
    const end = (): void => {
      if (cuts.at(-1)?.[1] === to && goes(fromRight)) to = (cuts.pop() as [number, number])[0];
    };
    for (const drop of fromRight ? [end, start] : [start, end]) drop();
    if (from >= to) return [];
  }
  const used = most < 0 ? cuts : fromRight ? cuts.slice(Math.max(0, cuts.length - most)) : cuts.slice(0, most);
  work.made(used.length);
  const parts: TemplateText[] = [];
  for (const [start, end] of used) {
    parts.push(text.slice(from, start));
    from = end;
  }
  parts.push(text.slice(from, to));
  return parts;
}

/** Splits lines as Python does, without their line ends unless `keep`. */
export function lines(text: TemplateText, keep: boolean, work: RenderWork): TemplateText[] {
  work.spend(text.text.length);
  const found: TemplateText[] = [];
  let from = 0;
  for (const { 0: end, index } of text.text.matchAll(/\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/g)) {
    found.push(text.slice(from, keep ? index + end.length : index));
    from = index + end.length;
  }
  if (from < text.text.length) found.push(text.slice(from));
  work.made(found.length);
  return found;
}

/** Capitalises the first letter and lower-cases the rest. */
export function capitalize(text: TemplateText, work: RenderWork): TemplateText {
  const first = text.text === '' ? 0 : (text.text.codePointAt(0) as number) > 0xffff ? 2 : 1;
  const up = text.slice(0, first).map(work, (part) => part.toUpperCase());
  return concat(
    work,
    up,
    text.slice(first).map(work, (part) => part.toLowerCase()),
  );
}

/** Python's `str.title`: letters that follow letters are small, all others capitals. */
function title(text: TemplateText, work: RenderWork): TemplateText {
  return text.map(work, (part) =>
    part.replace(/(\p{L})(\p{L}*)/gu, (_, first: string, rest: string) => first.toUpperCase() + rest.toLowerCase()),
  );
}

/** Pads to `width` characters, at one end or around the middle. */
export function pad(
  text: TemplateText,
  width: number,
  fill: TemplateText,
  side: 'left' | 'right' | 'both',
  work: RenderWork,
): TemplateText {
  const missing = Math.max(0, width - text.count(work));
  if (fill.count(work) !== 1) throw new Error('The fill character must be exactly one character long');
  const before = side === 'right' ? missing : side === 'left' ? 0 : Math.floor(missing / 2) + (missing & width & 1);
  return concat(work, repeat(work, fill, before), text, repeat(work, fill, missing - before));
}

const spaced =
  (side: 'left' | 'right' | 'both', name: string): Method<TemplateText> =>
  (self, args, keywords, work) => {
    const given = new Arguments(name, ['width', 'fillchar'], args, keywords);
    return pad(self, whole(given.need('width')), given.text('fillchar') ?? new TemplateText(' '), side, work);
  };

const stripped =
  (ends: 'both' | 'left' | 'right', name: string): Method<TemplateText> =>
  (self, args, keywords, work) =>
    strip(self, new Arguments(name, ['chars'], args, keywords).text('chars'), ends, work);

const cut =
  (fromRight: boolean, name: string): Method<TemplateText> =>
  (self, args, keywords, work) => {
    const given = new Arguments(name, ['sep', 'maxsplit'], args, keywords);
    return split(self, given.text('sep'), given.whole('maxsplit', -1), fromRight, work);
  };

const affix =
  (name: 'startsWith' | 'endsWith'): Method<TemplateText> =>
  (self, [affixes, from, to], _, work) => {
    const part = span(self, from, to, work);
    const all = affixes instanceof Tuple ? affixes.items : [affixes as TemplateValue];
    return all.some((one) => {
      if (!(one instanceof TemplateText))
        throw new Error(`${name.toLowerCase()} first arg must be str or a tuple of str`);
      work.spend(1);
      return part[name](one.text);
    });
  };

function span(
  self: TemplateText,
  from: TemplateValue | undefined,
  to: TemplateValue | undefined,
  work: RenderWork,
): string {
  if (from === undefined) return self.text;
  work.spend(self.text.length);
  const end = to == null ? undefined : whole(to);
  return [...self.text].slice(from === null ? 0 : whole(from), end).join('');
}

/** Returns the index of a text in another, in characters; -1 if it does not occur. */
const found =
  (last: boolean, needed: boolean): Method<TemplateText> =>
  (self, [part, from, to], _, work) => {
    if (!(part instanceof TemplateText)) throw new Error('must be str');
    work.spend(self.text.length);
    const within = span(self, from, to, work);
    const at = last ? within.lastIndexOf(part.text) : within.indexOf(part.text);
    if (at < 0 && needed) throw new Error('substring not found');
    const begin = from == null ? 0 : whole(from);
    return at < 0
      ? -1
      : new TemplateText(within.slice(0, at)).count(work) + (begin < 0 ? Math.max(0, self.count(work) + begin) : begin);
  };

const parted =
  (last: boolean): Method<TemplateText> =>
  (self, [by], _, work) => {
    if (!(by instanceof TemplateText) || by.text === '') throw new Error('empty separator');
    work.spend(self.text.length);
    const at = last ? self.text.lastIndexOf(by.text) : self.text.indexOf(by.text);
    const none = new TemplateText('');
    if (at < 0) return new Tuple(last ? [none, none, self] : [self, none, none]);
    return new Tuple([self.slice(0, at), self.slice(at, at + by.text.length), self.slice(at + by.text.length)]);
  };

const all =
  (pattern: RegExp): Method<TemplateText> =>
  (self, _args, _keywords, work) => {
    work.spend(self.text.length);
    return pattern.test(self.text);
  };

const cased = (change: (part: string) => string): Method<TemplateText> => {
  return (self, _args, _keywords, work) => self.map(work, change);
};

const TEXT = new Map<string, Method<TemplateText>>([
  ['upper', cased((part) => part.toUpperCase())],
  ['lower', cased((part) => part.toLowerCase())],
  ['casefold', cased((part) => part.toLowerCase().replaceAll('ß', 'ss'))],
  [
    'swapcase',
    cased((part) =>
      part.replace(/\p{L}/gu, (char) => (/\p{Lu}/u.test(char) ? char.toLowerCase() : char.toUpperCase())),
    ),
  ],
  ['title', (self, _args, _keywords, work) => title(self, work)],
  ['capitalize', (self, _args, _keywords, work) => capitalize(self, work)],
  ['strip', stripped('both', 'strip')],
  ['lstrip', stripped('left', 'lstrip')],
  ['rstrip', stripped('right', 'rstrip')],
  ['split', cut(false, 'split')],
  ['rsplit', cut(true, 'rsplit')],
  [
    'splitlines',
    (self, args, keywords, work) =>
      lines(self, new Arguments('splitlines', ['keepends'], args, keywords).flag('keepends'), work),
  ],
  ['startswith', affix('startsWith')],
  ['endswith', affix('endsWith')],
  [
    'replace',
    (self, args, keywords, work) => {
      const given = new Arguments('replace', ['old', 'new', 'count'], args, keywords);
      const [old, by] = [given.text('old'), given.text('new')];
      if (old === undefined || by === undefined) throw new Error('replace() takes two texts');
      work.spend(self.text.length);
      return replace(work, self, old.text, by, given.whole('count', -1)).as(self.safe);
    },
  ],
  [
    'join',
    (self, [items], _, work) => {
      const parts = iterate(items as TemplateValue, work).map((item, i) => {
        if (item instanceof TemplateText) return item;
        throw new Error(`sequence item ${i}: expected str instance, ${typeName(item)} found`);
      });
      return join(work, self, parts);
    },
  ],
  ['format', (self, args, keywords, work) => format(self, args, keywords, work)],
  ['center', spaced('both', 'center')],
  ['ljust', spaced('left', 'ljust')],
  ['rjust', spaced('right', 'rjust')],
  [
    'zfill',
    (self, [width], _, work) => {
      const sign = /^[+-]/.test(self.text) ? 1 : 0;
      const body = pad(self.slice(sign), whole(width ?? null) - sign, new TemplateText('0'), 'right', work);
      return concat(work, self.slice(0, sign), body);
    },
  ],
  [
    'removeprefix',
    (self, [part]) =>
      part instanceof TemplateText && self.text.startsWith(part.text) ? self.slice(part.text.length) : self,
  ],
  [
    'removesuffix',
    (self, [part]) =>
      part instanceof TemplateText && part.text !== '' && self.text.endsWith(part.text)
        ? self.slice(0, self.text.length - part.text.length)
        : self,
  ],
  ['find', found(false, false)],
  ['rfind', found(true, false)],
  ['index', found(false, true)],
  ['rindex', found(true, true)],
  [
    'count',
    (self, [part], _, work) => {
      if (!(part instanceof TemplateText)) throw new Error('must be str');
      work.spend(self.text.length);
      return part.text === '' ? self.count(work) + 1 : self.text.split(part.text).length - 1;
    },
  ],
  ['partition', parted(false)],
  ['rpartition', parted(true)],
  ['isdigit', all(/^\p{Nd}+$/u)],
  ['isdecimal', all(/^\p{Nd}+$/u)],
  ['isnumeric', all(/^\p{N}+$/u)],
  ['isalpha', all(/^\p{L}+$/u)],
  ['isalnum', all(/^[\p{L}\p{N}]+$/u)],
  ['isspace', all(/^[\s\x1c-\x1f\x85]+$/u)],
  ['isupper', all(/^(?=.*\p{Lu})[^\p{Ll}\p{Lt}]*$/su)],
  ['islower', all(/^(?=.*\p{Ll})[^\p{Lu}\p{Lt}]*$/su)],
  ['isascii', all(/^[\x00-\x7f]*$/)],
  ['isidentifier', all(/^[\p{L}_][\p{L}\p{Nd}\p{M}_]*$/u)],
]);
