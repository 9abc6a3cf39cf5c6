import fc from 'fast-check';

/** A schema with values that fit it, whose properties come in the schema's order. */
interface Case {
  readonly schema: object | boolean;
  readonly value: unknown;
}
type Made = fc.Arbitrary<Case>;

// not __proto__, which ajv takes for another property
const name = fc.oneof(fc.constantFrom('a', 'name', 'a b', 'é', '"q"', '\\', 'toString'), fc.string({ maxLength: 4 }));
const text = (minLength: number, maxLength: number): fc.Arbitrary<string> =>
  fc.string({ unit: fc.constantFrom(...Array.from('abz09 "\\/\n\té漢🙂{}[],:')), minLength, maxLength });

const strings: Made = fc
  .tuple(fc.option(fc.nat(4), { nil: undefined }), fc.option(fc.nat(4), { nil: undefined }))
  .chain(([least, more]) =>
    text(least ?? 0, (least ?? 0) + (more ?? 4)).map((value) => ({
      schema: {
        type: 'string',
        ...(least !== undefined && { minLength: least }),
        ...(more !== undefined && { maxLength: (least ?? 0) + more }),
      },
      value,
    })),
  );
const patterns: Made = fc
  .constantFrom<readonly [string, string]>(
    ['^[a-z]+$', 'abc'],
    ['^(?:red|green)$', 'red'],
    ['^[A-Z]{2}-[0-9]{3,5}$', 'AB-1234'],
    ['b+', 'abbba'],
    ['^a|c$', 'xyzc'],
    ['^"(\\\\|\\n)*"$', '"\\\n\\"'],
    ['^[^"]*$', 'é🙂 \\'],
    ['^[à-ü]?$', 'é'],
    ['^(a|b?c)*d{2,}$', 'acbcddd'],
    ['^\\d+(\\.\\d{2})?$', '12.50'],
    ['^.{1,3}$', 'é"'],
    ['^$', ''],
    ['', 'anything'],
  )
  .map(([pattern, value]) => ({ schema: { type: 'string', pattern }, value }));
const formatted: Made = fc
  .constantFrom<readonly [string, string]>(
    ['date', '2024-02-29'],
    ['time', '23:59:59Z'],
    ['date-time', '2023-11-30T01:02:03.5+02:00'],
    ['duration', 'P3D'],
    ['email', 'ann.lee@example.org'],
    ['hostname', 'www.example.org'],
    ['ipv4', '192.168.0.1'],
    ['ipv6', '2001:db8:0:0:0:0:0:1'],
    ['uuid', '123e4567-e89b-12d3-a456-426614174000'],
    ['uri', 'https://example.org/a/b?c=d#e'],
  )
  .map(([format, value]) => ({ schema: { type: 'string', format }, value }));

/** Numbers of at most four digits after the point, as texts without an exponent. */
const decimals = fc
  .tuple(fc.integer({ min: -2_000_000, max: 2_000_000 }), fc.constantFrom(1, 10, 100, 10_000))
  .map(([n, by]) => n / by);
const numbers: Made = fc
  .tuple(
    decimals,
    fc.tuple(decimals, decimals),
    fc.constantFrom('', 'minimum', 'exclusiveMinimum'),
    fc.constantFrom('', 'maximum', 'exclusiveMaximum'),
    fc.boolean(),
  )
  .map(([free, [x, y], low, high, whole]) => {
    const [a, b] = [Math.min(x, y), Math.max(x, y)],
      [least, most] = [Math.floor(a) - 1, Math.ceil(b) + 1],
      bounds = { ...(low && { [low]: whole ? least : a }), ...(high && { [high]: whole ? most : b + 1 }) };
    const inner = whole ? Math.floor((least + most) / 2) : a + 0.5,
      value = low || high ? Number(inner.toFixed(4)) : whole ? Math.trunc(free) : free;
    return { schema: { type: whole ? 'integer' : 'number', ...bounds }, value };
  });
