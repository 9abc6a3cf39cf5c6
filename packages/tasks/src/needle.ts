import { answerRules } from './answer-rules.ts';
import { ask, drawFacts, HELD_OUT_KEYS } from './forms.ts';
import type { QuestionStyle, NeedleForm } from './forms.ts';
import { buildHaystack } from './haystack.ts';
import type { Encode } from './haystack.ts';
import { random } from './random.ts';
import { expectSentences } from './sentences.ts';

/** Options of `needle`. */
export interface NeedleOptions {
  /** Tokenizer of the model that the prompts are for. */
  readonly encode: Encode;
  /** Sentences of the text that hides the fact, from `sentencesOf`. */
  readonly sentences: readonly string[];
  /** Exact length of document and question together. */
  readonly tokens: number;
  /** Depth of the fact as a share of the prose: 0 = first, 1 = last. */
  readonly depth: number;
  /** The same seed gives the same needle. */
  readonly seed: number | string;
  /** Form of the fact. @defaultValue 'code' */
  readonly form?: NeedleForm;
  /** Digits of a number, 3 to 15. @defaultValue 7 */
  readonly digits?: number;
  /** Style of the question. @defaultValue 'cued' */
  readonly asking?: QuestionStyle;
  /** Number of other facts of the same form, at random depths: 0 to 41. @defaultValue 0 */
  readonly distractors?: number;
}

/** A fact hidden in a text, and the question for it. */
export interface Needle {
  /** The text with the fact in it. */
  readonly document: string;
  /** Question, starting with the line break that ends the document; encoded separately, without special tokens. */
  readonly question: string;
  /** What the fact is about, such as `secret`. */
  readonly key: string;
  /** The value to find. */
  readonly value: string;
  /** Longest answer, in tokens: that of `answerRules`, or what a longer value takes in tokens of one character. */
  readonly maxNewTokens: number;
  /** UTF-16 span of the value in the document. */
  readonly valueSpan: readonly [start: number, end: number];
  /** Ids of the document. */
  readonly documentIds: readonly number[];
  /** Ids of the question. */
  readonly questionIds: readonly number[];
  /** UTF-16 span of each of `documentIds` in the document. */
  readonly offsets: readonly (readonly [number, number])[];
  /** Positions of the tokens that hold the value. */
  readonly valueTokens: readonly number[];
}

/**
 * Generates a needle prompt; the same options give the same prompt. The value occurs once in it.
 * @throws RangeError for a length that cannot be met, a depth outside [0, 1], no sentences, or other facts than there are
 * names for
 */
export function needle({
  encode,
  sentences,
  tokens,
  depth,
  seed,
  form = 'code',
  digits = 7,
  asking = 'cued',
  distractors = 0,
}: NeedleOptions): Needle {
  if (!(depth >= 0 && depth <= 1)) throw new RangeError(`needle: depth must be from 0 to 1, got ${depth}`);
  if (!(Number.isInteger(tokens) && tokens > 0))
    throw new RangeError(`needle: tokens must be a positive whole number, got ${tokens}`);
  if (!(Number.isInteger(digits) && digits >= 3 && digits <= 15))
    throw new RangeError(`needle: digits must be a whole number from 3 to 15, got ${digits}`);
  const most = HELD_OUT_KEYS.length - 1;
  if (!(Number.isInteger(distractors) && distractors >= 0 && distractors <= most))
    throw new RangeError(`needle: distractors must be a whole number from 0 to ${most}, got ${distractors}`);
  expectSentences('needle', sentences);
  const draw = random(`needle/${seed}`);
  const [fact, ...others] = drawFacts(draw, form, 1 + distractors, sentences.join(' '), digits);
  const { key, value, statement } = fact;
  const question = ask(form, key, asking);
  const questionIds = encode(question, { special: false }).ids;
  const hidden = [
    { text: statement, depth },
    ...others.map((other) => ({ text: other.statement, depth: draw.next() })),
  ];
  const document = buildHaystack(sentences, hidden, tokens - questionIds.length, encode, draw);
  const start = document.indexOf(statement) + statement.indexOf(value);
  const { ids, offsets } = encode(document);
  return {
    document,
    question,
    key,
    value,
    maxNewTokens: Math.max(answerRules[asking].maxNewTokens, value.length + 2), // with a space and a stop
    valueSpan: [start, start + value.length],
    documentIds: ids,
    questionIds,
    offsets,
    valueTokens: tokensOf(offsets, start, start + value.length),
  };
}

/** Returns positions of tokens whose span overlaps `[start, end)`. */
export function tokensOf(
  offsets: readonly (readonly [number, number])[],
  start: number,
  end: number,
): readonly number[] {
  return offsets.flatMap(([from, to], i) => (from < end && to > start && to > from ? [i] : []));
}
