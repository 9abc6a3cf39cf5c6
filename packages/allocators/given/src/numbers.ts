import { KvError } from '@kv/core';

/**
 * Numbers of layers, or of the KV heads of each layer; as text layers stand between spaces and heads between slashes:
 * `0.5 1/0.25 1`.
 */
export type Numbers = string | readonly (number | readonly number[])[];

/** Numbers by layer and, where there is more than one, by head. @throws KvError for one that is negative or none. */
export function numbersOf(piece: string, field: string, numbers: Numbers): readonly (readonly number[])[] {
  const rows =
    typeof numbers === 'string'
      ? numbers
          .trim()
          .split(/\s+/)
          .map((layer) => layer.split('/').map((x) => (x === '' ? Number.NaN : Number(x))))
      : numbers.map((layer) => (typeof layer === 'number' ? [layer] : [...layer]));
  const wrong = rows.flat().find((x) => !(Number.isFinite(x) && x >= 0));
  if (wrong !== undefined || rows.length === 0 || rows.some((row) => row.length === 0))
    throw new KvError(
      piece,
      `${field} must be numbers of at least 0, layers between spaces and heads between slashes, such as '0.5 1/0.25', got ${shown(rows).slice(0, 120)}`,
    );
  return rows;
}

/** The text that `numbersOf` reads. */
export const shown = (rows: readonly (readonly number[])[]): string => rows.map((row) => row.join('/')).join(' ');
