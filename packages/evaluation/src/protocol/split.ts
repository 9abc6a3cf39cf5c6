import { createHash } from 'node:crypto';
import { KvError } from '@kv/core';
import type { Problem } from '@kv/tasks';
import Type from 'typebox';
import { readJson } from '../files/read-json.ts';

/** Dev ids, to choose on, and confirmation ids. */
export interface IdSplit {
  /** Ids to choose a weight on. */
  readonly dev: readonly string[];
  /** Ids to confirm it on. */
  readonly confirm: readonly string[];
}

/**
 * Whether a problem is one to choose on (dev): md5's hex digest of its document, or of its id if it is the only one of
 * its document, read as one integer, mod 5, is 0 or 1.
 */
export const isDev = ({ id, document = id }: Pick<Problem, 'id' | 'document'>): boolean =>
  BigInt(`0x${createHash('md5').update(document).digest('hex')}`) % 5n < 2n;

/**
 * Splits problems by their documents, so that two questions about one text are never on both sides; keeps their order.
 *
 * @param problems or ids alone, of problems with a document each
 * @remarks As in section 4.2 of the alpha paper (set-conditioned diversity): MATH-500 becomes 201 and 299.
 */
export function splitIds(problems: readonly (string | Pick<Problem, 'id' | 'document'>)[]): IdSplit {
  const all = problems.map((one) => (typeof one === 'string' ? { id: one } : one)),
    of = (dev: boolean): readonly string[] => all.filter((one) => isDev(one) === dev).map(({ id }) => id);
  return { dev: of(true), confirm: of(false) };
}

/** Reads ids from a file, a JSON array of texts. @throws KvError for another format, an empty or a duplicate id */
export function readIds(path: string, name: string): readonly string[] {
  const ids = readJson(path, name, Type.Array(Type.String({ minLength: 1 }))),
    seen = new Set<string>(),
    twice = ids.find((id) => seen.size === seen.add(id).size);
  if (twice !== undefined)
    throw new KvError(name, `expected each id once, got ${JSON.stringify(twice.slice(0, 80))} twice`);
  return ids;
}
