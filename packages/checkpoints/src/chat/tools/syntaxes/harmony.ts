import type { AnswerParts } from '../answer-reader.ts';
import { byTool, jsonArguments, optional, tag } from '../call-syntax.ts';
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
  const leave = (): void => {
    what = 'text';
    out.say(what, (header ?? '').replace(/^assistant/, ''));
    header = undefined;
  };
  for (;;) {
    const mark: string | undefined = yield* input.until(HARMONY_MARKS, pass);
    input.taken = '';
    if (mark === undefined) {
      if (header !== undefined) leave();
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
      if (header !== undefined && header !== '') leave();
      out.edge();
      header = '';
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

/** An answer that calls functions, one at most: the model ends it after a call. */
export function harmonyStructure(tools: readonly ToolFunction[], required: boolean): AnswerStructure {
  const call = tag(
    RECIPIENT,
    byTool(tools, (tool) => [tool.name, HEADER_END, jsonArguments(tool)]),
    '',
  );
  if (!required) return { type: 'triggered_tags', triggers: [RECIPIENT], tags: [call], stop_after_first: true };
  const channel = optional({ type: 'const_string', value: '<|channel|>commentary' });
  return afterAnalysis({ type: 'sequence', elements: [channel, call] });
}

/** An answer whose final message has a structure. */
export const harmonyText = (text: AnswerStructure): AnswerStructure =>
  afterAnalysis(tag('<|channel|>final<|message|>', text, ''));

const afterAnalysis = (body: AnswerStructure): AnswerStructure => ({
  type: 'sequence',
  elements: [optional(tag('<|channel|>analysis<|message|>', { type: 'any_text' }, '<|end|><|start|>assistant')), body],
});
