import { KvError } from '@kv/core';
import { writeLiteral, type Literals } from './literals.ts';
import { alternatives, asks, propertiesOf, schemaAt, schemaOf, typesOf, valuesOf, type Schema } from './schema.ts';

/** Keywords that the grammars of values cannot hold an answer to. */
export const BEYOND: readonly string[] = [
  ...['pattern', 'multipleOf', 'uniqueItems', 'contains', 'prefixItems', 'not', 'if', 'dependentRequired'],
  ...['dependentSchemas', 'dependencies', 'patternProperties', 'propertyNames', 'minProperties', 'maxProperties'],
  ...['unevaluatedProperties', 'unevaluatedItems'],
];
/** Keywords that are not joined with those of alternatives. */
const WITH = [
  '$ref',
  'anyOf',
  'oneOf',
  'allOf',
  'properties',
  'required',
  'additionalProperties',
  'items',
  'enum',
  'const',
];
const BOUNDS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'];

/** Levels of a schema, and rules that schemas may become together. */
const DEEPEST = 64;
const MOST_RULES = 2 ** 14;

/** Writes grammars in EBNF of values that fit JSON schemas, as a format writes them. */
export class LiteralGrammar {
  readonly #form: Literals;
  readonly #rules = new Map<string, string>();
  /** Rules that are made once, by name. */
  readonly #named = new Map<string, string>();
  /** Schemas that a `$ref` may name parts of; their rules are not those of another. */
  readonly #roots: Schema[] = [];
  /** References that lead to each other with nothing between. */
  #open: readonly string[] = [];
  #depth = 0;

  constructor(form: Literals) {
    this.#form = form;
  }

