import { readFileSync, statSync } from 'node:fs';
import { KvError } from '@kv/core';
import { parseJson } from '@kv/checkpoints';
import type { Static, TSchema } from 'typebox';
import { checkShape } from './check-shape.ts';

const MOST_BYTES = 2 ** 28;

/** Reads and validates a JSON file. @throws KvError about `name` in one sentence */
export function readJson<S extends TSchema>(path: string, name: string, schema: S): Static<S> {
  const value = parseJson(fileBytes(path, name), name);
  checkShape(value, schema, name);
  return value;
}

/** Returns the rows of a JSON array or JSON lines file, each with its place for error messages. */
export function readRows(path: string, name: string): readonly (readonly [place: string, row: unknown])[] {
  const bytes = fileBytes(path, name, true),
    first = bytes.find((byte) => !/\s/.test(String.fromCharCode(byte)));
  if (first === undefined) throw new KvError(name, 'expected problems, got an empty file');
  if (first === '['.charCodeAt(0))
    return (parseJson(bytes, name) as readonly unknown[]).map((row, i) => [`${name}, row ${i + 1}`, row]);
  const rows: (readonly [string, unknown])[] = [];
  for (let from = 0, line = 1; from < bytes.length; line++) {
    const end = bytes.indexOf(10, from),
      to = end < 0 ? bytes.length : end,
      part = bytes.subarray(from, to),
      place = `${name}, line ${line}`;
    if (part.some((byte) => byte > 32)) rows.push([place, parseJson(part, place)]);
    from = to + 1;
  }
  return rows;
}

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
