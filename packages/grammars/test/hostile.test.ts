import { KvError } from '@kv/core';
import { describe, expect, test } from 'vitest';
import { schemaGrammar } from '../src/schema/schema.ts';

const nested = (depth: number): object =>
  depth === 0 ? { type: 'null' } : { type: 'array', items: nested(depth - 1) };
const loop: Record<string, unknown> = { type: 'object' };
loop.properties = { again: loop };
/** Schemas that lead to each other, the last to null. */
const chain = (count: number, link: (next: object) => object): object => ({
  $defs: Object.fromEntries(
    Array.from({ length: count }, (_, i) => [
      `a${i}`,
      i === count - 1 ? { type: 'null' } : link({ $ref: `#/$defs/a${i + 1}` }),
    ]),
  ),
  $ref: '#/$defs/a0',
});
const tagged = (count: number): object[] =>
  Array.from({ length: count }, (_, i) => ({
    type: 'object',
    required: ['t'],
    properties: { t: { const: i } },
  }));
const refused = (schema: unknown): string => {
  try {
    schemaGrammar(schema);
  } catch (error) {
    if (KvError.is(error)) return error.message;
    throw error;
  }
  return 'taken';
};

describe('a schema that cannot be followed is refused in one sentence that names what and where', () => {
  test.each<readonly [schema: unknown, sentence: string]>([
    [{ not: {} }, "schema: 'not' cannot be followed: leave it out and check the answer instead"],
    [{ properties: { a: { uniqueItems: true } } }, "schema.properties.a: 'uniqueItems' cannot be followed"],
    [{ type: 'integer', multipleOf: 2 }, "schema: 'multipleOf' cannot be followed"],
    [{ if: {}, then: {} }, "'if' cannot be followed"],
    [{ patternProperties: { a: {} } }, "'patternProperties' cannot be followed"],
    [{ type: 'string', format: 'iri' }, "schema: format 'iri' cannot be followed"],
    [
      { type: 'string', pattern: 'a(?=b)' },
      `schema.pattern: "a(?=b)" has '(?=b)', an assertion, which cannot be followed`,
    ],
    [{ type: 'string', pattern: '(a)\\1' }, `has '\\1', which cannot be followed`],
    [{ type: 'string', pattern: 'a^b' }, "has '^' within it"],
    [{ type: 'string', pattern: '\\p{L}' }, "has '\\p{L}', a class of many characters beyond ASCII but not of all"],
    [{ type: 'string', pattern: '(' }, 'is no regular expression'],
    [{ type: 'string', pattern: 'a', maxLength: 2 }, "a length next to 'pattern' cannot be followed"],
    [{ oneOf: [{ type: 'number' }, { type: 'integer' }] }, 'schema.oneOf: a value may fit both of its schemas 0 and 1'],
    [{ allOf: [{}, {}] }, "'allOf' of 2 schemas cannot be followed: write them as one schema"],
    [{ anyOf: [{}], properties: {} }, "'properties' next to 'anyOf' cannot be followed"],
    [{ $ref: 'https://example.org/s.json' }, 'must be a place in the schema itself'],
    [{ $ref: '#/$defs/no' }, 'leads to nothing'],
    [{ $ref: '#' }, 'leads back to itself'],
    [{ $defs: { a: { $ref: '#/$defs/b' }, b: { anyOf: [{ $ref: '#/$defs/a' }] } }, $ref: '#/$defs/a' }, 'leads back'],
    [{ type: 'text' }, 'type must be one or some of object, array'],
    [{ type: 'number', minimum: '1' }, 'schema.minimum: must be a number, got "1"'],
    [{ type: 'number', minimum: 0.1234567890123456 }, 'at most 15 digits'],
    [
      { prefixItems: [{}], items: [{}] },
      'schema.items: must be a schema next to prefixItems, got a list: write the list as prefixItems',
    ],
    [{ properties: [] }, 'schema.properties: must be an object, got []'],
    [{ required: [1] }, 'schema.required: must be names, got 1'],
    [{ enum: [] }, 'schema.enum: must be a list with something in it'],
    [null, 'schema: must be an object or true or false, got null'],
    // what no finite value fits
    [false, 'expected a schema that some finite value fits'],
    [{ type: 'integer', minimum: 3, exclusiveMaximum: 3 }, 'expected a schema that some finite value fits'],
    [
      { type: 'object', properties: { a: { $ref: '#' } }, required: ['a'] },
      'expected a schema that some finite value fits',
    ],
  ])('%j', (schema, sentence) => expect(refused(schema)).toContain(sentence));

  test.each<readonly [name: string, schema: unknown, sentence: string]>([
    ['10 MB', { description: 'x'.repeat(10_000_000) }, 'expected at most 262144 bytes of JSON, got more'],
    ['levels', nested(200), 'expected at most 64 levels'],
    ['a million levels', JSON.parse(`${'{"items":'.repeat(4000)}{}${'}'.repeat(4000)}`), 'expected at most 64 levels'],
    ['an object within itself', loop, 'expected at most 64 levels'],
    ['an enum of everything', { enum: Array.from({ length: 30_000 }, (_, i) => `value ${i}`) }, 'more'],
    ['nested repetitions', { type: 'string', pattern: '^(a{1,1000}){1,1000}$' }, 'states'],
    ['repetitions of anything', { type: 'string', pattern: '^(.{1,30}){1,30}$' }, 'too long'],
    [
      'a long string',
      { type: 'string', maxLength: 1_000_000_000 },
      'minLength and maxLength of more than 256 would take too long',
    ],
    ['two lengths', { type: 'string', minLength: 1e9, maxLength: 1e9 + 5 }, 'too long'],
    ['many items', { type: 'array', items: {}, minItems: 1e9 }, 'too long'],
    [
      '200 optional properties',
      { properties: Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`p${i}`, {}])) },
      'too long',
    ],
    ['a oneOf of 15,000 values', { oneOf: Array.from({ length: 15_000 }, (_, i) => ({ const: i })) }, 'taken'],
    [
      'a oneOf of 15,000 values, two of them alike',
      { oneOf: Array.from({ length: 15_000 }, (_, i) => ({ const: i % 14_999 })) },
      'a value may fit both of its schemas 0 and 14999',
    ],
    ['a oneOf of 300 objects', { oneOf: tagged(300) }, 'taken'],
    ['a oneOf of 600 objects', { oneOf: tagged(600) }, 'must have at most 512 schemas that are more than lists'],
    ['a chain of references', chain(2000, (next) => next), 'at most 256 schemas within each other'],
    ['a chain of choices', chain(2000, (next) => ({ anyOf: [next] })), 'at most 256 schemas within each other'],
    ['a chain of objects', chain(2000, (next) => ({ properties: { a: next } })), 'at most 256 schemas'],
    [
      'choices of choices with a type',
      { ...chain(6, (next) => ({ anyOf: Array.from({ length: 40 }, () => next) })), type: 'null' },
      'too long',
    ],
    ['empty repetitions', { type: 'string', pattern: '^(a*)*$' }, 'repeats without an end what may be empty'],
  ])('%s, soon', (_, schema, sentence) => expect(refused(schema)).toContain(sentence));
});

test('keywords that ask for nothing, unknown ones and formats that the standard does not have are let through', () => {
  const idle = {
    uniqueItems: false,
    minProperties: 0,
    title: 't',
    'x-own': { not: 1 },
    discriminator: {},
    nullable: true,
  };
  expect(schemaGrammar({ type: 'array', ...idle })).toBe(schemaGrammar({ type: 'array' }));
  expect(schemaGrammar({ type: 'string', format: 'password' })).toBe(schemaGrammar({ type: 'string' }));
});
