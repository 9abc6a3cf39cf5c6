import { KvError } from '../tensor/errors.ts';
import { didYouMean } from './nearest.ts';
import { excerpt } from '../text/policy-calls.ts';

/** Allowed values of an option, as data: its check, error sentence, form field and text are derived from it. */
export type OptionForm =
  | {
      readonly sort: 'number';
      readonly want: string;
      /** The thing counted. */
      readonly of?: string;
      readonly least: number;
      readonly most: number;
      readonly whole?: boolean;
      readonly odd?: boolean;
      /** Must be whole from this number on. */
      readonly wholeFrom?: number;
      /** This bound itself is excluded. */
      readonly open?: 'least' | 'most';
      /** Words allowed instead of a number. */
      readonly words?: readonly string[];
    }
  | { readonly sort: 'word'; readonly want: string; readonly words: readonly string[] }
  | { readonly sort: 'flag'; readonly want: string }
  | {
      readonly sort: 'text';
      readonly want: string;
      readonly of?: string;
      readonly read?: (x: unknown) => unknown;
      /** Returns a sentence for what does not fit, if it says more than `want`. */
      readonly misread?: (x: unknown) => string | undefined;
    }
  /** Another declared thing, such as a detector. */
  | { readonly sort: 'part'; readonly want: string; readonly kind: string }
  /** A value that only code can give, such as bytes; or several texts; or several values, each of which fits `each`. */
  | {
      readonly sort: 'value';
      readonly want: string;
      readonly fits: (x: unknown) => boolean;
      readonly texts?: true;
      /** Words that a text of several of them, between commas, stands for. */
      readonly words?: readonly string[];
      readonly each?: Option<unknown>;
    };

/** One option as data. */
export interface Option<T> {
  /** Allowed values. */
  readonly form: OptionForm;
  /** The value if it is left out. */
  readonly default: T;
  /** What it means, in one sentence. */
  readonly says: string;
  /** Name of the option whose value it takes if left out. */
  readonly as?: string;
  /** What applies if it is left out and has no default, in words. */
  readonly otherwise?: string;
  /** It must be given. */
  readonly required?: boolean;
}
/** The options of a piece or function, by name. */
export type Options = Readonly<Record<string, Option<any>>>;
type ValueOf<O> = O extends Option<infer T> ? T : never;
/** Every option with its value. */
export type ResolvedOptions<O extends Options> = { readonly [K in keyof O]: ValueOf<O[K]> };
/** Options as a caller writes them. */
export type OptionValues<O extends Options> = {
  readonly [K in keyof O as O[K] extends { readonly required: true } ? never : K]?: ValueOf<O[K]> | undefined;
} & { readonly [K in keyof O as O[K] extends { readonly required: true } ? K : never]: ValueOf<O[K]> };

interface Bounds {
  readonly least?: number;
  readonly most?: number;
  readonly above?: number;
  readonly below?: number;
  readonly whole?: boolean;
  readonly odd?: boolean;
  readonly wholeFrom?: number;
  /** The thing counted, for the sentence. */
  readonly of?: string;
  /** The whole sentence, if the bounds do not describe it well. */
  readonly want?: string;
}

const BOUNDS: readonly string[] = 'least most above below whole odd wholeFrom of want'.split(' ');

function wanted({ least, most, above, below, whole, odd, of }: Bounds): string {
  const low = above ?? least;
  const high = below ?? most;
  const noun = whole ? 'whole number' : 'number';
  const positive = (whole && low === 1) || (low === 0 && above !== undefined);
  const what = `${odd ? 'an odd positive whole number' : `a ${positive ? 'positive ' : ''}${noun}`}${of ? ` of ${of}` : ''}`;
  if (least !== undefined && most !== undefined) return `${what} from ${least} to ${most}`;
  const upper = high === undefined ? '' : below === undefined ? `at most ${high}` : `below ${high}`;
  const lower = low === undefined || odd || positive ? '' : above === undefined ? `of at least ${low}` : `above ${low}`;
  return [what, [lower, upper].filter((x) => x !== '').join(' and ')].join(' ').trim();
}
/**
 * Returns an option that is a finite number within bounds; the error sentence is made of them.
 * @param fallback the default
 * @param says what the option means, in one sentence
 */
