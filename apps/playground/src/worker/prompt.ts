import { KvError } from '@kv/core';
import type { Model } from '@kv/models';
import { heldOutBook, needle, NEEDLE_STOP, sentencesOf } from '@kv/tasks';
import type { RunChoice, NeedlePrompt } from '../choice.ts';
import type { PromptSummary } from '../messages.ts';

/** The tokens to feed: before the eviction, and after it. */
export interface PromptParts {
  readonly prompt: PromptSummary;
  readonly before: readonly number[];
  readonly after: readonly number[];
  /** Texts that end the answer. */
  readonly stop: readonly string[];
}

type Encoded = ReturnType<Model['tokenizer']['encode']>;

/**
 * Tokenizes the prompt of a choice. @throws KvError for a text that is empty, or has no last line where one is needed.
 */
export async function promptOf({ tokenizer }: Model, { source, late }: RunChoice): Promise<PromptParts> {
  if (source.kind === 'needle') {
    const { document, question, value, valueTokens } = await exampleOf(tokenizer, source);
    return joined(
      tokenizer.encode(document),
      tokenizer.encode(question, { special: false }),
      document,
      question,
      late,
      { value, valueTokens },
    );
  }
  const text = source.text.trimEnd(), // a model goes on from a word better than from a space or line break
    cut = text.lastIndexOf('\n');
  if (text === '') throw new KvError('prompt', 'expected text, got none');
  if (!late)
    return {
      prompt: { text, offsets: tokenizer.encode(text).offsets, valueTokens: [] },
      before: tokenizer.encode(text).ids,
      after: [],
      stop: [],
    };
  if (cut < 1)
    throw new KvError(
      'prompt',
      'expected a question on a last line of its own, to be asked after the eviction, got one line',
    );
  const document = text.slice(0, cut),
    question = text.slice(cut);
  return joined(tokenizer.encode(document), tokenizer.encode(question, { special: false }), document, question, late, {
    valueTokens: [],
  });
}

function joined(
  document: Encoded,
  question: Encoded,
  text: string,
  asked: string,
  late: boolean,
  found: Pick<PromptSummary, 'value' | 'valueTokens'>,
): PromptParts {
  const offsets = [
    ...document.offsets,
    ...question.offsets.map(([from, to]) => [text.length + from, text.length + to] as const),
  ];
  const prompt = { ...found, text: text + asked, offsets, ...(late && { questionFrom: document.ids.length }) };
  const stop = found.value === undefined ? [] : NEEDLE_STOP; // one's own text goes on: a model may begin with a line break
  return late
    ? { prompt, before: document.ids, after: question.ids, stop }
    : { prompt, before: [...document.ids, ...question.ids], after: [], stop };
}

let book: Promise<readonly string[]> | undefined;

/** Returns the prompt of an example, the same for the same example. */
async function exampleOf(
  { encode }: Model['tokenizer'],
  { form, tokens, depth, seed }: NeedlePrompt,
): Promise<ReturnType<typeof needle>> {
  book ??= heldOutBook().then(sentencesOf);
  const sentences = await book.catch((error: unknown) => {
    book = undefined;
    throw error;
  });
  return needle({ encode, sentences, form, tokens, depth: depth / 100, seed });
}
