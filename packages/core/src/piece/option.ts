import { KvError } from '../tensor/errors.ts';
import { didYouMean } from './nearest.ts';
import { excerpt } from '../text/policy-calls.ts';

/** What an option may be, as data: its check, its sentence, its field in a form and its text all follow from it. */
export type OptionForm =
  | {
      readonly sort: 'number';
      readonly want: string;
      /** What is counted. */
      readonly of?: string;
      readonly least: number;
      readonly most: number;
      readonly whole?: boolean;
      readonly odd?: boolean;
      /** Whole from this number on. */
      readonly wholeFrom?: number;
      /** The bound itself is out of range. */
      readonly open?: 'least' | 'most';
      /** Words that may stand for a number. */
      readonly words?: readonly string[];
    }
  | { readonly sort: 'word'; readonly want: string; readonly words: readonly string[] }
  | { readonly sort: 'flag'; readonly want: string }
  | { readonly sort: 'text'; readonly want: string; readonly of?: string; readonly read?: (x: unknown) => unknown }
  /** Another declared thing, such as a detector. */
  | { readonly sort: 'part'; readonly want: string; readonly kind: string }
  /** What only code can give, such as bytes; or several texts. */
  | { readonly sort: 'value'; readonly want: string; readonly fits: (x: unknown) => boolean; readonly texts?: true };