export function number(fallback: number, says: string, bounds: Bounds = {}): Option<number> {
  const { least = -Infinity, most = Infinity, above, below, whole, odd, wholeFrom, want, of } = bounds,
    unknown = Object.keys(bounds).find((bound) => !BOUNDS.includes(bound));
  if (unknown !== undefined)
    throw new KvError(
      'number',
      `has no bound ${unknown}${didYouMean(unknown, BOUNDS) || `: it has ${BOUNDS.join(', ')}`}`,
    );
  return {
    default: fallback,
    says,
    form: {
      sort: 'number',
      want: want ?? wanted(bounds),
      least: above ?? least,
      most: below ?? most,
      ...(of !== undefined && { of }),
      ...(whole && { whole }),
      ...(odd && { odd }),
      ...(wholeFrom !== undefined && { wholeFrom }),
      ...(above !== undefined ? { open: 'least' as const } : below !== undefined && { open: 'most' as const }),
    },
  };
}
/** Returns an option that is a count: 1, 2, 3, ... */
export const count = (fallback: number, of: string, says: string, bounds: Bounds = {}): Option<number> =>
  number(fallback, says, { least: 1, whole: true, of, ...bounds });
/** Returns an option that is a whole number: 0, 1, 2, ... */
export const whole = (fallback: number, of: string, says: string, bounds: Bounds = {}): Option<number> =>
  number(fallback, says, { least: 0, whole: true, of, ...bounds });
/** Returns an option that is an odd number: 1, 3, 5, ... */
export const odd = (fallback: number, says: string): Option<number> =>
  number(fallback, says, { least: 1, whole: true, odd: true });
/** Returns an option that is a share from 0 to 1. */
export const share = (fallback: number, says: string): Option<number> =>
  number(fallback, says, { least: 0, most: 1, want: 'a share from 0 to 1' });
/** Returns an option that is a share of the budget if below 1, else a whole number. */
export const shareOrCount = (fallback: number, of: string, says: string): Option<number> =>
  number(fallback, says, {
    least: 0,
    wholeFrom: 1,
    want: `a share of the budget below 1, or a whole number of ${of}`,
  });
/** Returns an option that is a number, or a word instead of one. */
export const orWord = <const W extends string>({ form, ...rest }: Option<number>, word: W): Option<number | W> => ({
  ...rest,
  form: { ...form, want: `${form.want}, or '${word}'`, words: [word] } as OptionForm,
});
/** Returns an option that is true or false. */
export const flag = (fallback: boolean, says: string): Option<boolean> => ({
  default: fallback,
  says,
  form: { sort: 'flag', want: 'true or false' },
});
/**
 * Returns an option that is a text.
 *
 * @param read normalises the text; undefined refuses it.
 */
export const text = (
  fallback: string,
  want: string,
  says: string,
  read?: (x: unknown) => string | undefined,
): Option<string> => ({ default: fallback, says, form: { sort: 'text', want, ...(read && { read }) } });
/** Returns an option that is one of the given words. */
export const oneOf = <const W extends string>(words: readonly W[], fallback: NoInfer<W>, says: string): Option<W> => ({
  default: fallback,
  says,
  form: { sort: 'word', want: words.map((w) => `'${w}'`).join(' or '), words },
});
/** Returns an option that is declared elsewhere: a value in code, its name in text. */
export const part = <T extends LabelledPart>(fallback: T, says: string): Option<T> => ({
  default: fallback,
  says,
  form: { sort: 'part', want: `a ${fallback.kind}`, kind: fallback.kind },
});
/** Returns an option that only code can give; absent by default. */
export const value = <T>(want: string, says: string, fits: (x: unknown) => x is T): Option<T | undefined> => ({
  default: undefined,
  says,
  form: { sort: 'value', want, fits },
});
/**
 * Returns an option that is an object, such as a backend or a signal; absent by default.
 *
 * @param want what an error expects, such as `a backend`
 * @param otherwise what applies without it
 */
export const object = <T>(want: string, says: string, otherwise?: string): Option<T | undefined> =>
  maybe(
    value(want, says, (x): x is T => typeof x === 'object' && x !== null),
    otherwise,
  );
/** Returns an option that is a function; absent by default. `otherwise` says what applies without it. */
export const callback = <T extends (...args: never[]) => unknown>(
  says: string,
  otherwise?: string,
): Option<T | undefined> =>
  maybe(
    value('a function', says, (x): x is T => typeof x === 'function'),
    otherwise,
  );
/** Returns an option that is one or more values, each of which fits `each`. */
export const list = <T>(each: Option<T>, fallback: readonly NoInfer<T>[], says: string): Option<readonly T[]> => ({
  default: fallback,
  says,
  form: {
    sort: 'value',
    want: `a list of at least one value, each ${each.form.want}`,
    fits: (x) => Array.isArray(x) && x.length > 0 && x.every((one) => formed(each.form, one) !== NONE),
    each,
  },
});
/** Returns an option that is several texts; absent by default. */
export const texts = (says: string): Option<readonly string[] | undefined> => ({
  default: undefined,
  says,
  form: { sort: 'value', want: 'texts', fits: isTexts, texts: true },
});
const isTexts = (x: unknown): boolean => Array.isArray(x) && x.every((each) => typeof each === 'string');
/** Makes an option optional; `otherwise` says what applies without it. */
export const maybe = <T>(option: Option<T>, otherwise?: string): Option<T | undefined> => ({
  ...option,
  default: undefined,
  ...(otherwise !== undefined && { otherwise }),
});
/** Makes an option required. */
export const required = <T>(option: Option<T>): Option<NonNullable<T>> & { readonly required: true } => ({
  ...(option as Option<NonNullable<T>>),
  required: true,
});
/** Returns the option with another default. */
export const withDefault = <T>(option: Option<T>, fallback: T): Option<T> => ({ ...option, default: fallback });
/** Returns the option with the value of the option `name` as default. */
export const sameAs = <T>(name: string, option: Option<T>): Option<T> => ({ ...option, as: name });

