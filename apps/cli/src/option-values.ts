import { KvError } from '@kv/core';
import type { Budget } from '@kv/models';

/** A parser of one option's text, as commander calls it. */
export type Parse<T> = (text: string) => T;

/** Parses a whole number between two bounds. */
export const whole =
  (
    option: string,
    { min = 0, max = Number.MAX_SAFE_INTEGER }: { readonly min?: number; readonly max?: number } = {},
  ): Parse<number> =>
  (text) => {
    const value = Number(text);
    if (/^[+-]?\d+$/.test(text) && value >= min && value <= max) return value;
    throw new KvError(
      option,
      `must be a whole number ${max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`}, got ${JSON.stringify(text)}`,
    );
  };

/** Parses a number between two bounds, `above` excluded. */
export const number =
  (
    option: string,
    { min, above, max }: { readonly min?: number; readonly above?: number; readonly max?: number },
  ): Parse<number> =>
  (text) => {
    const value = text.trim() === '' ? Number.NaN : Number(text);
    if (
      Number.isFinite(value) &&
      value >= (min ?? -Infinity) &&
      value > (above ?? -Infinity) &&
      value <= (max ?? Infinity)
    )
      return value;
    const want = [
      ...(min === undefined ? [] : [`at least ${min}`]),
      ...(above === undefined ? [] : [`above ${above}`]),
      ...(max === undefined ? [] : [`at most ${max}`]),
    ];
    throw new KvError(option, `must be a number ${want.join(' and ')}, got ${JSON.stringify(text)}`);
  };

/** Parses one of a few words. */
export const oneOf =
  <T extends string>(option: string, words: readonly T[]): Parse<T> =>
  (text) => {
    const found = words.find((word) => word === text);
    if (found !== undefined) return found;
    throw new KvError(option, `must be ${words.join(' or ')}, got ${JSON.stringify(text)}`);
  };

/** Parses a number of slots, or a share of the prompt to keep. */
export const budget =
  (option: string): Parse<Budget> =>
  (text) => {
    const share = /^(\d+(?:\.\d+)?)%$/.exec(text)?.[1];
    if (share !== undefined && Number(share) > 0 && Number(share) <= 100) return `${Number(share)}%`;
    if (/^\d+$/.test(text) && Number(text) > 0) return Number(text);
    throw new KvError(
      option,
      `must be a whole number of slots of at least 1, or the share of the prompt to keep, above 0% and up to 100%, got ${JSON.stringify(text)}`,
    );
  };

/** Parses values between commas; commas inside brackets or quotes belong to a value. */
export const list =
  <T>(option: string, parse: Parse<T>): Parse<readonly T[]> =>
  (text) => {
    const parts = splitOutside(text, ',').map((part) => part.trim());
    if (parts.some((part) => part === ''))
      throw new KvError(option, `must be values between commas, got ${JSON.stringify(text)}`);
    return [...new Set(parts.map(parse))];
  };

/** Parses a list that may be given more than once. */
export const lists =
  <T>(option: string, parse: Parse<T>): ((text: string, all?: readonly T[]) => readonly T[]) =>
  (text, all = []) => [...new Set([...all, ...list(option, parse)(text)])];

/** Splits at a separator outside brackets and double quotes. */
function splitOutside(text: string, separator: string): readonly string[] {
  const parts: string[] = [];
  let depth = 0,
    quoted = false,
    from = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quoted) {
      if (c === '\\') i++;
      else if (c === '"') quoted = false;
    } else if (c === '"') quoted = true;
    else if (c === '(') depth++;
    else if (c === ')') depth = Math.max(0, depth - 1);
    else if (c === separator && depth === 0) {
      parts.push(text.slice(from, i));
      from = i + 1;
    }
  }
  return [...parts, text.slice(from)];
}
