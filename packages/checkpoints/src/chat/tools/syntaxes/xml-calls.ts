import { KvError } from '@kv/core';
import { byTool, optional, parametersOf, tag, type CallSyntax } from '../call-syntax.ts';
import type { Incoming, Reading } from '../incoming.ts';
import { jsonText, valueOfJson } from '../json-text.ts';
import { BEYOND } from '../literal-grammar.ts';
import {
  alternatives,
  asks,
  objectSchema,
  propertiesOf,
  schemaAt,
  typeOf,
  typesOf,
  valuesOf,
  type Schema,
} from '../schema.ts';
import type { AnswerStructure } from '../structure.ts';
import type { ToolFunction } from '../tool-format.ts';
import { NAME, told } from './json-calls.ts';

/**
 * Qwen3-Coder, Qwen 3.5: one element a parameter. Strings are written as they are, other values as JSON, so that the
 * schema says which of the two a text is.
 */
export const qwenXml: CallSyntax = {
  name: 'qwen3-coder',
  triggers: ['<tool_call>', '<function='],
  closers: ['</tool_call>'],
  marks: ['<tool_call>', '</tool_call>'],
  ends: [],
  separator: '\n',
  *read(input, report, tools) {
    if (input.taken === '<tool_call>') {
      yield* input.space();
      if (!(yield* input.literal('<function='))) return false;
    }
    const name = yield* input.all(NAME),
      tool = tools.get(name),
      fields: string[] = [];
    if (tool === undefined || !(yield* input.literal('>'))) return false;
    const kinds = kindsOf(tool);
    for (;;) {
      yield* input.space();
      if (!(yield* input.literal('<'))) return false;
      if ((yield* input.peek()) === '/') break;
      const field = yield* parameter(input, kinds);
      if (field === undefined) return false;
      fields.push(field);
    }
    return (yield* input.literal('/function>')) && told({ name, arguments: `{${fields.join(', ')}}` }, report);
  },
  // in text, `<tool_call>` need not come before: it is text, and calls are held to their schemas without it
  begins: '<function=',
  tag: (tools, parallel, alone) =>
    tag(
      `${alone ? '<tool_call>\n' : ''}<function=`,
      byTool(tools, (tool) => [`${tool.name}>\n`, ...parameters(tool)]),
      `</function>${alone || !parallel ? '\n</tool_call>' : ''}`,
    ),
};

/** Reads one parameter after its `<`, and returns it as a field in JSON. */
function* parameter(input: Incoming, kinds: ReadonlyMap<string, readonly string[]>): Reading<string | undefined> {
  if (!(yield* input.literal('parameter='))) return undefined;
  const key = yield* input.all(/[^>\n]/);
  if (!(yield* input.literal('>'))) return undefined;
  const types = kinds.get(key) ?? ['string'],
    value = types.includes('string') ? yield* mixedValue(input, types) : yield* jsonValue(input);
  return value === undefined ? undefined : `${JSON.stringify(key)}: ${value}`;
}

/** Reads a value that is no string: one in it may hold what ends a parameter. */
function* jsonValue(input: Incoming): Reading<string | undefined> {
  yield* input.space();
  const text = yield* jsonText(input);
  yield* input.space();
  return (yield* input.literal('</parameter>')) ? text : undefined;
}

/** Reads a value that may be a string, as JSON where it is written as another of the types. */
function* mixedValue(input: Incoming, types: readonly string[]): Reading<string | undefined> {
  let text = '';
  if ((yield* input.until(['</parameter>'], (part) => (text += part))) === undefined) return undefined;
  text = text.replace(/^\n/, '').replace(/\n$/, '');
  const value = valueOfJson(text);
  return value !== undefined && typeof value !== 'string' && types.includes(typeOf(value))
    ? text.trim()
    : JSON.stringify(text);
}

/** Returns the types that each parameter of a function may have. */
function kindsOf(tool: ToolFunction): ReadonlyMap<string, readonly string[]> {
  try {
    const root = parametersOf(tool) as Schema,
      of = (schema: Schema): readonly string[] => leaves(schema, root, tool.name).flatMap(kinds);
    return new Map(
      propertiesOf(objectSchema(root, tool.name), tool.name).map(([name, schema]) => [name, of(schema)] as const),
    );
  } catch {
    return new Map(); // a schema that no answer was held to
  }
}

