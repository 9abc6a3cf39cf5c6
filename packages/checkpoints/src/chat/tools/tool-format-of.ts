import { KvError } from '@kv/core';
import type { ChatTemplate } from '../chat-template.ts';
import { readAnswer, readerOf, tokenOf, type ReasoningMarks } from './answer-reader.ts';
import { optional, tag, type CallSyntax } from './call-syntax.ts';
import { quoted } from './literal-grammar.ts';
import { endsWithin, traitsOf, type TemplateTraits } from './recognise.ts';
import type { AnswerStructure } from './structure.ts';
import { HARMONY_MARKS, harmonyStructure, harmonyText, readHarmony } from './syntaxes/harmony.ts';
import type { AnswerReader, ToolChoice, ToolFormat, ToolFunction } from './tool-format.ts';

/**
 * Returns the format that a chat template writes calls of functions in, found by rendering probes; undefined if it
 * writes none, or none that is known.
 */
export function toolFormatOf(template: ChatTemplate): ToolFormat | undefined {
  const traits = traitsOf(template),
    { syntax } = traits;
  if (syntax === undefined) return undefined;
  const { marks, reader, structure: afterThought } = answersOf(template);
  if (syntax === 'harmony')
    return {
      name: 'harmony',
      marks,
      ends: ['<|call|>'],
      reader,
      structure: (tools, choice) =>
        choice === 'none' ? ANY : harmonyStructure(chosen(tools, choice), choice !== 'auto'),
    };
  return {
    name: syntax.name,
    marks,
    ends: syntax.ends,
    reader,
    structure(tools, choice, parallel, prompt) {
      if (choice === 'none') return ANY;
      const several = parallel && traits.writesSeveral;
      return afterThought(callsOf(syntax, chosen(tools, choice), choice !== 'auto', several), prompt);
    },
  };
}

/** How answers are read, whether or not functions are offered. */
export interface AnswerFormat {
  /** Whether answers may have reasoning or channels, apart from their text for the user. */
  readonly apart: boolean;
  /** Texts of special tokens that an answer's decoder writes out. */
  readonly marks: readonly string[];
  /**
   * Returns a reader of one answer.
   * @param tools functions that it may call. @defaultValue none
   * @param prompt the rendered prompt, which may end within reasoning. @defaultValue as the template's prompts do
   */
  reader(tools?: readonly ToolFunction[], prompt?: string): AnswerReader;
  /**
   * Returns the structure of an answer whose text for the user has a structure: that, after reasoning where the answers
   * have it, and in the channel that the format has for it.
   * @param prompt as of `reader`
   */
  structure(text: AnswerStructure, prompt?: string): AnswerStructure;
}

/** Returns how answers to a template's prompts are read: reasoning is split off, and calls where the template has them. */
export function answersOf(template: ChatTemplate): AnswerFormat {
  const traits = traitsOf(template),
    { syntax, reasoning } = traits;
  if (syntax === 'harmony')
    return {
      apart: true,
      marks: HARMONY_MARKS,
      reader: (tools = []) => readerOf((input, out) => readHarmony(input, out, tools)),
      structure: (text) => harmonyText(text),
    };
  return {
    apart: reasoning !== undefined,
    marks: [...(syntax?.marks ?? []), ...(reasoning ? [tokenOf(reasoning), reasoning.close] : [])],
    reader: (tools = [], prompt?) =>
      readerOf((input, out) => readAnswer(input, out, { syntax, reasoning, tools, opened: opens(traits, prompt) })),
    structure: (text, prompt) => (reasoning ? afterReasoning(text, reasoning, opens(traits, prompt)) : text),
  };
}

const ANY: AnswerStructure = { type: 'any_text' };

const opens = ({ reasoning, opened }: TemplateTraits, prompt: string | undefined): boolean =>
  prompt === undefined ? opened : reasoning !== undefined && endsWithin(prompt, reasoning);

/** Returns the functions that an answer may call. @throws KvError if there are none, or for names that no format writes */
function chosen(tools: readonly ToolFunction[], choice: ToolChoice): readonly ToolFunction[] {
  const names = new Set<string>();
  for (const [i, { name }] of tools.entries()) {
    if (!/^[\w.-]{1,128}$/.test(name))
      throw new KvError(
        `tools[${i}]`,
        `expected a name of letters, digits, _, - and ., 128 at most, got ${JSON.stringify(name).slice(0, 60)}`,
      );
    if (names.has(name)) throw new KvError(`tools[${i}]`, `expected a name of its own, got ${name} again`);
    names.add(name);
  }
  const some = typeof choice === 'object' ? tools.filter(({ name }) => name === choice.name) : tools;
  if (some.length > 0) return some;
  throw new KvError(
    'tools',
    typeof choice === 'object'
      ? `expected the choice of a function that is offered (${[...names].join(', ').slice(0, 200) || 'none'}), got ${choice.name.slice(0, 64)}`
      : 'expected at least one function, got none',
  );
}

function callsOf(
  syntax: CallSyntax,
  tools: readonly ToolFunction[],
  required: boolean,
  parallel: boolean,
): AnswerStructure {
  const one = syntax.tag(tools, parallel, required || syntax.first !== undefined),
    { triggers, begins, separator, first } = syntax,
    once = !parallel || syntax.single === true;
  if (first !== undefined) {
    // the call itself, or what announces it
    const before = triggers.slice(1),
      call: AnswerStructure = {
        type: 'sequence',
        elements: [...before.map((value) => optional({ type: 'const_string', value })), one],
      };
    const text: AnswerStructure = { type: 'grammar', grammar: textNotBeginningWith(first) };
    return required ? call : { type: 'or', elements: [call, text] };
  }
  const calls = { type: 'triggered_tags', triggers: begins === undefined ? triggers : [begins], tags: [one] } as const;
  if (!required) return { ...calls, ...(once && { stop_after_first: true }) };
  if (once) return one;
  return separator === ''
    ? { ...calls, at_least_one: true }
    : { type: 'tags_with_separator', tags: [one], separator, at_least_one: true };
}

/** Puts reasoning before a structure: what the prompt has begun, or any. */
function afterReasoning(body: AnswerStructure, { open, close }: ReasoningMarks, opened: boolean): AnswerStructure {
  const thought: AnswerStructure = {
    type: 'sequence',
    elements: [tag(opened ? '' : open, ANY, close), { type: 'regex', pattern: '\n{0,2}' }],
  };
  return { type: 'sequence', elements: [opened ? thought : optional(thought), body] };
}

/** White space of ASCII, that which a reader finds calls after. */
const SPACE = String.raw`\x09-\x0d\x20`;

/** A grammar of text that begins with none of the texts, in which a space is any white space or none. */
function textNotBeginningWith(texts: readonly string[]): string {
  const rules: string[] = [];
  const at = (begun: string): string => {
    const next = [...new Set(texts.filter((text) => text.startsWith(begun)).map((text) => text.charAt(begun.length)))];
    if (next.includes(' ')) return `[${SPACE}]* ${at(`${begun} `)}`;
    const others = next.map((char) => (/[\^\]\\-]/.test(char) ? `\\${char}` : char)).join(''),
      inner = next.filter((char) => !texts.includes(begun + char)).map((char) => `${quoted(char)} ${at(begun + char)}`);
    return `r${rules.push(['""', `[^${others}${begun.endsWith(' ') ? SPACE : ''}] rest`, ...inner].join(' | ')) - 1}`;
  };
  const root = at('');
  return [`root ::= ${root}`, 'rest ::= [^\\0]*', ...rules.map((rule, i) => `r${i} ::= ${rule}`)].join('\n');
}
