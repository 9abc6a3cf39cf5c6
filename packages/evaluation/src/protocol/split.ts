import { createHash } from 'node:crypto';
import { KvError } from '@kv/core';
import Type from 'typebox';
import { readJson } from '../files/read-json.ts';

/** Dev ids, to choose on, and confirmation ids. */
export interface IdSplit {
  /** Ids to choose a weight on. */
  readonly dev: readonly string[];
  /** Ids to confirm it on. */
  readonly confirm: readonly string[];
}

/** Whether an id is a dev id: md5's hex digest, read as one integer, mod 5, is 0 or 1. */
export const isDev = (id: string): boolean => BigInt(`0x${createHash('md5').update(id).digest('hex')}`) % 5n < 2n;

/**
 * Splits ids, keeping their order.
 *
 * @remarks As in section 4.2 of the alpha paper (set-conditioned diversity): MATH-500 becomes 201 and 299.
 */
export const splitIds = (ids: readonly string[]): IdSplit => ({
  dev: ids.filter(isDev),
  confirm: ids.filter((id) => !isDev(id)),
});

/** Reads ids from a file, a JSON array of texts. @throws KvError for another format, an empty or a duplicate id */
export function readIds(path: string, name: string): readonly string[] {
  const ids = readJson(path, name, Type.Array(Type.String({ minLength: 1 }))),
    seen = new Set<string>(),
    twice = ids.find((id) => seen.size === seen.add(id).size);
  if (twice !== undefined)
    throw new KvError(name, `expected each id once, got ${JSON.stringify(twice.slice(0, 80))} twice`);
  return ids;
}
