import { KvError } from '@kv/core';
import { parametersOf, tag, type CallSyntax } from '../call-syntax.ts';
import type { Incoming, Reading } from '../incoming.ts';
import { parsed } from '../json-text.ts';
import { alternatives, objectSchema, propertiesOf, referred, typeOf, typesOf, type Schema } from '../schema.ts';
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
  tags: (tools) =>
    tools.flatMap((tool) => {
      const content = parameters(tool),
        [begin, end] = [`<function=${tool.name}>\n`, '</function>'];
      return [tag(`<tool_call>\n${begin}`, content, `${end}\n</tool_call>`), tag(begin, content, end)];
    }),
};

/** Reads one parameter after its `<`, and returns it as a field in JSON. */
function* parameter(input: Incoming, kinds: ReadonlyMap<string, readonly string[]>): Reading<string | undefined> {
  if (!(yield* input.literal('parameter='))) return undefined;
  const key = yield* input.all(/[^>\n]/);
  if (!(yield* input.literal('>'))) return undefined;
  let text = '';
  if ((yield* input.until(['</parameter>'], (part) => (text += part))) === undefined) return undefined;
  text = text.replace(/^\n/, '').replace(/\n$/, '');
  const value = parsed(text),
    types = kinds.get(key) ?? ['string'],
    other = value !== undefined && typeof value !== 'string' && types.includes(typeOf(value));
  if (!other && !types.includes('string') && value === undefined) return undefined;
  return `${JSON.stringify(key)}: ${other || !types.includes('string') ? text.trim() : JSON.stringify(text)}`;
}

/** Returns the types that each parameter of a function may have. */
function kindsOf(tool: ToolFunction): ReadonlyMap<string, readonly string[]> {
  try {
    const root = parametersOf(tool) as Schema;
    return new Map(
      propertiesOf(objectSchema(root, tool.name), tool.name).map(([name, schema]) => [
        name,
        kinds(schema, root, tool.name),
      ]),
    );
  } catch {
    return new Map(); // a schema that no answer was held to
  }
}

function kinds(schema: Schema, root: Schema, where: string, depth = 0): readonly string[] {
  if (depth > 8) return ['string'];
  if (schema.$ref !== undefined) return kinds(referred(root, schema.$ref, where), root, where, depth + 1);
  const all = alternatives(schema, where);
  return all[0] === schema
    ? typesOf(schema).map((type) => (type === 'integer' ? 'number' : type))
    : [...new Set(all.flatMap((one) => kinds(one, root, where, depth + 1)))];
}

/** The parameters of a call, in the order of the schema. */
function parameters(tool: ToolFunction): AnswerStructure {
  const root = parametersOf(tool) as Schema,
    schema = objectSchema(root, tool.name),
    elements = propertiesOf(schema, tool.name).map(([name, one, required]): AnswerStructure => {
      if (/[>\n]/.test(name))
        throw new KvError(
          tool.name,
          `the format qwen3-coder of this model cannot write a parameter ${JSON.stringify(name.slice(0, 60))}`,
        );
      const own = tag(`<parameter=${name}>\n`, parameterValue(one, root, `${tool.name}.${name}`), '\n</parameter>\n');
      return required ? own : { type: 'or', elements: [own, NOTHING] };
    });
  return elements.length === 0 ? NOTHING : { type: 'sequence', elements };
}

const NOTHING: AnswerStructure = { type: 'grammar', grammar: 'root ::= ""' };

/** A parameter's value: a string as it is, others as JSON. */
function parameterValue(schema: Schema, root: Schema, where: string): AnswerStructure {
  const types = kinds(schema, root, where);
  if (!types.includes('string')) return { type: 'json_schema', json_schema: withDefs(schema, root) };
  const inner = schema.$ref === undefined ? schema : referred(root, schema.$ref, where),
    all = alternatives(inner, where);
  if (all[0] !== inner) return { type: 'or', elements: all.map((one) => parameterValue(one, root, where)) };
  const values = inner.const !== undefined ? [inner.const] : inner.enum;
  if (Array.isArray(values))
    return {
      type: 'or',
      elements: values.map((value) => ({
        type: 'const_string',
        value: typeof value === 'string' ? value : JSON.stringify(value),
      })),
    };
  const others = types.filter((type) => type !== 'string');
  if (others.length > 0 && inner.type !== undefined)
    return {
      type: 'or',
      elements: ['string', ...others].map((type) => parameterValue({ ...inner, type }, root, where)),
    };
  return stringOf(inner, where);
}

function stringOf({ pattern, minLength, maxLength }: Schema, where: string): AnswerStructure {
  if (typeof pattern === 'string') return { type: 'regex', pattern };
  if (minLength === undefined && maxLength === undefined) return { type: 'any_text' };
  const [least, most] = [minLength ?? 0, maxLength ?? ''];
  if (!Number.isInteger(least) || (most !== '' && !Number.isInteger(most)))
    throw new KvError(where, 'expected minLength and maxLength to be counts');
  return { type: 'grammar', grammar: `root ::= [^<]{${least as number},${most as number}}` };
}

/** A part of a schema, with what its references name. */
const withDefs = (schema: Schema, { $defs, definitions }: Schema): Schema => ({
  ...schema,
  ...($defs !== undefined && { $defs }),
  ...(definitions !== undefined && { definitions }),
});
