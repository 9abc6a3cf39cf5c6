import { KvError } from '@kv/core';
import { parametersOf, tag, type CallSyntax } from '../call-syntax.ts';
import type { Reading } from '../incoming.ts';
import { LiteralGrammar, quoted } from '../literal-grammar.ts';
import { GEMMA, listAsJson, literalAsJson, PYTHON, writeLiteral } from '../literals.ts';
import { objectSchema, schemaOf } from '../schema.ts';
import { NAME, told } from './json-calls.ts';

/** Gemma 4: `call:NAME{key:value}`, where strings stand between special tokens. */
export const gemma4: CallSyntax = {
  name: 'gemma4',
  triggers: ['<|tool_call>'],
  closers: ['<tool_call|>'],
  marks: ['<|tool_call>', '<tool_call|>', '<|"|>'],
  ends: ['<|tool_response>'],
  separator: '',
  *read(input, report) {
    if (!(yield* input.literal('call:'))) return false;
    const name = yield* input.all(NAME),
      text = yield* literalAsJson(input, GEMMA);
    return told(text === undefined ? undefined : { name, arguments: text }, report);
  },
  tag(tools) {
    const grammar = new LiteralGrammar(GEMMA),
      calls = tools.map((tool) => {
        const root = schemaOf(parametersOf(tool), tool.name);
        return `${quoted(tool.name)} ${grammar.value(objectSchema(root, tool.name), root, tool.name)}`;
      });
    return tag('<|tool_call>call:', { type: 'grammar', grammar: grammar.grammar(calls.join(' | ')) }, '<tool_call|>');
  },
};

/** LFM2: a list of Python's calls with named arguments. */
export const lfm2: CallSyntax = {
  name: 'lfm2',
  triggers: ['<|tool_call_start|>'],
  closers: ['<|tool_call_end|>'],
  marks: ['<|tool_call_start|>', '<|tool_call_end|>'],
  ends: [],
  separator: '',
  single: true,
  *read(input, report) {
    let reported = false;
    const call = function* (): Reading<string | undefined> {
      const name = yield* input.all(NAME),
        text = yield* listAsJson(input, ['(', ')'], function* () {
          const key = yield* input.all(/\w/);
          yield* input.space();
          if (key === '' || !(yield* input.literal('='))) return undefined;
          yield* input.space();
          const value = yield* literalAsJson(input, PYTHON);
          return value === undefined ? undefined : `${JSON.stringify(key)}:${value}`;
        });
      reported = text !== undefined && told({ name, arguments: `{${text.slice(1, -1)}}` }, report);
      return reported ? '' : undefined;
    };
    yield* input.space();
    return (yield* listAsJson(input, ['[', ']'], call)) !== undefined && reported;
  },
  write: (calls) => [
    { mark: '<|tool_call_start|>' },
    `[${calls
      .map(
        ({ name, arguments: given }) =>
          `${name}(${Object.entries(given)
            .map(([key, value]) => `${key}=${writeLiteral(value, PYTHON, name)}`)
            .join(', ')})`,
      )
      .join(', ')}]`,
    { mark: '<|tool_call_end|>' },
  ],
  tag(tools, parallel) {
    const grammar = new LiteralGrammar(PYTHON),
      calls = tools.map((tool) => {
        const root = schemaOf(parametersOf(tool), tool.name),
          schema = objectSchema(root, tool.name),
          key = (name: string): string => {
            if (/^[A-Za-z_]\w*$/.test(name)) return quoted(`${name}=`);
            throw new KvError(
              tool.name,
              `the format lfm2 of this model cannot write a parameter ${JSON.stringify(name.slice(0, 60))}`,
            );
          };
        return grammar.rule(`${quoted(`${tool.name}(`)} ${grammar.members(schema, root, tool.name, key)} ")"`);
      }),
      one = grammar.rule(calls.join(' | ')),
      all = parallel ? `${one} (", " ${one})*` : one;
    return tag('<|tool_call_start|>[', { type: 'grammar', grammar: grammar.grammar(all) }, ']<|tool_call_end|>');
  },
};
