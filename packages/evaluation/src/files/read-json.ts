import { readFileSync, statSync } from 'node:fs';
import { KvError } from '@kv/core';
import { parseJson } from '@kv/models/engine';
import type { Static, TSchema } from 'typebox';
import { Errors } from 'typebox/value';

const MOST_BYTES = 2 ** 28;

/** A JSON file of a shape. @throws KvError about `name` in one sentence */
export function readJson<S extends TSchema>(path: string, name: string, schema: S): Static<S> {
  const value = parseJson(fileBytes(path, name), name);
  checkShape(value, schema, name);
  return value;
}

/** The rows of a JSON array, or of a file with an object a line, each with its place; another file may have named it. */
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

/** @throws KvError that names the first part of another shape */
export function checkShape<S extends TSchema>(value: unknown, schema: S, where: string): asserts value is Static<S> {
  // of the branches of a union the deepest error says most
  const errors = [...Errors(schema, value)].sort((a, b) => depthOf(b.instancePath) - depthOf(a.instancePath)),
    [error] = errors;
  if (!error) return;
  const at = error.instancePath.replace(/^\//, '').replaceAll('/', '.'),
    names = errors.flatMap((one) =>
      one.keyword === 'const' && one.instancePath === error.instancePath ? [String(one.params.allowedValue)] : [],
    );
  const wrong =
    error.keyword === 'boolean'
      ? 'is no field that is known'
      : names.length > 0
        ? `must be ${oneOf(names)}`
        : error.message;
  throw new KvError(where, `${at === '' ? 'it' : at} ${wrong}${said(value, error.instancePath)}`);
}

/** Names that are allowed; of many, only the first are known here. */
function oneOf(names: readonly string[]): string {
  if (names.length > 3) return `a known name such as ${names.slice(0, 3).join(', ')}`;
  return names.length > 1 ? `one of ${names.join(', ')}` : names[0];
}

const depthOf = (path: string): number => path.split('/').length;

/** What stands at a path, shortened. */
function said(value: unknown, path: string): string {
  let at: unknown = value;
  for (const key of path.split('/').slice(1))
    at = (at as Readonly<Record<string, unknown>> | undefined)?.[key.replaceAll('~1', '/').replaceAll('~0', '~')];
  const text = JSON.stringify(at) ?? 'nothing';
  return `, got ${text.length > 60 ? `${text.slice(0, 60)}…` : text}`;
}

/** `regular`: no pipe that nobody writes into, and no device without an end. */
export function fileBytes(path: string, name: string, regular = false): Uint8Array {
  try {
    const is = statSync(path),
      { size } = is;
    if (regular && !is.isFile()) throw new KvError(name, 'expected a readable file, got none of its kind');
    if (size > MOST_BYTES) throw new KvError(name, `expected at most ${MOST_BYTES} bytes, got ${size}`);
    return readFileSync(path);
  } catch (error) {
    if (KvError.is(error)) throw error;
    const { code = 'an error' } = error as NodeJS.ErrnoException;
    throw new KvError(name, `expected a file that can be read, got ${code}`);
  }
}