/** The result of a factory, as options and texts see it. */
export interface LabelledPart<K extends string = string> {
  /** Kind of the part, such as `'detector'`. */
  readonly kind: K;
  /** Its name with the options that differ from their defaults, as policy texts have it. */
  readonly label: string;
}
export const isMade = (x: unknown): x is LabelledPart =>
  typeof x === 'object' && x !== null && 'label' in x && typeof x.label === 'string' && 'kind' in x;

const NONE = Symbol('does not fit');
/** Returns the normalised value of an option, or `NONE`. */
function formed(form: OptionForm, x: unknown): unknown {
  switch (form.sort) {
    case 'number':
      return (typeof x === 'string' && form.words?.includes(x)) || (typeof x === 'number' && inRange(form, x))
        ? x
        : NONE;
    case 'word':
      return form.words.includes(x as string) ? x : NONE;
    case 'flag':
      return typeof x === 'boolean' ? x : NONE;
    case 'text':
      return (form.read ? form.read(x) : typeof x === 'string' ? x : undefined) ?? NONE;
    case 'part':
      return isMade(x) && x.kind === form.kind ? x : NONE;
    case 'value':
      return form.fits(x) ? x : NONE;
  }
}
/** Returns what is wrong with an option that was declared, or with its default; undefined if nothing is. */
export function misfitOfDefault(option: unknown): string | undefined {
  const { form, default: value } = Object(option) as Partial<Option<unknown>>;
  if (form?.sort === undefined) return `expected one made by number, count, flag or the like, got ${showValue(option)}`;
  if (value === undefined || formed(form, value) !== NONE) return undefined;
  return `its default must be ${form.want}, got ${showValue(value)}`;
}
/** Whole numbers must be below it, since devices count in 32 bits. */
const COUNTED = 2 ** 32;
function inRange(
  { least, most, open, whole: isWhole, wholeFrom = Infinity, odd: isOdd }: Extract<OptionForm, { sort: 'number' }>,
  x: number,
): boolean {
  const inside =
    Number.isFinite(x) &&
    x >= least &&
    x <= most &&
    !(open === 'least' && x === least) &&
    !(open === 'most' && x === most);
  const counted = Number.isInteger(x) && (x < COUNTED || most < Infinity);
  return inside && !((isWhole || x >= wholeFrom) && !counted) && !(isOdd && x % 2 === 0);
}

/** Whether a whole number is only too large, which the sentence of its bounds does not mention. */
const tooMany = (form: OptionForm, x: unknown): boolean =>
  form.sort === 'number' &&
  form.most === Infinity &&
  !form.want.includes('2^32') &&
  Number.isFinite(x) &&
  Number(x) >= COUNTED;

/** Most characters of a list that an error shows. */
const SHORT = 40;
/** Returns a short list of numbers, texts and lists of them, as code; undefined for any other. */
function shortList(x: readonly unknown[], depth = 0): string | undefined {
  if (x.length > SHORT || depth > 1) return undefined;
  const parts = x.map((one) =>
      Array.isArray(one)
        ? shortList(one, depth + 1)
        : typeof one === 'object' || typeof one === 'function'
          ? undefined
          : showValue(one),
    ),
    all = `[${parts.join(', ')}]`;
  return all.length > SHORT || parts.includes(undefined) ? undefined : all;
}

/** Formats a value for an error. */
export function showValue(x: unknown): string {
  if (typeof x === 'string') return `'${x.length > 60 ? `${x.slice(0, 60)}…` : x}'`;
  if (typeof x === 'function') return `the function ${x.name || '(anonymous)'}`;
  if (Array.isArray(x)) return x.length === 0 ? 'an empty array' : (shortList(x) ?? 'an array');
  if (ArrayBuffer.isView(x)) return `a ${x.constructor.name} of ${(x as Float32Array).length} numbers`;
  if (isMade(x)) return `the ${x.kind} '${x.label}'`;
  return typeof x === 'object' && x !== null ? 'an object' : String(x);
}

