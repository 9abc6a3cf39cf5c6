import type { ChatMessage, ChatOptions, ChatTemplate } from '../chat-template.ts';
import type { ReasoningMarks } from './answer-reader.ts';
import type { CallSyntax } from './call-syntax.ts';
import { onceEach } from './once-each.ts';
import { granite3, hermes, llama3, mistralList, mistralNamed } from './syntaxes/json-calls.ts';
import { gemma4, lfm2 } from './syntaxes/literal-calls.ts';
import { qwenXml } from './syntaxes/xml-calls.ts';

/** What a chat template writes of calls, results and reasoning, found by rendering probes. */
export interface TemplateTraits {
  /** How it writes calls; undefined where it writes none that is known. */
  readonly syntax: CallSyntax | 'harmony' | undefined;
  /** Whether it writes the calls of a message; where it does not, calls go into the message's text. */
  readonly writesCalls: boolean;
  /** Whether it writes every call of a message, or one at most. */
  readonly writesSeveral: boolean;
  /** Whether arguments are given as objects, or as JSON text. */
  readonly objects: boolean;
  /** Whether ids of calls must have nine letters and digits. */
  readonly shortIds: boolean;
  /** Whether it writes messages of the role `tool`. */
  readonly writesResults: boolean;
  readonly reasoning: ReasoningMarks | undefined;
  /** Whether its prompts end within reasoning. */
  readonly opened: boolean;
}

const NAME = 'probe_function',
  KEY = 'probe_key',
  VALUE = 'probe value',
  RESULT = 'probe result',
  LONG_ID = 'call_0123456789abcdefghijklmn';

const TOOL = {
  type: 'function',
  function: {
    name: NAME,
    description: 'probe',
    parameters: { type: 'object', properties: { [KEY]: { type: 'string', description: 'probe' } }, required: [KEY] },
  },
};
const USER: ChatMessage = { role: 'user', content: 'probe question' };

const call = (name: string, objects: boolean, id: string): object => ({
  id,
  type: 'function',
  function: { name, arguments: objects ? { [KEY]: VALUE } : JSON.stringify({ [KEY]: VALUE }) },
});

const calls = (...made: readonly object[]): ChatMessage => ({ role: 'assistant', content: '', tool_calls: made });

/** How templates write the first call, with the value of its argument. */
const WRITTEN: readonly (readonly [RegExp, CallSyntax | 'harmony'])[] = [
  [/<tool_call>\s*\{"name": "probe_function", "arguments": \{"probe_key": "probe value"\}\}/, hermes],
  [/<tool_call>\s*<function=probe_function>\s*<parameter=probe_key>\s*probe value\s*<\/parameter>/, qwenXml],
  [/\[TOOL_CALLS\]\s*\[\{"name": "probe_function", "arguments": \{"probe_key": "probe value"\}/, mistralList],
  [/\[TOOL_CALLS\]probe_function\[CALL_ID\]\w+\[ARGS\]\{"probe_key": "probe value"\}/, mistralNamed(true)],
  [/\[TOOL_CALLS\]probe_function\[ARGS\]\{"probe_key": "probe value"\}/, mistralNamed(false)],
  [/<\|tool_call>call:probe_function\{probe_key:<\|"\|>probe value<\|"\|>\}/, gemma4],
  [/<\|tool_call_start\|>\[probe_function\(probe_key=["']probe value["']\)\]/, lfm2],
  [/ to=functions\.probe_function<\|channel\|>commentary[^{]*\{"probe_key": "probe value"\}/, 'harmony'],
  [/<\|tool_call\|>\s*\[\{"name": "probe_function", "arguments": \{"probe_key": "probe value"\}/, granite3],
  [/[^:>\]]\s\{"name": "probe_function", "parameters": \{"probe_key": "probe value"\}\}/, llama3],
];

/** What templates that write no calls tell the model of them. */
const TOLD: readonly (readonly [RegExp, CallSyntax])[] = [
  [/<tool_call>\s*\{"name":/, hermes],
  [/<\|tool_list_start\|>|List of tools: \[/, lfm2],
  [/<\|tool_call\|> followed by a JSON list/, granite3],
];

const REASONING: readonly ReasoningMarks[] = [
  { open: '<think>', close: '</think>' },
  { open: '<|channel>thought', close: '<channel|>' },
  { open: '[THINK]', close: '[/THINK]' },
];

/** Returns what a template writes; found once. */
export const traitsOf: (template: ChatTemplate) => TemplateTraits = onceEach(probe);

function probe(template: ChatTemplate): TemplateTraits {
  const render = (messages: readonly ChatMessage[], options: ChatOptions = {}): string => {
    try {
      return template(messages, { tools: [TOOL], addGenerationPrompt: false, ...options });
    } catch {
      return '';
    }
  };
  const one = (objects: boolean, id = 'probe1234'): string => render([USER, calls(call(NAME, objects, id))]),
    written = (text: string) => WRITTEN.find(([pattern]) => pattern.test(text))?.[1],
    objects = written(one(true)) !== undefined || written(one(false)) === undefined,
    syntax = written(one(objects)),
    toolPrompt = render([USER]),
    told = TOLD.find(([pattern]) => pattern.test(toolPrompt))?.[1],
    several = render([USER, calls(call(NAME, objects, 'probe1234'), call('probe_second', objects, 'probe5678'))]),
    result = render([
      USER,
      ...(syntax === undefined ? [] : [calls(call(NAME, objects, 'probe1234'))]),
      { role: 'tool', content: RESULT, name: NAME, tool_call_id: 'probe1234' },
    ]),
    prompt = render([USER], { addGenerationPrompt: true }),
    reasoning = reasoningOf(render, prompt);
  return {
    syntax: syntax ?? told,
    writesCalls: syntax !== undefined,
    writesSeveral: syntax === undefined || several.includes('probe_second'),
    objects,
    shortIds: syntax !== undefined && one(objects, LONG_ID) === '',
    writesResults: result.includes(RESULT),
    reasoning,
    opened: reasoning !== undefined && endsWithin(prompt, reasoning),
  };
}

/** Returns the marks of reasoning that a template writes, tells the model of, or takes out of earlier answers. */
function reasoningOf(
  render: (messages: readonly ChatMessage[], options?: ChatOptions) => string,
  prompt: string,
): ReasoningMarks | undefined {
  const thought = 'probe thought',
    said = { role: 'assistant', content: 'probe answer' },
    given = { reasoning_content: thought, reasoning: thought, thinking: thought },
    plain = [
      prompt,
      render([USER], { addGenerationPrompt: true, variables: { enable_thinking: false } }),
      render([USER, { ...said, ...given }]),
      render([USER, { ...calls(call(NAME, true, 'probe1234')), ...given }]),
    ].join('\n');
  return REASONING.find(({ open, close }) => {
    if (plain.includes(open) || plain.includes(close)) return true;
    const earlier = render([USER, { role: 'assistant', content: `${open}${thought}${close}probe answer` }, USER, said]);
    return earlier !== '' && !earlier.includes(thought);
  });
}

/** Whether a prompt ends within reasoning. */
export const endsWithin = (prompt: string, { open }: ReasoningMarks): boolean => prompt.trimEnd().endsWith(open);