const literals: Made = fc
  .tuple(
    fc.uniqueArray(
      fc.oneof(
        text(0, 5),
        fc.integer({ min: -99, max: 99 }),
        fc.boolean(),
        fc.constant(null),
        fc.constant([1, { a: 'é' }]),
        // many that begin and end alike
        { weight: 6, arbitrary: fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 1, maxLength: 3 }) },
      ),
      { minLength: 1, maxLength: 24, size: 'max', selector: (x) => JSON.stringify(x) },
    ),
    fc.boolean(),
  )
  .map(([values, one]) => ({ schema: one ? { const: values[0] } : { enum: values }, value: values[0] }));
const simple: Made = fc.oneof(
  strings,
  patterns,
  formatted,
  numbers,
  literals,
  fc.boolean().map((value) => ({ schema: { type: 'boolean' }, value })),
  fc.constant({ schema: { type: 'null' }, value: null }),
  fc.constantFrom<Case>(
    { schema: true, value: { x: [1, 'é', null] } },
    { schema: {}, value: [[], {}] },
    { schema: { type: 'object' }, value: { b: 1 } },
  ),
);

/** A case within others: lists, objects, choices, references, a tree. */
export const cases: Made = fc
  .letrec<{ any: Case }>((tie) => {
    const any = tie('any');
    const lists: Made = fc
      .tuple(fc.array(any, { maxLength: 2 }), any, fc.nat(2), fc.option(fc.nat(2), { nil: undefined }), fc.boolean())
      .map(([first, more, count, spare, closed]) => {
        const value = [
          ...first.map(({ value }) => value),
          ...(closed ? [] : Array.from({ length: count }, () => more.value)),
        ];
        return {
          schema: {
            type: 'array',
            ...(first.length > 0 && { prefixItems: first.map(({ schema }) => schema) }),
            items: closed ? false : more.schema,
            ...(spare !== undefined && { minItems: Math.max(0, value.length - spare), maxItems: value.length + spare }),
          },
          value,
        };
      });
    const objects: Made = fc
      .uniqueArray(fc.record({ name, one: any, required: fc.boolean(), there: fc.boolean() }), {
        maxLength: 4,
        selector: (member) => member.name,
      })
      // names that are numbers come first in JavaScript
      .map((members) => members.filter(({ name }) => !/^\d+$/.test(name)))
      .map((members) => ({
        schema: {
          type: 'object',
          properties: Object.fromEntries(members.map(({ name, one }) => [name, one.schema])),
          required: members.filter(({ required }) => required).map(({ name }) => name),
          additionalProperties: false,
        },
        value: Object.fromEntries(
          members.filter(({ required, there }) => required || there).map(({ name, one }) => [name, one.value]),
        ),
      }));
    const anyName = fc.constantFrom({}, { propertyNames: true }, { propertyNames: { type: 'string' } });
    const maps: Made = fc.tuple(any, fc.uniqueArray(name, { maxLength: 2 }), anyName).map(([one, names, any]) => ({
      schema: { type: 'object', additionalProperties: one.schema, ...any },
      value: Object.fromEntries(names.map((name) => [name, one.value])),
    }));
    const choices: Made = fc
      .array(any, { minLength: 1, maxLength: 3 })
      .map((all) => ({ schema: { anyOf: all.map(({ schema }) => schema) }, value: all.at(-1)?.value }));
    // as libraries write unions by a property that has a default
    const required = fc.constantFrom(['kind', 'it'], ['it']);
    const kinds: Made = fc.tuple(any, any, required, required).map(([a, b, first, second]) => ({
      schema: {
        oneOf: [
          { type: 'object', properties: { kind: { const: 'a' }, it: a.schema }, required: first },
          { type: 'object', properties: { kind: { enum: ['b', 'c'] }, it: b.schema }, required: second },
          { type: ['string', 'null'] },
        ],
      },
      value: { kind: 'c', it: b.value },
    }));
    return { any: fc.oneof({ maxDepth: 2 }, simple, lists, objects, maps, choices, kinds) };
  })
  .any.chain((one) =>
    fc.constantFrom<Case>(one, one, one, {
      schema: {
        $defs: {
          'a/b': one.schema,
          tree: {
            type: 'object',
            properties: { it: { $ref: '#/$defs/a~1b' }, more: { type: 'array', items: { $ref: '#/$defs/tree' } } },
            required: ['it'],
          },
        },
        $ref: '#/$defs/tree',
      },
      value: { it: one.value, more: [{ it: one.value }] },
    }),
  );