  /** Adds a rule and returns its name. */
  rule(body: string): string {
    if (this.#rules.size === MOST_RULES)
      throw new KvError(
        'tools',
        `expected schemas of at most ${MOST_RULES} rules together in the format ${this.#form.format}`,
      );
    const name = `r${this.#rules.size}`;
    this.#rules.set(name, body);
    return name;
  }

  /** Returns the grammar with `body` as its root. @throws KvError for schemas that no finite value fits */
  grammar(body: string): string {
    const ends = new Set<string>();
    for (let before = -1; before < ends.size; ) {
      before = ends.size;
      for (const [name, rule] of this.#rules) if (!ends.has(name) && reachesEnd(rule, ends)) ends.add(name);
    }
    if (ends.size < this.#rules.size)
      throw new KvError('tools', 'expected schemas that some finite value fits, got one that requires itself');
    return [`root ::= ${body}`, ...Array.from(this.#rules, ([name, rule]) => `${name} ::= ${rule}`)].join('\n');
  }

  /** Returns the rule of the properties of an object, without brackets. */
  members(schema: Schema, root: Schema, where: string, key: (name: string) => string): string {
    const { comma } = this.#form,
      between = `${quoted(comma)} `;
    let first = '""',
      later = '""';
    for (const [name, one, required] of this.#ordered(propertiesOf(schema, where)).toReversed()) {
      const value = this.#inside(() => this.value(one, root, `${where}.${name}`)),
        member = this.rule(`${key(name)} ${value}`);
      const [next, after] = [first, later];
      later = this.rule(required ? `${between}${member} ${after}` : `(${between}${member})? ${after}`);
      first = this.rule(required ? `${member} ${after}` : `${member} ${after} | ${next}`);
    }
    return first;
  }

  #ordered<T extends readonly [string, ...unknown[]]>(properties: readonly T[]): readonly T[] {
    if (!this.#form.sorted) return properties;
    const place = ([name]: T): string => name.toLowerCase();
    return properties.toSorted((a, b) => (place(a) < place(b) ? -1 : place(a) > place(b) ? 1 : 0));
  }

  /** Returns the rule of a value. @throws KvError naming what cannot be expressed */
  value(schema: Schema, root: Schema, where: string): string {
    if (this.#depth === DEEPEST) throw new KvError(where, `expected schemas of at most ${DEEPEST} levels`);
    this.#depth++;
    try {
      return this.#value(schema, root, where);
    } finally {
      this.#depth--;
    }
  }

  #value(schema: Schema, root: Schema, where: string): string {
    const chosen = ['$ref', 'anyOf', 'oneOf', 'allOf'].find((key) => schema[key] !== undefined),
      beyond = [...BEYOND, ...(chosen === undefined ? [] : WITH)].find((key) => asks(schema, key) && key !== chosen);
    if (beyond !== undefined)
      throw new KvError(
        where,
        `the format ${this.#form.format} of this model cannot be held to ${beyond}${WITH.includes(beyond) ? ` with ${chosen}` : ''}; leave it out`,
      );
    if (chosen === '$ref') {
      if (!this.#roots.includes(root)) this.#roots.push(root);
      const key = `${this.#roots.indexOf(root)} ${String(schema.$ref)}`,
        open = this.#open;
      if (open.includes(key))
        throw new KvError(
          where,
          `expected a $ref that leads to a value, got ${String(schema.$ref).slice(0, 60)}, which leads back to itself`,
        );
      this.#open = [...open, key];
      const rule = this.#once(key, () => this.value(schemaAt(root, schema.$ref, where), root, where));
      this.#open = open;
      return rule;
    }
    if (chosen !== undefined)
      return this.#either(
        alternatives(schema, where).map((one) =>
          this.value(schema.type === undefined ? one : { type: schema.type, ...one }, root, where),
        ),
      );
    const values = valuesOf(schema, where);
    if (values) return this.rule(values.map((value) => quoted(writeLiteral(value, this.#form, where))).join(' | '));
    const types = typesOf(schema);
    if (types.length === 0) throw new KvError(where, 'expected a type, got a list of none');
    return this.#either(types.map((type) => this.#typed(type, schema, root, where)));
  }

  /** Reads what is between brackets, where references may lead back. */
  #inside(read: () => string): string {
    const open = this.#open;
    this.#open = [];
    const rule = read();
    this.#open = open;
    return rule;
  }

  #typed(type: string, schema: Schema, root: Schema, where: string): string {
    const { words } = this.#form;
    if (type === 'string') return this.#string(schema, where);
    if (type === 'boolean') return this.rule([...words[0], ...words[1]].map(quoted).join(' | '));
    if (type === 'null') return this.rule(words[2].map(quoted).join(' | '));
    if (type === 'integer' || type === 'number') return this.#number(type, schema, where);
    if (type === 'array') return this.#array(schema, root, where);
    if (type === 'object') return this.#object(schema, root, where);
    throw new KvError(where, `expected a type of JSON, got ${JSON.stringify(type)?.slice(0, 60)}`);
  }

  #string({ minLength, maxLength }: Schema, where: string): string {
    const least = count(minLength, 0, where),
      most = count(maxLength, undefined, where);
    expectOrder(least, most, 'minLength and maxLength', where);
    return this.#either(
      this.#form.quotes.map((quote) => this.rule(`${quoted(quote)} ${this.#rest(quote, least, most)}`)),
    );
  }

  /** What is left of a string. One rule for each number of characters: strings share them, and they compile fast. */
  #rest(quote: string, least: number, most: number | undefined): string {
    const char = this.#char(quote, least > 0 || most !== undefined);
    let rest = most === undefined ? `${char}* ${quoted(quote)}` : quoted(quote);
    for (let left = 1; left <= (most ?? least); left++) {
      const then = rest,
        needed = most === undefined || left > most - least;
      rest = this.#once(`rest ${quote} ${left} ${most === undefined ? 'more' : needed ? most - least : ''}`, () =>
        needed ? `${char} ${then}` : `${quoted(quote)} | ${char} ${then}`,
      );
    }
    return rest;
  }

  /** A character of a string between two quotes; several that stand for themselves, unless they are counted. */
  #char(quote: string, counted: boolean): string {
    if (!this.#form.escapes) return counted ? '[^<]' : this.#once('char', () => this.rule('[^<] | "<"+ [^<|]'));
    return this.#once(`char ${quote}`, () =>
      this.rule(
        String.raw`[^${quote}\\\x00-\x1f] | "\\" (["'\\nrt] | "u" [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F])`,
      ),
    );
  }

  #number(type: string, schema: Schema, where: string): string {
    const bounds = boundsOf(schema, where);
    if (bounds.least !== undefined || bounds.most !== undefined)
      return this.rule(type === 'integer' ? integers(bounds.least, bounds.most) : numbers(bounds, schema, where));
    const whole = '"-"? ("0" | [1-9] [0-9]{0,15})';
    return this.#once(type, () => this.rule(type === 'integer' ? whole : `${whole} ("." [0-9]{1,16})?`));
  }

  #array(schema: Schema, root: Schema, where: string): string {
    const { minItems, maxItems } = schema,
      least = count(minItems, 0, where),
      most = count(maxItems, undefined, where);
    expectOrder(least, most, 'minItems and maxItems', where);
    const item =
      schema.items === undefined
        ? this.#any()
        : this.#inside(() => this.value(schemaOf(schema.items, where), root, `${where}[]`));
    if (most === 0) return this.rule('"[]"');
    const more = `(${quoted(this.#form.comma)} ${item})${times(Math.max(0, least - 1), most === undefined ? undefined : most - 1, where)}`;
    return this.rule(`"[" ${least === 0 ? `(${item} ${more})?` : `${item} ${more}`} "]"`);
  }

