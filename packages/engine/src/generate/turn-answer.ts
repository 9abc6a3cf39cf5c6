import { answersOf, type AnswerFormat, type AnswerReader } from '@kv/checkpoints';
import type { Model } from '../memory/runtime.ts';
import type { Chunk } from '../options.ts';

/** How the answer to one prompt is read. */
export interface TurnAnswer extends Pick<AnswerFormat, 'marks'> {
  reader(): AnswerReader;
  structure(text: Parameters<AnswerFormat['structure']>[0]): ReturnType<AnswerFormat['structure']>;
}

/** Last tokens of a prompt that may begin reasoning. */
const END = 32;

/**
 * Returns how the answer to a prompt in the words of the model's chat template is read; undefined where all of it is text
 * for the user.
 */
export function turnAnswer(
  { tokenizer, chatTemplate }: Pick<Model, 'tokenizer' | 'chatTemplate'>,
  ids: readonly number[],
): TurnAnswer | undefined {
  const template = chatTemplate?.(),
    format = template && answersOf(template);
  if (!format?.apart) return undefined;
  const prompt = tokenizer.decode(ids.slice(-END), { special: true });
  return {
    marks: format.marks,
    reader: () => format.reader([], prompt),
    structure: (text) => format.structure(text, prompt),
  };
}

/** Returns what tells an answer's text from its reasoning, part by part; without a reader all of it is text. */
export function answerSplitter(
  reader: AnswerReader | undefined,
): (text: string, last?: boolean) => Pick<Chunk, 'text' | 'reasoning'> {
  return (text, last = false) => {
    if (!reader) return { text };
    const said = { text: '', reasoning: '' };
    for (const part of [...reader.push(text), ...(last ? reader.end() : [])])
      if (part.what === 'text' || part.what === 'reasoning') said[part.what] += part.text;
    return said.reasoning === '' ? { text: said.text } : said;
  };
}
