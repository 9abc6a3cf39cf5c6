import type { AnswerParts } from '../answer-reader.ts';
import { jsonArguments, tag } from '../call-syntax.ts';
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

/** An answer that calls functions, one at most: the model ends it after a call. */
export function harmonyStructure(tools: readonly ToolFunction[], required: boolean): AnswerStructure {
  const json = tools.map((tool) => [tool, jsonArguments(tool)] as const);
  if (!required)
    return {
      type: 'triggered_tags',
      triggers: [RECIPIENT],
      tags: json.flatMap(([{ name }, content]) =>
        [
          ' <|constrain|>json',
          '<|channel|>commentary json',
          '<|channel|>commentary <|constrain|>json',
          ' json',
          '',
        ].map((form) => tag(`${RECIPIENT}${name}${form}<|message|>`, content, '')),
      ),
      stop_after_first: true,
    };
  const call: AnswerStructure = {
    type: 'or',
    elements: json.flatMap(([{ name }, content]) => [
      tag(`<|channel|>commentary${RECIPIENT}${name} <|constrain|>json<|message|>`, content, ''),
      tag(`${RECIPIENT}${name}<|channel|>commentary json<|message|>`, content, ''),
    ]),
  };
  return afterAnalysis(call);
}

/** An answer whose final message has a structure. */
export const harmonyText = (text: AnswerStructure): AnswerStructure =>
  afterAnalysis(tag('<|channel|>final<|message|>', text, ''));

const afterAnalysis = (body: AnswerStructure): AnswerStructure => ({
  type: 'or',
  elements: [
    body,
    {
      type: 'sequence',
      elements: [tag('<|channel|>analysis<|message|>', { type: 'any_text' }, '<|end|><|start|>assistant'), body],
    },
  ],
});
