import { readFileSync, statSync } from 'node:fs';
import { KvError } from '@kv/core';
import { didYouMean } from '@kv/core/engine';
import { parseJson } from '@kv/checkpoints';
import type { Static, TSchema } from 'typebox';
import { Settings } from 'typebox/system';
import { Errors, Pointer } from 'typebox/value';

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

/** Validates a value. @throws KvError that names the first part of another shape */
export function checkShape<S extends TSchema>(value: unknown, schema: S, where: string): asserts value is Static<S> {
  // in a union the deepest error is the most specific, and in an object the missing field
  const lacks = ({ keyword }: (typeof errors)[number]): number => Number(keyword === 'required'),
    errors = errorsOf(schema, value).sort(
      (a, b) => depthOf(b.instancePath) - depthOf(a.instancePath) || lacks(b) - lacks(a),
    ),
    [error] = errors;
  if (!error) return;
  const at = error.instancePath.replace(/^\//, '').replaceAll('/', '.'),
    here = errors.filter(({ instancePath }) => instancePath === error.instancePath),
    names = here.flatMap((one) => (one.keyword === 'const' ? [String(one.params.allowedValue)] : [])),
    there: unknown = Pointer.Get(value, error.instancePath);
  const wrong = ((): string => {
    if (error.keyword === 'boolean') {
      const known = [...new Set(here.flatMap(({ schemaPath }) => fieldsAt(schema, schemaPath)))],
        near = didYouMean(at.slice(at.lastIndexOf('.') + 1), known);
      return `${at} is no field that is known${near || ` (there are ${known.join(', ')})`}`;
    }
    if (names.length > 0) {
      const near = typeof there === 'string' ? didYouMean(there, names) : '';
      return `${at} must be ${names.length > 1 ? 'one of ' : ''}${names.join(', ')}${near}`;
    }
    if (error.keyword === 'type') return `${at === '' ? 'expected' : `${at} must be`} ${typesOf(error.params.type)}`;
    if (error.keyword === 'required') {
      const { requiredProperties: missing } = error.params;
      return `${at === '' ? 'expected' : `${at} must have`} the ${missing.length > 1 ? 'fields' : 'field'} ${missing.join(', ')}`;
    }
    return `${at === '' ? 'expected a value that' : at} ${error.message}`;
  })();
  throw new KvError(where, wrong + said(there));
}

/** Returns schema errors, including for unions with more names than typebox reports by itself. */
function errorsOf(schema: TSchema, value: unknown): ReturnType<typeof Errors> {
  const { maxErrors } = Settings.Get();
  Settings.Set({ maxErrors: 100 });
  try {
    return [...Errors(schema, value)];
  } finally {
    Settings.Set({ maxErrors });
  }
}

const typesOf = (type: string | readonly string[]): string =>
  [type]
    .flat()
    .map((one) => (one === 'null' ? one : `${/^[aeiou]/.test(one) ? 'an' : 'a'} ${one}`))
    .join(' or ');

/** Returns the fields of the object whose schema allows no others. */
function fieldsAt(schema: TSchema, path: string): readonly string[] {
  const of = Pointer.Get(schema, path.replace(/^#/, '').replace(/\/additionalProperties$/, '')) as
    | { readonly properties?: object }
    | undefined;
  return Object.keys(of?.properties ?? {});
}

const depthOf = (path: string): number => path.split('/').length;

/** Returns a value as text, shortened. */
function said(there: unknown): string {
  const text = JSON.stringify(there) ?? 'nothing';
  return `, got ${text.length > 60 ? `${text.slice(0, 60)}…` : text}`;
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
