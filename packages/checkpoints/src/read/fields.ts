import { KvError } from '@kv/core';

/** A JSON object whose values are not validated yet. */
export type JsonFields = Readonly<Record<string, unknown>>;

/** Checks that a value is a JSON object. @throws KvError if not */
export function object(value: unknown, where: string, what: string): JsonFields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as JsonFields;
  throw new KvError(where, `${what} must be a JSON object, got ${show(value)}`);
}

/** Reads an integer from `least` to `most`. @throws KvError naming the field */
export function integer(
  fields: JsonFields,
  name: string,
  where: string,
  fallback?: number,
  most: number = 2 ** 31 - 1,
  least = 1,
): number {
  return check(
    fields,
    name,
    where,
    fallback,
    `an integer from ${least} to ${most}`,
    (x) => Number.isInteger(x) && x >= least && x <= most,
  );
}

/** Reads a finite number above 0. @throws KvError naming the field */
export function positive(fields: JsonFields, name: string, where: string, fallback?: number): number {
  return check(fields, name, where, fallback, 'a number above 0', (x) => Number.isFinite(x) && x > 0);
}

/** Reads a boolean. @throws KvError naming the field */
export function boolean(fields: JsonFields, name: string, where: string, fallback: boolean): boolean {
  const value = fields[name] ?? fallback;
  if (typeof value === 'boolean') return value;
  throw new KvError(where, `${name} must be true or false, got ${show(value)}`);
}

/** Returns an object with one property, or without it if the value is undefined; for spreading. */
export function optional<K extends string, V>(name: K, value: V | undefined): { readonly [key in K]?: V } {
  return (value === undefined ? {} : { [name]: value }) as { readonly [key in K]?: V };
}

/** Returns a value's JSON, cut to 60 characters; 'nothing' for undefined. */
export function show(value: unknown): string {
  const text = value === undefined ? 'nothing' : (JSON.stringify(value) ?? String(value));
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

function check(
  fields: JsonFields,
  name: string,
  where: string,
  fallback: number | undefined,
  want: string,
  ok: (x: number) => boolean,
): number {
  const value = fields[name] ?? fallback;
  if (typeof value === 'number' && ok(value)) return value;
  throw new KvError(where, `${name} must be ${want}, got ${show(value)}`);
}
