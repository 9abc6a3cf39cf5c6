import type { AnswerParts } from '../answer-reader.ts';
import { byTool, jsonArguments, NOTHING, optional, tag } from '../call-syntax.ts';
import type { Incoming, Reading } from '../incoming.ts';
import { isObject, jsonText } from '../json-text.ts';
import type { AnswerStructure } from '../structure.ts';
import type { ToolFunction } from '../tool-format.ts';

/** Special tokens of OpenAI's Harmony, which gpt-oss writes its messages in. */
export const HARMONY_MARKS = [
  '<|start|>',
  '<|channel|>',
  '<|constrain|>',
  '<|message|>',
  '<|end|>',
  '<|return|>',
  '<|call|>',
];

/** Before the header of a later message. */
const START = '<|start|>assistant';
/** Before the name of the function that a message is for. */
const RECIPIENT = ' to=functions.';
/** Characters of a header at most. */
const HEADER = 256;

/**
 * Reads messages, `header<|message|>text<|end|>`: those of the channel `analysis` are reasoning, those to a function
 * are calls, others are text.
 */
export function* readHarmony(input: Incoming, out: AnswerParts, tools: readonly ToolFunction[]): Reading<void> {
  const offered = new Set(tools.map(({ name }) => name));
  /** What has come of a header; undefined within a message. */
  let header: string | undefined = '',
    what: 'text' | 'reasoning' = 'text';
  const pass = (text: string): void => {
    input.taken = '';
    if (header === undefined) out.say(what, text);
    else if ((header += text).length > HEADER) leave();
  };
  /** Gives a header that none has been as text. */
  const leave = (text = header ?? ''): void => {
    what = 'text';
    out.say(what, text.replace(/^<\|start\|>(?:assistant)?/, ''));
    header = undefined;
  };
  /** Leaves a header that ended before its message: what its special tokens begin is no text. */
  const drop = (): void => leave(header?.split(/<\|(?:start|channel|constrain)\|>/, 1)[0]);
  for (;;) {
    const mark: string | undefined = yield* input.until(HARMONY_MARKS, pass);
    input.taken = '';
    if (mark === undefined) {
      if (header !== undefined) drop();
      return out.end();
    }
    if (mark === '<|channel|>' || mark === '<|constrain|>') header = `${header ?? ''}${mark}`;
    else if (mark === '<|message|>') {
      const read: string = header ?? '',
        name = recipientOf(read);
      [header, what] = [undefined, /<\|channel\|>\s*analysis/.test(read) ? 'reasoning' : 'text'];
      out.edge();
      if (name === undefined) continue;
      yield* input.space();
      const text = yield* jsonText(input);
      if (text !== undefined && isObject(text) && offered.has(name)) out.call({ name, arguments: text });
      else out.say('text', input.taken);
      input.taken = '';
    } else {
      if (header !== undefined && header !== '') drop();
      out.edge();
      header = mark === '<|start|>' ? mark : '';
    }
  }
}

/** Returns the function that a header names. */
function recipientOf(header: string): string | undefined {
  const at = header.indexOf(RECIPIENT);
  return at < 0 ? undefined : /^[\w.-]+/.exec(header.slice(at + RECIPIENT.length))?.[0];
}

/** What a call's header may have after the name. */
const HEADER_END: AnswerStructure = {
  type: 'or',
  elements: [
    ' <|constrain|>json',
    '<|channel|>commentary json',
    '<|channel|>commentary <|constrain|>json',
    ' json',
    '',
  ].map((form) => ({ type: 'const_string', value: `${form}<|message|>` })),
};

/** What the header of a call may have before its recipient. */
const CHANNELS: readonly string[] = ['', '<|channel|>commentary', '<|channel|>analysis'];

/** How headers begin that are not of a call, up to where they differ from those: there are few such places to compile. */
const OTHER_HEADER = `root ::= [^ <] | to | "<|channel|>" ("final" | ("commentary" | "analysis") ([^ ] | to))
to ::= " " ([^t] | "to=" [^f])`;

/**
 * An answer that calls functions; the model ends it after a call. A call begins in a header alone, that of the prompt or a
 * later one: the same words elsewhere are text.
 */
export function harmonyStructure(tools: readonly ToolFunction[], required: boolean): AnswerStructure {
  const call: AnswerStructure = {
    type: 'sequence',
    elements: [
      {
        type: 'or',
        elements: CHANNELS.map((value) => (value === '' ? NOTHING : { type: 'const_string', value })),
      },
      tag(
        RECIPIENT,
        byTool(tools, (tool) => [tool.name, HEADER_END, jsonArguments(tool)]),
        '',
      ),
    ],
  };
  if (required) return afterAnalysis(call);
  const header: AnswerStructure = { type: 'or', elements: [call, { type: 'grammar', grammar: OTHER_HEADER }] };
  return {
    type: 'sequence',
    elements: [header, { type: 'triggered_tags', triggers: [START], tags: [tag(START, header, '')] }],
  };
}

/** An answer whose final message has a structure. */
export const harmonyText = (text: AnswerStructure): AnswerStructure =>
  afterAnalysis(tag('<|channel|>final<|message|>', text, ''));

const afterAnalysis = (body: AnswerStructure): AnswerStructure => ({
  type: 'sequence',
  elements: [optional(tag('<|channel|>analysis<|message|>', { type: 'any_text' }, `<|end|>${START}`)), body],
});