  #object(schema: Schema, root: Schema, where: string): string {
    if (schema.properties !== undefined || schema.required !== undefined)
      return this.rule(`"{" ${this.members(schema, root, where, (name) => this.#key(name, where))} "}"`);
    const free = schema.additionalProperties;
    if (free === false) return this.rule('"{}"');
    const value =
        free === undefined || free === true
          ? this.#any()
          : this.#inside(() => this.value(schemaOf(free, where), root, `${where}.*`)),
      { comma, colon, bareKeys } = this.#form,
      key = bareKeys ? '[a-zA-Z0-9_]{1,64}' : this.#string({}, where),
      member = this.rule(`${key} ${quoted(colon)} ${value}`);
    return this.rule(`"{" (${member} (${quoted(comma)} ${member})*)? "}"`);
  }

  /** A key of an object, and what follows it. */
  #key(name: string, where: string): string {
    const { bareKeys, colon, format } = this.#form;
    if (!bareKeys) return `${quoted(JSON.stringify(name))} ${quoted(colon)}`;
    if (name === '' || /[:{}[\],\s<]/.test(name))
      throw new KvError(
        where,
        `the format ${format} of this model cannot write a property ${JSON.stringify(name.slice(0, 60))}`,
      );
    return quoted(name + colon);
  }

  /** Any value. */
  #any(): string {
    return this.#once('any', () => this.value({}, {}, 'tools'));
  }

  #either(rules: readonly string[]): string {
    return rules.length === 1 ? (rules[0] as string) : this.rule(rules.join(' | '));
  }

  /** Returns the rule of a key, made once: it may name itself. */
  #once(key: string, make: () => string): string {
    const known = this.#named.get(key);
    if (known !== undefined) return known;
    const name = this.rule('');
    this.#named.set(key, name);
    this.#rules.set(name, make());
    return name;
  }
}

/** A text in EBNF. */
export const quoted = (text: string): string =>
  `"${Array.from(text, (char) => (/[ !#-[\]-~]/.test(char) ? char : escaped(char))).join('')}"`;

function escaped(char: string): string {
  const code = (char.codePointAt(0) as number).toString(16);
  return code.length <= 4 ? String.raw`\u${code.padStart(4, '0')}` : String.raw`\U${code.padStart(8, '0')}`;
}

/** Repetitions in EBNF. */
function times(least: unknown, most: unknown, where: string): string {
  const [from, to] = [count(least, 0, where), count(most, undefined, where)];
  return from === 0 && to === undefined ? '*' : `{${from},${to ?? ''}}`;
}

function count<T>(given: unknown, usual: T, where: string): number | T {
  if (given === undefined) return usual;
  if (Number.isInteger(given) && (given as number) >= 0) return given as number;
  throw new KvError(where, `expected a count of at least 0, got ${JSON.stringify(given)?.slice(0, 60)}`);
}

function expectOrder(least: number, most: number | undefined, names: string, where: string): void {
  if (most !== undefined && least > most)
    throw new KvError(where, `expected ${names} that something fits, got ${least} and ${most}`);
}

const PARTS = /"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|r\d+|[()|*?]|\{0,/g;

/** Returns whether some text of a rule ends, where those of other rules do. */
function reachesEnd(rule: string, ends: ReadonlySet<string>): boolean {
  let option = { any: false, all: true, last: true };
  const outer: (typeof option)[] = [],
    done = (): boolean => option.any || (option.all && option.last);
  const take = (last: boolean): void => {
    option = { ...option, all: option.all && option.last, last };
  };
  for (const [part] of rule.matchAll(PARTS)) {
    if (part === '(') {
      outer.push(option);
      option = { any: false, all: true, last: true };
    } else if (part === ')') {
      const ended = done();
      option = outer.pop() as typeof option;
      take(ended);
    } else if (part === '|') option = { any: done(), all: true, last: true };
    else if (part === '*' || part === '?' || part === '{0,') option.last = true;
    else take(!part.startsWith('r') || ends.has(part));
  }
  return done();
}

