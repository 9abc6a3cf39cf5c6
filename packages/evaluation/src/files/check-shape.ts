import { KvError } from '@kv/core';
import { didYouMean } from '@kv/core/engine';
import type { Static, TSchema } from 'typebox';
import { Settings } from 'typebox/system';
import { Errors, Pointer } from 'typebox/value';

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
