import { text } from '@kv/core';
import type { Option } from '@kv/core';

/**
 * One number for each layer, or for each KV head of each layer. In text, spaces separate layers and slashes heads:
 * `0.5 1/0.25 1`.
 */
export type Numbers = string | readonly (number | readonly number[])[];
type Rows = readonly (readonly number[])[];

/** Returns the numbers by layer and, where a layer has several, by head. */
export const rowsOf = (numbers: Numbers): Rows =>
  typeof numbers === 'string'
    ? numbers
        .trim()
        .split(/\s+/)
        .map((layer) => layer.split('/').map((x) => (x === '' ? Number.NaN : Number(x))))
    : numbers.map((layer) => (typeof layer === 'number' ? [layer] : [...layer]));

/** Returns whether a value is `Numbers` with every number at least 0. */
const fits = (x: unknown): x is Numbers => {
  const lists = Array.isArray(x) && x.every((row) => typeof row === 'number' || Array.isArray(row));
  if (typeof x !== 'string' && !lists) return false;
  const rows = rowsOf(x as Numbers);
  return rows.length > 0 && rows.every((row) => row.length > 0 && row.every((n) => Number.isFinite(n) && n >= 0));
};
const asText = (rows: Rows): string => rows.map((row) => row.join('/')).join(' ');

/** Option of `Numbers`, in text or as arrays; resolved it is text. */
export const numbers = (fallback: string, says: string): Option<Numbers> =>
  text(
    fallback,
    "numbers of at least 0, layers between spaces and heads between slashes, such as '0.5 1/0.25'",
    says,
    (x) => (fits(x) ? asText(rowsOf(x)) : undefined),
  );
