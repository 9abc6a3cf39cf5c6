import { KvError } from '@kv/core';

/** A JSON schema, or a part of one. */
export type Schema = Readonly<Record<string, unknown>>;

/** Returns a schema as an object: `true` is any value. @throws KvError for what is none */
export function schemaOf(given: unknown, where: string): Schema {
  if (given === true || given === undefined) return {};
  if (typeof given === 'object' && given !== null && !Array.isArray(given)) return given as Schema;
  throw new KvError(where, `expected a JSON schema, got ${JSON.stringify(given)?.slice(0, 60)}`);
}

/** Returns the part of a schema that `$ref` names. @throws KvError unless it is there */
export function schemaAt(root: Schema, ref: unknown, where: string): Schema {
  if (typeof ref !== 'string' || !/^#(\/|$)/.test(ref))
    throw new KvError(
      where,
      `expected a $ref within the schema, such as "#/$defs/name", got ${JSON.stringify(ref)?.slice(0, 60)}`,
    );
  let at: unknown = root;
  for (const part of ref.split('/').slice(1)) {
    let key = part;
    try {
      key = decodeURIComponent(part);
    } catch {} // as it is written
    key = key.replaceAll('~1', '/').replaceAll('~0', '~');
    at = typeof at === 'object' && at !== null && Object.hasOwn(at, key) ? (at as Schema)[key] : undefined;
  }
  if (at === undefined)
    throw new KvError(where, `the $ref ${JSON.stringify(ref.slice(0, 60))} names nothing in the schema`);
  return schemaOf(at, where);
}

/** Returns the types that a schema allows; all where it says none. */
export function typesOf({ type, enum: values, const: value }: Schema): readonly string[] {
  if (typeof type === 'string') return [type];
  if (Array.isArray(type)) return type as readonly string[];
  const given = Array.isArray(values) ? values : value === undefined ? undefined : [value];
  return given === undefined ? TYPES : [...new Set(given.map(typeOf))];
}

const TYPES: readonly string[] = ['object', 'array', 'string', 'number', 'boolean', 'null'];

/** Returns the type of a JSON value. */
export const typeOf = (value: unknown): string =>
  value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;

/**
 * Returns the values that a schema lists, of its types; undefined where it lists none.
 * @throws KvError where none of them is of its types
 */
export function valuesOf(schema: Schema, where: string): readonly unknown[] | undefined {
  const { const: value, enum: values, type } = schema,
    listed = value === undefined ? values : [value];
  if (listed === undefined) return undefined;
  if (!Array.isArray(listed))
    throw new KvError(where, `expected enum to be a list, got ${JSON.stringify(listed)?.slice(0, 60)}`);
  const types = typesOf({ type }),
    fit = listed.filter((one) => types.includes(typeOf(one)) || (types.includes('integer') && Number.isInteger(one)));
  if (fit.length > 0) return fit;
  throw new KvError(
    where,
    `expected enum and const to list values of the type, got ${JSON.stringify(listed).slice(0, 60)}`,
  );
}

/** Returns the alternatives of a schema, itself where it has none. */
export function alternatives(schema: Schema, where: string): readonly Schema[] {
  const of = (schema.anyOf ?? schema.oneOf ?? schema.allOf) as unknown;
  if (of === undefined) return [schema];
  if (!Array.isArray(of) || of.length === 0 || (schema.allOf !== undefined && of.length > 1))
    throw new KvError(where, 'expected anyOf or oneOf to be a list of schemas, and allOf to have one');
  return of.map((one) => schemaOf(one, where));
}

/** Values with which keywords ask for nothing. */
const IDLE: Schema = {
  ...{ propertyNames: true, uniqueItems: false, minProperties: 0 },
  ...{ unevaluatedProperties: true, unevaluatedItems: true },
};

/** Whether a keyword of a schema asks for something. Zod writes `propertyNames: { type: 'string' }` for every record. */
export function asks(schema: Schema, key: string): boolean {
  const value = schema[key];
  if (value === undefined || value === IDLE[key]) return false;
  if (key !== 'propertyNames' || typeof value !== 'object' || value === null) return true;
  return Object.entries(value).some(([name, one]) => name !== 'type' || one !== 'string');
}

/**
 * Returns the properties of a schema of an object, in order, and whether each is required; those that are required alone
 * fit `additionalProperties`.
 */
export function propertiesOf(schema: Schema, where: string): readonly (readonly [string, Schema, boolean])[] {
  if (schema.required !== undefined && !Array.isArray(schema.required))
    throw new KvError(where, `expected required to be a list, got ${JSON.stringify(schema.required)?.slice(0, 60)}`);
  const required = new Set((schema.required ?? []) as readonly unknown[]),
    properties = schema.properties === undefined ? {} : schemaOf(schema.properties, where);
  const others = [...required].filter((name) => typeof name !== 'string' || !Object.hasOwn(properties, name)),
    wrong = others.find((name) => typeof name !== 'string' || schema.additionalProperties === false);
  if (wrong !== undefined)
    throw new KvError(
      where,
      `expected required to name properties ${typeof wrong === 'string' ? 'of the schema, which allows no others' : 'by texts'}, got ${JSON.stringify(wrong).slice(0, 60)}`,
    );
  return [
    ...Object.entries(properties),
    ...others.map((name) => [name as string, schema.additionalProperties] as const),
  ].map(([name, one]) => [name, schemaOf(one, where), required.has(name)] as const);
}

/** Returns the schema of arguments where it is plainly that of an object, following a `$ref`. @throws KvError otherwise */
export function objectSchema(parameters: object, where: string): Schema {
  const given = schemaOf(parameters, where),
    schema = given.$ref === undefined ? given : { ...given, ...schemaAt(given, given.$ref, where), $ref: undefined };
  if (schema.type === 'object' && ['anyOf', 'oneOf', 'allOf'].every((key) => schema[key] === undefined)) return schema;
  throw new KvError(where, 'expected parameters to be a JSON schema of the type object, without alternatives');
}
