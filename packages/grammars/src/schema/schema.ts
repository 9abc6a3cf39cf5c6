import { KvError } from '@kv/core';
import { checkSize, expectWork } from './limits.ts';
import { formats, otherFormats } from './formats.ts';
import { JsonText } from './json-text.ts';
import { choice, ebnf, finite, never, oneOf, sequence, text } from './node.ts';
import type { Node, Rules } from './node.ts';
import { numbersWithin } from './numbers.ts';
import { patternNode } from './pattern.ts';

type Schema = Readonly<Record<string, unknown>>;
type JsonType = (typeof TYPES)[number];
const TYPES = ['object', 'array', 'string', 'number', 'boolean', 'null'] as const;

/** Most characters that a length may count: each is a state of its own. */
const longest = 256;

/** Most schemas within each other, references followed. */
const DEEPEST = 256;
/** Most schemas of a `oneOf` that are compared in pairs: those that are no lists of values. */
const MOST_COMPARED = 512;

/** Keywords of a type that grammars follow. */
const KEYWORDS: Readonly<Record<string, readonly string[]>> = {
  object: ['properties', 'required', 'additionalProperties'],
  array: ['items', 'prefixItems', 'minItems', 'maxItems'],
  string: ['minLength', 'maxLength', 'pattern', 'format'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'],
};
/** Keywords that stand for a whole schema. */
const WHOLE = ['$ref', 'const', 'enum', 'anyOf', 'oneOf', 'allOf'] as const;
/** Keywords of the standard's versions that no grammar follows, and the value with which each asks for nothing. */
const OTHERS: Readonly<Record<string, unknown>> = {
  ...{
    not: undefined,
    if: undefined,
    then: undefined,
    else: undefined,
    $dynamicRef: undefined,
    $recursiveRef: undefined,
  },
  ...{ patternProperties: undefined, propertyNames: undefined, minProperties: 0, maxProperties: undefined },
  ...{
    dependentRequired: undefined,
    dependentSchemas: undefined,
    dependencies: undefined,
    unevaluatedProperties: true,
  },
  ...{ additionalItems: true, contains: undefined, minContains: undefined, maxContains: undefined },
  ...{ uniqueItems: false, unevaluatedItems: true, multipleOf: undefined, extends: undefined, disallow: undefined },
};

/**
 * Returns a grammar (xgrammar's EBNF) of JSON texts that fit a schema.
 *
 * Every text of the grammar fits the schema. Not every text that fits is in the grammar: properties come in the
 * schema's order, and objects that name properties have no others. `allOf` has one schema, and the schemas of `oneOf` exclude each other.
 * @throws KvError, one sentence with the place in the schema, for a keyword that the grammar could not follow, a schema that nothing fits, or
 * one that would take too long to compile
 */
export function schemaGrammar(schema: unknown): string {
  checkSize(schema);
  const json = new JsonText(),
    reader = new SchemaReader(schema, json),
    root = reader.node(schema, 'schema');
  return grammarText(json, sequence(json.space, root));
}

/** Returns a grammar of any JSON object. */
export function objectGrammar(): string {
  const json = new JsonText();
  return grammarText(json, sequence(json.space, json.object));
}

/** Returns the rules of texts, and those that they need. @throws KvError where no text ends */
export function rulesOf(json: JsonText, value: Node): Rules {
  const rules = finite(new Map([['root', value], ...json.rules]));
  if (rules.has('root')) return rules;
  throw new KvError('schema', 'expected a schema that some finite value fits, got one that none does');
}

function grammarText(json: JsonText, value: Node): string {
  const rules = rulesOf(json, value);
  expectWork(rules);
  return ebnf(rules);
}

/** Reads a schema into the rules of a grammar. */
export class SchemaReader {
  readonly #root: unknown;
  readonly #json: JsonText;
  /** References that lead to each other with nothing between. */
  #open: readonly string[] = [];
  readonly #first: number;
  #objects: number;

  /** @param first number of its first rule, beyond those of other schemas in the same grammar */
  constructor(root: unknown, json: JsonText, first = 0) {
    this.#root = root;
    this.#json = json;
    this.#first = this.#objects = first;
  }

  /** Returns the values of a schema. @param at its place, for errors */
  node(schema: unknown, at: string): Node {
    if (this.#depth === DEEPEST)
      refuse('schema', `expected at most ${DEEPEST} schemas within each other, references followed, got more`);
    this.#depth++;
    const node = this.#node(schema, at);
    this.#depth--; // a reader that refused is not used again
    return node;
  }
  #depth = 0;

  #node(schema: unknown, at: string): Node {
    if (schema === true) return this.#json.value;
    if (schema === false) return never;
    const fields = objectOf(schema, at);
    this.#refuseOthers(fields, at);
    const whole = WHOLE.filter((keyword) => fields[keyword] !== undefined);
    if (whole.length > 0) return this.#whole(fields, whole, at);
    return choice(...this.#types(fields, at).map((type) => this.#ofType(type, fields, at)));
  }

  #refuseOthers(fields: Schema, at: string): void {
    for (const [keyword, idle] of Object.entries(OTHERS)) {
      const value = Object.hasOwn(fields, keyword) ? fields[keyword] : undefined;
      if (value === undefined || value === idle) continue;
      if (keyword === 'unevaluatedProperties' && value === false && fields.additionalProperties === undefined) continue;
      if (keyword === 'multipleOf' && value === 1 && fields.type === 'integer') continue;
      if (keyword === 'propertyNames' && (value === true || anyText(value))) continue;
      if (keyword === 'additionalItems' && Array.isArray(fields.items)) continue;
      refuse(at, `'${keyword}' cannot be followed`, 'leave it out and check the answer instead');
    }
    if (at !== 'schema' && typeof fields.$id === 'string' && !fields.$id.startsWith('#'))
      refuse(
        at,
        "'$id' below the root changes what references mean, which is not followed",
        'use $ref with #/$defs/NAME',
      );
  }

  /** Values of a schema that is one of `WHOLE`, which may only have a `type` next to it. */
  #whole(fields: Schema, whole: readonly (typeof WHOLE)[number][], at: string): Node {
    const [keyword, second] = whole,
      other =
        second ??
        Object.values(KEYWORDS)
          .flat()
          .find((name) => fields[name] !== undefined),
      both = whole.length === 2 && whole.includes('const') && whole.includes('enum');
    if (other !== undefined && !both)
      refuse(at, `'${other}' next to '${keyword}' cannot be followed`, 'write both as one schema');
    const types = fields.type === undefined ? undefined : this.#types(fields, at);
    if (keyword === 'const' || keyword === 'enum') return this.#literals(fields, types, at);
    const given =
        keyword === '$ref'
          ? [[fields.$ref, '$ref'] as const]
          : listOf(fields[keyword as string], `${at}.${keyword}`).map((one, i) => [one, `${keyword}[${i}]`] as const),
      options = keyword === 'oneOf' ? this.#tagged(given, at) : given;
    if (keyword === 'allOf' && options.length !== 1)
      refuse(at, `'allOf' of ${options.length} schemas cannot be followed`, 'write them as one schema');
    if (types)
      for (const [option] of options) {
        const of = this.#possible(keyword === '$ref' ? fields : option, at);
        if (!of || [...of].some((type) => !types.includes(type)))
          refuse(at, `'type' next to '${keyword}' cannot be followed`, 'give each of the schemas its type');
      }
    if (keyword === '$ref') return this.#reference(fields.$ref, at);
    if (keyword === 'oneOf')
      this.#expectApart(
        options.map(([option]) => this.#traits(option, at)),
        `${at}.oneOf`,
      );
    return choice(...options.map(([option, name]) => this.node(option, `${at}.${name}`)));
  }

  /**
   * Returns schemas of objects in which a property that tells them apart, by a value of its own in each, is required: where
   * it is left out, as a default allows, an object may fit several.
   */
  #tagged(options: readonly (readonly [schema: unknown, name: string])[], at: string): typeof options {
    const all = options.map(([option]) => this.#followed(option, at)),
      objects = all.flatMap((fields) =>
        typeof fields?.properties === 'object' && fields.properties !== null ? [fields.properties as Schema] : [],
      );
    const texts = (properties: Schema, name: string): readonly string[] | undefined => {
      const property = Object.hasOwn(properties, name) ? this.#followed(properties[name], at) : undefined,
        values = property && this.#values(property, at);
      return values?.every((value) => typeof value !== 'object' || value === null)
        ? [...new Set(values.map((value) => JSON.stringify(value)))]
        : undefined;
    };
    const tag = Object.keys(objects[0] ?? {}).find((name) => {
      const own = objects.map((properties) => texts(properties, name));
      return own.every((some) => some !== undefined) && new Set(own.flat()).size === own.flat().length;
    });
    if (tag === undefined || objects.length === 1) return options;
    return options.map(([option, name], i) => {
      const { properties, required = [] } = all[i] ?? {};
      return objects.includes(properties as Schema) && Array.isArray(required) && !required.includes(tag)
        ? [{ ...all[i], required: [...required, tag] }, name]
        : [option, name];
    });
  }

  #literals(fields: Schema, types: readonly JsonType[] | undefined, at: string): Node {
    const values = this.#values(fields, at) as readonly unknown[],
      integers = types !== undefined && [fields.type].flat().every((type) => type !== 'number');
    const fit = values.filter(
      (value) =>
        !types ||
        (types.includes(typeOf(value)) && !(integers && typeof value === 'number' && !Number.isInteger(value))),
    );
    const whole = (value: unknown): boolean => typeof value === 'object' && value !== null;
    return choice(
      oneOf(fit.filter((value) => !whole(value)).map((value) => JSON.stringify(value))),
      ...fit.filter(whole).map((value) => this.#literal(value)),
    );
  }
  #literal(value: unknown): Node {
    if (typeof value !== 'object' || value === null) return text(JSON.stringify(value));
    if (Array.isArray(value))
      return this.#json.list(
        value.map((item: unknown) => this.#literal(item)),
        undefined,
        value.length,
        value.length,
      );
    const members = Object.entries(value).map(([name, one]) => ({ name, value: this.#literal(one), required: true }));
    return this.#json.members(members, `members-${this.#objects++}`);
  }
  /** Returns the values of `const` and `enum`, if a schema has either. */
  #values(fields: Schema, at: string): readonly unknown[] | undefined {
    const listed = fields.enum === undefined ? undefined : listOf(fields.enum, `${at}.enum`);
    if (fields.const === undefined) return listed;
    const written = JSON.stringify(fields.const);
    return listed && !listed.some((value) => JSON.stringify(value) === written) ? [] : [fields.const];
  }

  #types(fields: Schema, at: string): readonly JsonType[] {
    if (fields.type === undefined) {
      const meant = TYPES.filter((type) => KEYWORDS[type]?.some((keyword) => fields[keyword] !== undefined));
      return meant.length > 0 ? meant : TYPES;
    }
    const names = [fields.type].flat(),
      types = names.map((name) => (name === 'integer' ? 'number' : name) as JsonType),
      unknown = types.findIndex((type) => !TYPES.includes(type));
    if (unknown >= 0 || names.length === 0)
      refuse(at, `type must be one or some of ${TYPES.join(', ')} and integer, got ${shown(fields.type)}`);
    return [...new Set(types)];
  }

  #ofType(type: JsonType, fields: Schema, at: string): Node {
    switch (type) {
      case 'object':
        return this.#inside(() => this.#object(fields, at));
      case 'array':
        return this.#inside(() => this.#array(fields, at));
      case 'string':
        return this.#string(fields, at);
      case 'number':
        return this.#number(fields, at);
      case 'boolean':
        return choice(text('true'), text('false'));
      case 'null':
        return text('null');
    }
  }

  /** Reads what is between brackets, where references may lead back. */
  #inside(read: () => Node): Node {
    const open = this.#open;
    this.#open = [];
    const node = read();
    this.#open = open;
    return node;
  }

  #object(fields: Schema, at: string): Node {
    const properties = fields.properties === undefined ? {} : objectOf(fields.properties, `${at}.properties`),
      required = fields.required === undefined ? [] : listOf(fields.required, `${at}.required`),
      { additionalProperties: more = true } = fields,
      wrong = required.find((name) => typeof name !== 'string');
    if (wrong !== undefined) refuse(`${at}.required`, `must be names, got ${shown(wrong)}`);
    const names = [...new Set([...Object.keys(properties), ...(required as string[])])];
    if (names.length === 0 && more !== false && fields.unevaluatedProperties !== false)
      return more === true ? this.#json.object : this.#json.map(this.node(more, `${at}.additionalProperties`));
    const members = names.map((name) => ({
      name,
      value: Object.hasOwn(properties, name)
        ? this.node(properties[name], `${at}.properties.${name}`)
        : this.node(more, `${at}.additionalProperties`),
      required: required.includes(name),
    }));
    return this.#json.members(members, `members-${this.#objects++}`);
  }

  #array(fields: Schema, at: string): Node {
    // a list of items, and what comes after them, as drafts before 2020 have it
    const old = Array.isArray(fields.items) && fields.prefixItems === undefined,
      name = old ? 'items' : 'prefixItems',
      listed = fields[name],
      first = listed === undefined ? [] : listOf(listed, `${at}.${name}`),
      least = lengthOf(fields, 'minItems', at) ?? 0,
      most = lengthOf(fields, 'maxItems', at) ?? Infinity;
    if (!old && Array.isArray(fields.items))
      refuse(`${at}.items`, 'must be a schema next to prefixItems, got a list', 'write the list as prefixItems');
    if (first.length - least > DEEPEST)
      refuse(
        `${at}.${name}`,
        `must have at most ${DEEPEST} more than minItems, got ${first.length - least}`,
        'raise minItems',
      );
    const { [old ? 'additionalItems' : 'items']: items = true } = fields;
    if (least > most || (items === false && least > first.length)) return never;
    return this.#json.list(
      first.map((item, i) => this.node(item, `${at}.${name}[${i}]`)),
      items === false ? undefined : this.node(items, `${at}.${old ? 'additionalItems' : 'items'}`),
      least,
      most,
    );
  }

  #string(fields: Schema, at: string): Node {
    const least = lengthOf(fields, 'minLength', at) ?? 0,
      most = lengthOf(fields, 'maxLength', at) ?? Infinity,
      { pattern, format } = fields;
    if (pattern !== undefined && typeof pattern !== 'string')
      refuse(`${at}.pattern`, `must be a text, got ${shown(pattern)}`);
    if (pattern === undefined && typeof format === 'string' && otherFormats.has(format))
      refuse(at, `format '${format}' cannot be followed`, 'leave it out and check the answer instead');
    const expression = (pattern as string | undefined) ?? formats.get(format as string);
    if (expression === undefined) {
      if (least > most) return never;
      if (Math.max(least, most === Infinity ? 0 : most) > longest)
        refuse(
          at,
          `minLength and maxLength of more than ${longest} would take too long to compile`,
          'leave them out and check the answer instead',
        );
      return this.#json.string(least, most);
    }
    if (least > 0 || most < Infinity)
      refuse(
        at,
        `a length next to '${pattern === undefined ? 'format' : 'pattern'}' cannot be followed`,
        'write the length into the pattern, as in ^[a-z]{2,8}$',
      );
    const name = this.#named('pattern', expression);
    return this.#json.named(name, () =>
      patternNode(this.#json, name, expression, (why) => refuse(`${at}.pattern`, `${shown(expression)} ${why}`)),
    );
  }

  #number(fields: Schema, at: string): Node {
    const names = [fields.type].flat(),
      whole = names.includes('integer') && !names.includes('number'),
      bound = (name: string): number | undefined => {
        const value = fields[name];
        if (value === undefined || (typeof value === 'number' && Number.isFinite(value))) return value;
        return refuse(`${at}.${name}`, `must be a number, got ${shown(value)}`);
      };
    const [least, above, most, below] = ['minimum', 'exclusiveMinimum', 'maximum', 'exclusiveMaximum'].map(bound);
    if (least === undefined && above === undefined && most === undefined && below === undefined)
      return whole ? this.#json.integer : this.#json.number;
    const leastOut = above !== undefined && (least === undefined || above >= least),
      mostOut = below !== undefined && (most === undefined || below <= most),
      low = leastOut ? above : least,
      high = mostOut ? below : most;
    const node = numbersWithin(
      { ...(low !== undefined && { least: low }), ...(high !== undefined && { most: high }), leastOut, mostOut },
      whole,
    );
    return node ?? refuse(at, `bounds must have at most 15 digits, got ${shown([low, high])}`);
  }

  #reference(ref: unknown, at: string): Node {
    if (typeof ref !== 'string') return refuse(`${at}.$ref`, `must be a text, got ${shown(ref)}`);
    if (this.#open.includes(ref)) return refuse(at, `$ref ${shown(ref)} leads back to itself with nothing between`);
    const open = this.#open;
    this.#open = [...open, ref];
    const node = this.#json.named(this.#named('ref', ref), () => this.node(this.#target(ref, at), ref));
    this.#open = open;
    return node;
  }
  /** Returns a rule's name: a number for each text of a kind, in the order in which they come. */
  #named(kind: string, text: string): string {
    const key = `${kind} ${text}`;
    this.#numbers.set(key, this.#numbers.get(key) ?? this.#first + this.#numbers.size);
    return `${kind}-${this.#numbers.get(key)}`;
  }
  readonly #numbers = new Map<string, number>();

  /** Returns what a reference within the schema names. */
  #target(ref: string, at: string): unknown {
    if (ref !== '#' && !ref.startsWith('#/'))
      return refuse(`${at}.$ref`, `must be a place in the schema itself, as in #/$defs/NAME, got ${shown(ref)}`);
    let target = this.#root;
    for (const part of ref.split('/').slice(1)) {
      let key = part;
      try {
        key = decodeURIComponent(part);
      } catch {} // as it is written
      key = key.replaceAll('~1', '/').replaceAll('~0', '~');
      if (typeof target !== 'object' || target === null || !Object.hasOwn(target, key))
        return refuse(`${at}.$ref`, `${shown(ref)} leads to nothing: there is no ${shown(key)}`);
      target = (target as Record<string, unknown>)[key];
    }
    return target;
  }

  /** Returns the types that values of a schema may have, undefined for any. References are followed a few times. */
  #possible(schema: unknown, at: string, depth = 8): ReadonlySet<JsonType> | undefined {
    const found = this.#typesKnown[depth],
      known = found?.get(schema);
    if (known !== undefined || found?.has(schema)) return known;
    const types = this.#possibleTypes(schema, at, depth);
    (this.#typesKnown[depth] ??= new Map()).set(schema, types);
    return types;
  }
  /** What is known of a schema by the depth that is left. */
  readonly #typesKnown: Map<unknown, ReadonlySet<JsonType> | undefined>[] = [];

  #possibleTypes(schema: unknown, at: string, depth: number): ReadonlySet<JsonType> | undefined {
    const fields = this.#followed(schema, at, depth);
    if (!fields) return undefined;
    const values = this.#values(fields, at);
    if (values) return new Set(values.map(typeOf));
    const { anyOf, oneOf } = fields,
      options = Array.isArray(anyOf) ? anyOf : Array.isArray(oneOf) ? oneOf : undefined;
    if (options && depth > 0) {
      const all = options.map((one: unknown) => this.#possible(one, at, depth - 1));
      return all.every((types) => types !== undefined) ? new Set(all.flatMap((types) => [...types])) : undefined;
    }
    return fields.type === undefined && this.#types(fields, at).length === TYPES.length
      ? undefined
      : new Set(this.#types(fields, at));
  }
  #followed(schema: unknown, at: string, depth = 8): Schema | undefined {
    if (typeof schema !== 'object' || schema === null || depth === 0) return undefined;
    const { $ref, allOf } = schema as Schema;
    if (typeof $ref === 'string') return this.#followed(this.#target($ref, at), at, depth - 1);
    if (Array.isArray(allOf) && allOf.length === 1) return this.#followed(allOf[0], at, depth - 1);
    return schema as Schema;
  }

  /** Refuses schemas of which a value may fit two. */
  #expectApart(all: readonly Traits[], at: string): void {
    const refusal = (i: number, j: number): never =>
      refuse(
        at,
        `a value may fit both of its schemas ${Math.min(i, j)} and ${Math.max(i, j)}, which cannot be ruled out`,
        'use anyOf',
      );
    // plain values are apart where their texts are
    const owners = new Map<string, number>(),
      compared = [...all.keys()].filter((i) => !all[i]?.texts || all[i].brackets);
    for (const [i, { texts, brackets }] of all.entries())
      if (texts && !brackets)
        for (const text of texts) {
          const other = owners.get(text);
          if (other !== undefined) refusal(other, i);
          owners.set(text, i);
        }
    if (compared.length > MOST_COMPARED)
      refuse(
        at,
        `must have at most ${MOST_COMPARED} schemas that are more than lists of values, got ${compared.length}`,
        'use anyOf',
      );
    for (const i of compared)
      for (const [j, other] of all.entries()) if (i !== j && !apart(all[i] as Traits, other)) refusal(i, j);
  }

  /** Returns that by which values of a schema may differ from those of another. @param tags whether to read its properties */
  #traits(schema: unknown, at: string, tags = true): Traits {
    const fields = this.#followed(schema, at),
      values = fields && this.#values(fields, at),
      types = this.#possible(schema, at),
      { properties, required } = fields ?? {},
      plain = values?.filter((value) => typeof value !== 'object' || value === null);
    const traits: Traits = {
      types,
      texts: plain && new Set(plain.map((value) => JSON.stringify(value))),
      brackets: values?.length !== plain?.length,
      tags: new Map(),
    };
    const object = tags && types && [...types].every((type) => type === 'object');
    if (!object || !Array.isArray(required) || typeof properties !== 'object' || properties === null) return traits;
    const own = required.filter((name) => typeof name === 'string' && Object.hasOwn(properties, name)) as string[];
    return {
      ...traits,
      tags: new Map(own.map((name) => [name, this.#traits((properties as Schema)[name], at, false)])),
    };
  }
}

/** Whether a schema of names lets every name through. */
const anyText = (schema: unknown): boolean =>
  typeof schema === 'object' &&
  schema !== null &&
  Object.entries(schema).every(([keyword, value]) => keyword === 'type' && value === 'string');

/** That by which values of a schema may differ from those of another. */
interface Traits {
  readonly types: ReadonlySet<JsonType> | undefined;
  /** The texts of its plain values, if it lists values, and whether it lists objects or arrays too. */
  readonly texts: ReadonlySet<string> | undefined;
  readonly brackets: boolean;
  /** Those of the properties that its objects have. */
  readonly tags: ReadonlyMap<string, Traits>;
}

/** Whether no value fits both: by their types, their values, or the value of a property that both require. */
function apart(a: Traits, b: Traits): boolean {
  if (a.types && b.types && disjoint(a.types, b.types)) return true;
  if (differ(a, b)) return true;
  for (const [name, own] of a.tags) {
    const other = b.tags.get(name);
    if (other && differ(own, other)) return true;
  }
  return false;
}
const differ = (a: Traits, b: Traits): boolean =>
  a.texts !== undefined && b.texts !== undefined && !(a.brackets && b.brackets) && disjoint(a.texts, b.texts);
const disjoint = <T>(a: ReadonlySet<T>, b: ReadonlySet<T>): boolean => {
  const [few, many] = a.size < b.size ? [a, b] : [b, a];
  for (const one of few) if (many.has(one)) return false;
  return true;
};

const typeOf = (value: unknown): JsonType =>
  value === null ? 'null' : Array.isArray(value) ? 'array' : (typeof value as JsonType);

function objectOf(value: unknown, at: string): Schema {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Schema;
  return refuse(at, `must be an object${at.endsWith('properties') ? '' : ' or true or false'}, got ${shown(value)}`);
}
function listOf(value: unknown, at: string): readonly unknown[] {
  if (Array.isArray(value) && (value.length > 0 || at.endsWith('required'))) return value;
  return refuse(at, `must be a list${at.endsWith('required') ? '' : ' with something in it'}, got ${shown(value)}`);
}
function lengthOf(fields: Schema, name: string, at: string): number | undefined {
  const value = fields[name];
  if (value === undefined || (Number.isInteger(value) && (value as number) >= 0)) return value as number | undefined;
  return refuse(`${at}.${name}`, `must be a whole number of at least 0, got ${shown(value)}`);
}

/** Returns a short text of a value. */
function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
function refuse(at: string, why: string, remedy?: string): never {
  throw new KvError(at, remedy ? `${why}: ${remedy}` : why);
}