/** One option as data. */
export interface Option<T> {
  readonly form: OptionForm;
  readonly default: T;
  /** What it means, in one sentence. */
  readonly says: string;
  /** Left out, it is as this other option is. */
  readonly as?: string;
  /** What it is where it is left out and has no default, in words. */
  readonly otherwise?: string;
  /** It must be given. */
  readonly required?: boolean;
}
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
  /** What is counted, in the sentence. */
  readonly of?: string;
  /** The whole sentence, where the bounds do not say it well. */
  readonly want?: string;
}

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
/** A finite number within bounds; the sentence of a refusal comes from them. */
export function number(fallback: number, says: string, bounds: Bounds = {}): Option<number> {
  const { least = -Infinity, most = Infinity, above, below, whole, odd, wholeFrom, want, of } = bounds;
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
/** 1, 2, 3, ... of something. */
export const count = (fallback: number, of: string, says: string, bounds: Bounds = {}): Option<number> =>
  number(fallback, says, { least: 1, whole: true, of, ...bounds });
/** 0, 1, 2, ... of something. */
export const whole = (fallback: number, of: string, says: string, bounds: Bounds = {}): Option<number> =>
  number(fallback, says, { least: 0, whole: true, of, ...bounds });
/** 1, 3, 5, ... */
export const odd = (fallback: number, says: string): Option<number> =>
  number(fallback, says, { least: 1, whole: true, odd: true });
/** A share from 0 to 1. */
export const share = (fallback: number, says: string): Option<number> =>
  number(fallback, says, { least: 0, most: 1, want: 'a share from 0 to 1' });
/** A share of the budget below 1, else a whole number of something. */
export const shareOrCount = (fallback: number, of: string, says: string): Option<number> =>
  number(fallback, says, {
    least: 0,
    wholeFrom: 1,
    want: `a share of the budget below 1, or a whole number of ${of}`,
  });
/** A number, or a word that stands for one. */
export const orWord = <const W extends string>({ form, ...rest }: Option<number>, word: W): Option<number | W> => ({
  ...rest,
  form: { ...form, want: `${form.want}, or '${word}'`, words: [word] } as OptionForm,
});
export const flag = (fallback: boolean, says: string): Option<boolean> => ({
  default: fallback,
  says,
  form: { sort: 'flag', want: 'true or false' },
});
/** `read` gives the text in its one form, undefined for what it is not. */
export const text = (
  fallback: string,
  want: string,
  says: string,
  read?: (x: unknown) => string | undefined,
): Option<string> => ({ default: fallback, says, form: { sort: 'text', want, ...(read && { read }) } });
export const oneOf = <const W extends string>(words: readonly W[], fallback: NoInfer<W>, says: string): Option<W> => ({
  default: fallback,
  says,
  form: { sort: 'word', want: words.map((w) => `'${w}'`).join(' or '), words },
});
/** Something declared elsewhere: a value in code, its name in text. */
export const part = <T extends LabelledPart>(fallback: T, says: string): Option<T> => ({
  default: fallback,
  says,
  form: { sort: 'part', want: `a ${fallback.kind}`, kind: fallback.kind },
});
/** What only code can give; absent by default. */
export const value = <T>(want: string, says: string, fits: (x: unknown) => x is T): Option<T | undefined> => ({
  default: undefined,
  says,
  form: { sort: 'value', want, fits },
});
/** Several texts; absent by default. */
export const texts = (says: string): Option<readonly string[] | undefined> => ({
  default: undefined,
  says,
  form: { sort: 'value', want: 'texts', fits: isTexts, texts: true },
});
const isTexts = (x: unknown): boolean => Array.isArray(x) && x.every((each) => typeof each === 'string');
/** May be left out; `otherwise` says what it is then. */
export const maybe = <T>(option: Option<T>, otherwise?: string): Option<T | undefined> => ({
  ...option,
  default: undefined,
  ...(otherwise !== undefined && { otherwise }),
});
/** Must be given. */
export const required = <T>(option: Option<T>): Option<NonNullable<T>> & { readonly required: true } => ({
  ...(option as Option<NonNullable<T>>),
  required: true,
});
/** The same with another default. */
export const withDefault = <T>(option: Option<T>, fallback: T): Option<T> => ({ ...option, default: fallback });
/** Left out, it is as the option `name` is. */
export const sameAs = <T>(name: string, option: Option<T>): Option<T> => ({ ...option, as: name });

/** What a factory made, as options and texts see it. */
export interface LabelledPart<K extends string = string> {
  readonly kind: K;
  readonly label: string;
}
export const isMade = (x: unknown): x is LabelledPart =>
  typeof x === 'object' && x !== null && 'label' in x && typeof x.label === 'string' && 'kind' in x;

const NONE = Symbol('does not fit');
/** The value of an option in its one form, or `NONE`. */
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
/** Whole numbers end before it: devices count in 32 bits. */
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

/** Whether it is a whole number's size alone that does not fit, of which the sentence of its bounds says nothing. */
const tooMany = (form: OptionForm, x: unknown): boolean =>
  form.sort === 'number' &&
  form.most === Infinity &&
  !form.want.includes('2^32') &&
  Number.isFinite(x) &&
  Number(x) >= COUNTED;

/** A value as an error shows it. */
export function showValue(x: unknown): string {
  if (typeof x === 'string') return `'${x.length > 60 ? `${x.slice(0, 60)}…` : x}'`;
  if (typeof x === 'function') return `the function ${x.name || '(anonymous)'}`;
  if (Array.isArray(x)) return 'an array';
  if (ArrayBuffer.isView(x)) return `a ${x.constructor.name} of ${(x as Float32Array).length} numbers`;
  if (isMade(x)) return `the ${x.kind} '${x.label}'`;
  return typeof x === 'object' && x !== null ? 'an object' : String(x);
}

/**
 * Options as a caller gave them, checked, with the defaults of the others.
 *
 * @throws KvError in one sentence for anything but an object, an unknown option, or a value that does not fit.
 */
export const settle = <O extends Options>(at: string, options: O, chosen: unknown): ResolvedOptions<O> =>
  read(at, options, chosen, (name, option, x) => {
    const made = formed(option.form, x);
    if (made === NONE) throw new KvError(at, `${name} ${misfit(option, x)}`);
    return made;
  });
/** The same of a function's own options, each refused under its own name. */
export const settleOwn = <O extends Options>(at: string, options: O, chosen: OptionValues<O>): ResolvedOptions<O> =>
  read(at, options, chosen, fitValue);

/** The value of one option in its one form. @throws KvError for what does not fit */
export function fitValue<T>(at: string, option: Option<T>, x: unknown): T {
  const made = formed(option.form, x);
  if (made === NONE) throw new KvError(at, misfit(option, x));
  return made as T;
}
const misfit = ({ form }: Option<unknown>, x: unknown): string =>
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
/** @throws KvError for what is no object, and for an option that is not a field of `known`, which hold all there are. */
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

/** A value as policy text writes it: bare where it reads back as itself, else in quotes. */
export function printValue(x: unknown): string {
  if (isMade(x)) return x.label;
  if (typeof x !== 'string') return typeof x === 'object' || typeof x === 'function' ? `<${typeof x}>` : String(x);
  return BARE.test(x) && !LOOKS.test(x) ? x : JSON.stringify(x);
}
/** Text that needs no quotes. */
export const BARE: RegExp = /^[^\s()=,|"∘](?:[^()=,|"∘]*[^\s()=,|"∘])?$/;
/** Text that would be read as a number or a flag. */
const LOOKS = /^(?:true|false|[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)$/i;

/** `name(inside,key=value)`: what stands inside, then every option that is not at its default. */
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
