import { readFileSync, statSync } from 'node:fs';
import { KvError } from '@kv/core';
import { parseJson } from '@kv/checkpoints';
import type { Static, TSchema } from 'typebox';
import { checkShape } from './check-shape.ts';
import { rowsIn } from './rows.ts';

const MOST_BYTES = 2 ** 28;

/** Reads and validates a JSON file. @throws KvError about `name` in one sentence */
export function readJson<S extends TSchema>(path: string, name: string, schema: S): Static<S> {
  const value = parseJson(fileBytes(path, name), name);
  checkShape(value, schema, name);
  return value;
}

/** Returns the rows of a JSON array or JSON lines file of problems, each with its place for error messages. */
export const readRows = (path: string, name: string): ReturnType<typeof rowsIn> =>
  rowsIn(fileBytes(path, name, true), name, 'problems');

/** Reads a file. `regular` rejects pipes that no one may write to and devices without an end. */
export function fileBytes(path: string, name: string, regular = false): Uint8Array {
  try {
    const is = statSync(path),
      { size } = is;
    if (regular && !is.isFile()) throw new KvError(name, 'is not a regular file');
    if (size > MOST_BYTES) throw new KvError(name, `expected at most ${MOST_BYTES} bytes, got ${size}`);
    return readFileSync(path);
  } catch (error) {
    if (KvError.is(error)) throw error;
    const { code = 'an error' } = error as NodeJS.ErrnoException;
    throw new KvError(name, `expected a file that can be read, got ${code}`);
  }
}