const kinds = (schema: Schema): readonly string[] =>
  typesOf(schema).map((type) => (type === 'integer' ? 'number' : type));

/** Alternatives of a parameter at most. */
const MOST = 256;

/** Returns the schemas that a parameter may fit: alternatives and references are followed, each reference once. */
function leaves(schema: Schema, root: Schema, where: string): readonly Schema[] {
  const found: Schema[] = [],
    waiting = [schema],
    followed = new Set<unknown>();
  for (let one = waiting.pop(); one !== undefined; one = waiting.pop()) {
    const { $ref, type } = one;
    if ($ref !== undefined) {
      if (!followed.has($ref)) waiting.push(schemaAt(root, $ref, where));
      followed.add($ref);
      continue;
    }
    const all = alternatives(one, where);
    if (all[0] === one) found.push(one);
    else for (const each of all) waiting.push(type === undefined ? each : { type, ...each });
    if (found.length + waiting.length > MOST) throw new KvError(where, `expected at most ${MOST} alternatives`);
  }
  return found;
}

/** The parameters of a call, in the order of the schema. */
function parameters(tool: ToolFunction): readonly AnswerStructure[] {
  const root = parametersOf(tool) as Schema,
    schema = objectSchema(root, tool.name);
  return propertiesOf(schema, tool.name).map(([name, one, required]): AnswerStructure => {
    if (/[>\n]/.test(name))
      throw new KvError(
        tool.name,
        `the format qwen3-coder of this model cannot write a parameter ${JSON.stringify(name.slice(0, 60))}`,
      );
    const own = tag(`<parameter=${name}>\n`, parameterValue(one, root, `${tool.name}.${name}`), '\n</parameter>\n');
    return required ? own : optional(own);
  });
}

/** A parameter's value: a string as it is, others as JSON. */
function parameterValue(schema: Schema, root: Schema, where: string): AnswerStructure {
  const all = leaves(schema, root, where);
  if (!all.flatMap(kinds).includes('string')) return { type: 'json_schema', json_schema: withDefs(schema, root) };
  const elements = all.flatMap((one) => leafValues(one, root, where));
  return elements.find(({ type }) => type === 'any_text') ?? { type: 'or', elements };
}

function leafValues(schema: Schema, root: Schema, where: string): readonly AnswerStructure[] {
  const values = valuesOf(schema, where),
    alone = values ? 'enum and const' : typeof schema.pattern === 'string' ? 'pattern' : undefined,
    beyond = [...BEYOND, ...(alone === undefined ? [] : ['minLength', 'maxLength'])].find(
      (key) => asks(schema, key) && (key !== 'pattern' || values),
    );
  if (beyond !== undefined)
    throw new KvError(
      where,
      `the format qwen3-coder of this model cannot be held to ${beyond}${BEYOND.includes(beyond) ? '' : ` with ${alone}`}; leave it out`,
    );
  if (values)
    return values.map((one) => {
      const value = typeof one === 'string' ? one : JSON.stringify(one);
      if (!value.includes('</parameter>')) return { type: 'const_string', value };
      throw new KvError(
        where,
        `the format qwen3-coder of this model cannot write ${JSON.stringify(value.slice(0, 60))}`,
      );
    });
  return typesOf(schema).map((type) =>
    type === 'string'
      ? stringOf(schema, where)
      : { type: 'json_schema', json_schema: withDefs({ ...schema, type }, root) },
  );
}

function stringOf({ pattern, minLength, maxLength }: Schema, where: string): AnswerStructure {
  if (typeof pattern === 'string') return { type: 'regex', pattern };
  if (minLength === undefined && maxLength === undefined) return { type: 'any_text' };
  const [least, most] = [minLength ?? 0, maxLength ?? ''];
  if (!Number.isInteger(least) || (most !== '' && !Number.isInteger(most)))
    throw new KvError(where, 'expected minLength and maxLength to be counts');
  if (most !== '' && (least as number) > (most as number))
    throw new KvError(
      where,
      `expected minLength and maxLength that something fits, got ${least as number} and ${most as number}`,
    );
  return { type: 'grammar', grammar: `root ::= [^<]{${least as number},${most as number}}` };
}

/** A part of a schema, with what its references name. */
const withDefs = (schema: Schema, { $defs, definitions }: Schema): Schema => ({
  ...schema,
  ...($defs !== undefined && { $defs }),
  ...(definitions !== undefined && { definitions }),
});