/**
 * Returns the given options, checked, with defaults for the others.
 *
 * @throws KvError in one sentence for anything but an object, an unknown option, or a value that does not fit.
 */
export const settle = <O extends Options>(at: string, options: O, chosen: unknown): ResolvedOptions<O> =>
  read(at, options, chosen, (name, option, x) => {
    const made = formed(option.form, x);
    if (made === NONE) throw new KvError(at, `${name} ${misfit(option, x)}`);
    return made;
  });
/** Returns the same for a function's own options; an error is located at the option's name. */
export const settleOwn = <O extends Options>(at: string, options: O, chosen: OptionValues<O>): ResolvedOptions<O> =>
  read(at, options, chosen, fitValue);

/** Returns the normalised value of one option. @throws KvError for a value that does not fit */
export function fitValue<T>(at: string, option: Option<T>, x: unknown): T {
  const made = formed(option.form, x);
  if (made === NONE) throw new KvError(at, misfit(option, x));
  return made as T;
}
const misfit = ({ form }: Option<unknown>, x: unknown): string =>
  (form.sort === 'text' && form.misread?.(x)) ||
  `must be ${form.want}${tooMany(form, x) ? ' below 2^32' : ''}, got ${showValue(x)}`;

function read<O extends Options>(
  at: string,
  options: O,
  chosen: unknown,
  fit: (name: string, option: Option<unknown>, x: unknown) => unknown,
): ResolvedOptions<O> {
  const names = Object.keys(options);
  const [first] = names;
  if (
    chosen !== undefined &&
    (typeof chosen !== 'object' || chosen === null || Array.isArray(chosen) || isMade(chosen))
  ) {
    const such =
      first === undefined ? 'no options' : `options as an object such as { ${first}: ${example(options[first])} }`;
    throw new KvError(at, `expected ${such}, got ${showValue(chosen)}`);
  }
  const by = (chosen ?? {}) as Readonly<Record<string, unknown>>;
  expectOptions<object>(at, options, by);
  const out: Record<string, unknown> = {};
  for (const [name, option] of Object.entries(options)) {
    const x = by[name];
    if (x !== undefined) out[name] = fit(name, option, x);
    else if (option.required) throw new KvError(at, `expected ${name}, ${option.form.want}, got none`);
    else out[name] = option.as === undefined ? option.default : out[option.as];
  }
  return out as ResolvedOptions<O>;
}
/**
 * Checks the names of options.
 * @param at the function or piece that was called, for the error
 * @throws KvError unless `chosen` is an object whose keys are all in `known`
 */
export function expectOptions<O extends object>(
  at: string,
  known: Readonly<Record<keyof NoInfer<O>, unknown>>,
  chosen: O,
): void {
  const names = Object.keys(known);
  if (typeof chosen !== 'object' || chosen === null || Array.isArray(chosen))
    throw new KvError(at, `expected options as an object such as { ${names[0]}: … }, got ${showValue(chosen)}`);
  const unknown = Object.keys(chosen).find((k) => !names.includes(k));
  if (unknown === undefined) return;
  const near = didYouMean(unknown, names);
  throw new KvError(at, `has no option ${excerpt(unknown)}${near || `: it has ${names.join(', ') || 'none'}`}`);
}
const example = ({ default: value, form }: Option<unknown>): string =>
  value === undefined ? (form.sort === 'number' ? '1' : '…') : showValue(value);

/** Formats a value as policy text: bare if it reads back as itself, else in quotes. */
export function printValue(x: unknown): string {
  if (isMade(x)) return x.label;
  if (typeof x !== 'string') return typeof x === 'object' || typeof x === 'function' ? `<${typeof x}>` : String(x);
  return BARE.test(x) && !LOOKS.test(x) ? x : JSON.stringify(x);
}
/** Text that needs no quotes. */
export const BARE: RegExp = /^[^\s()=,|"∘](?:[^()=,|"∘]*[^\s()=,|"∘])?$/;
/** Text that would be read as a number or a flag. */
const LOOKS = /^(?:true|false|[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)$/i;

/** Returns `name(inside,key=value)`: the inner pieces, then every option that differs from its default. */
export function print(
  name: string,
  options: Options,
  settled: Readonly<Record<string, unknown>>,
  inside: readonly string[] = [],
): string {
  const changed = Object.entries(options).filter(
    ([key, { as, default: fallback }]) =>
      settled[key] !== undefined && !same(settled[key], as === undefined ? fallback : settled[as]),
  );
  const args = [...inside, ...changed.map(([key]) => `${key}=${printValue(settled[key])}`)];
  return args.length === 0 ? name : `${name}(${args.join(',')})`;
}
const same = (a: unknown, b: unknown): boolean => a === b || (isMade(a) && isMade(b) && a.label === b.label);
