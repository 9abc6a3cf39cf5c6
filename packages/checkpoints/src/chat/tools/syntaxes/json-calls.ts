import type { CallSyntax, ReadCall } from '../call-syntax.ts';
import { byTool, jsonArguments, SHORT_ID, tag } from '../call-syntax.ts';
import type { Incoming, Reading } from '../incoming.ts';
import { isObject, jsonFields, jsonText, stringOf } from '../json-text.ts';
import { JSON_VALUES, writeLiteral } from '../literals.ts';
import type { AnswerStructure, AnswerTag } from '../structure.ts';
import type { ToolFunction } from '../tool-format.ts';

/** Hermes, Qwen 2.5 and 3, Granite 4: an object between two marks. */
export const hermes: CallSyntax = {
  name: 'hermes',
  triggers: ['<tool_call>'],
  closers: ['</tool_call>'],
  marks: ['<tool_call>', '</tool_call>'],
  ends: [],
  separator: '\n',
  *read(input, report) {
    yield* input.space();
    return told(yield* jsonCall(input), report);
  },
  write: (calls) =>
    calls.flatMap((call, i) => [
      ...(i > 0 ? ['\n'] : []),
      { mark: '<tool_call>' },
      `\n${writeLiteral(call, JSON_VALUES, call.name)}\n`,
      { mark: '</tool_call>' },
    ]),
  tag: (tools) => jsonTag(tools, '<tool_call>\n', 'arguments', '\n</tool_call>'),
};

/** How an answer of Llama 3 begins that is a call; what text may not begin with is told alike in `first`. */
const LLAMA3 = /^(?:<\|python_tag\|>)?\s*\{[\t-\r ]*"(?:name"|type"[\t-\r ]*:[\t-\r ]*"function")/;

/** Llama 3.1 to 3.3: an answer that is an object, perhaps of the type `function`. */
export const llama3: CallSyntax = {
  name: 'llama3',
  triggers: ['{', '<|python_tag|>'],
  first: [' { "name"', ' { "type" : "function"', ' <|python_tag|>'],
  closers: [],
  marks: ['<|python_tag|>'],
  ends: ['<|eom_id|>', '<|eot_id|>'],
  separator: '',
  single: true,
  *read(input, report) {
    if (input.taken.startsWith('{')) input.unread(input.taken);
    yield* input.space();
    const call = yield* jsonCall(input);
    return LLAMA3.test(input.taken) && told(call, report);
  },
  tag: (tools) =>
    tag(
      '',
      {
        type: 'sequence',
        elements: [
          {
            type: 'grammar',
            grammar: String.raw`root ::= [ \n]{0,2} "{" " "? ("\"type\": \"function\", ")? "\"name\": \""`,
          },
          named(tools, 'parameters'),
        ],
      },
      '}',
    ),
};

/** Mistral until 2024: one list. */
export const mistralList: CallSyntax = listAfter('mistral', '[TOOL_CALLS]');

/** Granite 3: one list. */
export const granite3: CallSyntax = listAfter('granite3', '<|tool_call|>');

/** Mistral since 2025: the name, perhaps an id, and arguments. */
export const mistralNamed = (withId: boolean): CallSyntax => ({
  name: withId ? 'mistral-ids' : 'mistral-names',
  triggers: ['[TOOL_CALLS]'],
  closers: [],
  marks: ['[TOOL_CALLS]', '[CALL_ID]', '[ARGS]'],
  ends: [],
  separator: '',
  *read(input, report) {
    const name = yield* input.all(NAME);
    let id: string | undefined;
    if ((yield* input.literal('[')) && (yield* input.peek()) === 'C') {
      if (!(yield* input.literal('CALL_ID]'))) return false;
      id = shortId(yield* input.all(NAME));
      yield* input.literal('[');
    }
    if (!(yield* input.literal('ARGS]'))) return false;
    yield* input.space();
    const text = yield* jsonText(input);
    return told(text === undefined ? undefined : { name, arguments: text, id }, report);
  },
  tag: (tools) =>
    tag(
      '[TOOL_CALLS]',
      byTool(tools, (tool) =>
        withId
          ? [`${tool.name}[CALL_ID]`, { type: 'regex', pattern: '[a-zA-Z0-9]{9}' }, '[ARGS]', jsonArguments(tool)]
          : [`${tool.name}[ARGS]`, jsonArguments(tool)],
      ),
      '',
    ),
});

/** Characters of a function's name. */
export const NAME = /[\w.-]/;

/** A list of objects after a mark. */
function listAfter(name: string, mark: string): CallSyntax {
  return {
    name,
    triggers: [mark],
    closers: [],
    marks: [mark],
    ends: [],
    separator: '',
    single: true,
    *read(input, report) {
      yield* input.space();
      let between = '[';
      do {
        if (!(yield* input.literal(between))) return false;
        yield* input.space();
        if (!told(yield* jsonCall(input), report)) return false;
        yield* input.space();
        between = ',';
      } while ((yield* input.peek()) === ',');
      return yield* input.literal(']');
    },
    write: (calls) => [{ mark }, writeLiteral(calls, JSON_VALUES, name)],
    tag: (tools, parallel) =>
      tag(
        `${mark}[`,
        {
          type: 'tags_with_separator',
          tags: [jsonTag(tools, '', 'arguments', '')],
          separator: ', ',
          at_least_one: true,
          ...(!parallel && { stop_after_first: true }),
        },
        ']',
      ),
  };
}

const jsonTag = (tools: readonly ToolFunction[], before: string, field: string, after: string): AnswerTag =>
  tag(`${before}{"name": "`, named(tools, field), `}${after}`);

/** A function's name after its quote, and its arguments. */
const named = (tools: readonly ToolFunction[], field: string): AnswerStructure =>
  byTool(tools, (tool) => [`${tool.name}", "${field}": `, jsonArguments(tool)]);

/** Reads an object with a name and arguments. */
function* jsonCall(input: Incoming): Reading<ReadCall | undefined> {
  const fields = yield* jsonFields(input),
    name = stringOf(fields?.get('name')),
    given = fields?.get('arguments') ?? fields?.get('parameters');
  return name === undefined || given === undefined
    ? undefined
    : { name, arguments: given, id: shortId(stringOf(fields?.get('id'))) };
}

/** Returns an id if every chat template takes it. */
const shortId = (id: string | undefined): string | undefined => (SHORT_ID.test(id ?? '') ? id : undefined);

/** Reports a call if it is one. */
export const told = (call: ReadCall | undefined, report: (call: ReadCall) => boolean): boolean =>
  call !== undefined && isObject(call.arguments) && report(call);