/** The least and the most integer between bounds, and whether numbers next to them are in too. */
interface Bounds {
  readonly least: number | undefined;
  readonly most: number | undefined;
  /** The least that numbers lie above, and the most that they lie below. */
  readonly above: number | undefined;
  readonly below: number | undefined;
}

/** Returns the bounds of a schema; those beyond what numbers tell apart say nothing. */
function boundsOf(schema: Schema, where: string): Bounds {
  const bound = (key: string): number | undefined => {
    const value = schema[key];
    if (value === undefined) return undefined;
    if (typeof value !== 'number')
      throw new KvError(where, `expected ${key} to be a number, got ${JSON.stringify(value)?.slice(0, 60)}`);
    return Math.abs(value) >= Number.MAX_SAFE_INTEGER ? undefined : value;
  };
  const low = bound('minimum') ?? -Infinity,
    high = bound('maximum') ?? Infinity,
    lowOut = bound('exclusiveMinimum') ?? -Infinity,
    highOut = bound('exclusiveMaximum') ?? Infinity,
    least = Math.max(Math.ceil(low), Math.floor(lowOut) + 1),
    most = Math.min(Math.floor(high), Math.ceil(highOut) - 1);
  if (least > most)
    throw new KvError(where, `expected bounds with a whole number between them, got ${least} and ${most}`);
  const finite = (value: number): number | undefined => (Number.isFinite(value) ? value : undefined);
  return {
    least: finite(least),
    most: finite(most),
    above: finite(Math.max(low, lowOut)),
    below: finite(Math.min(high, highOut)),
  };
}

/** Whole numbers between two bounds, in EBNF. */
function integers(least: number | undefined, most: number | undefined): string {
  const made: string[] = [];
  if (most === undefined || most >= 0) made.push(...naturals(Math.max(0, least ?? 0), most));
  if (least === undefined || least < 0)
    made.push(
      ...naturals(Math.max(1, most === undefined ? 1 : -most), least === undefined ? undefined : -least).map(
        (one) => `"-" ${one}`,
      ),
    );
  return made.join(' | ');
}

/** Whole numbers from `least`, not negative, to `most`; alternatives in EBNF. */
function naturals(least: number, most: number | undefined): readonly string[] {
  const made: string[] = [];
  let from = least;
  const top = most ?? Number.MAX_SAFE_INTEGER;
  while (from <= top) {
    // the longest run from here that ends in nines: all endings of some digits
    let span = 1;
    while (from % (span * 10) === 0 && from + span * 10 - 1 <= top && (from > 0 || span === 0)) span *= 10;
    const digits = String(from),
      free = String(span).length - 1,
      head = digits.slice(0, digits.length - free),
      last = Number(head.at(-1)),
      room = Math.min(9 - last, Math.floor((top - from + 1) / span) - 1),
      range =
        room === 0 ? quoted(head) : `${head.length > 1 ? `${quoted(head.slice(0, -1))} ` : ''}[${last}-${last + room}]`;
    made.push(free === 0 ? range : `${range} [0-9]{${free}}`);
    from += span * (room + 1);
  }
  return made;
}

/** Numbers between whole bounds, in EBNF. */
function numbers({ least, most, above, below }: Bounds, schema: Schema, where: string): string {
  const odd = BOUNDS.find((key) => schema[key] !== undefined && !Number.isInteger(schema[key]));
  if (odd !== undefined)
    throw new KvError(where, `expected a whole number as ${odd} of a number in this model's format of calls`);
  const parts = [integers(least, most)];
  const fraction = '"." [0-9]{0,15} [1-9]';
  // n.f lies between n and n + 1, -n.f between -n - 1 and -n
  const inner = (from: number | undefined, to: number | undefined): readonly string[] =>
    to !== undefined && (from ?? 0) > to - 1 ? [] : naturals(from ?? 0, to === undefined ? undefined : to - 1);
  const plus = below !== undefined && below <= 0 ? [] : inner(Math.max(0, above ?? 0), below),
    minus =
      above !== undefined && above >= 0
        ? []
        : inner(Math.max(0, below === undefined ? 0 : -below), above === undefined ? undefined : -above);
  if (plus.length > 0) parts.push(`(${plus.join(' | ')}) ${fraction}`);
  if (minus.length > 0) parts.push(`"-" (${minus.join(' | ')}) ${fraction}`);
  return parts.join(' | ');
}
