import {
  buildHaystack,
  exactMatch,
  generatedProblem,
  grade,
  namesValue,
  needle,
  NEEDLE_STOP,
  random,
  sentencesOf,
  tokensOf,
  TOPICS,
} from '@kv/tasks';
import type { Encode, Needle, Random } from '@kv/tasks';
import type { Task } from './types.ts';

/** A document with values in it, and a question for each. */
export interface Prompt {
  readonly documentIds: readonly number[];
  readonly questions: readonly Question[];
  /** Positions of the tokens that hold the values. */
  readonly valueTokens: readonly number[];
}
interface Question {
  readonly ids: readonly number[];
  right(answer: string): boolean;
  readonly maxNewTokens: number /** Strings that end the answer. */;
  readonly stop?: readonly string[];
}

/** The source of prompts. */
export interface Source {
  readonly encode: Encode;
  readonly sentences: readonly string[];
  /** Whether the model is the embedded one, which is asked only the forms that it was trained on. */
  readonly embedded: boolean;
}

const DEPTHS = [0.1, 0.3, 0.5, 0.7, 0.9];
const LETTERS = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'];
/** A generic paragraph, repeated: most of its tokens are frequent, so that rare ones in a document stand out. */
const FILLER = sentencesOf(
  'The committee met on Monday to review the schedule for the coming weeks. Several members presented their reports and answered questions. The office was closed for lunch at noon. After the break the discussion went on in small groups. A summary was sent to everyone by the end of the day. The next meeting was planned for the following month.',
);

/** The sentence before a fact in a framed document; the paper prints none. */
const FRAMING = 'Here are the notes of several meetings, in the order in which they were taken.';

/** The embedded model's own form of fact, about the first two topics. */
const OWN = { fact: 'The special magic {k} number is: {v}.', cue: '\nThe special magic {k} number is:' };

const asking = ['needle', 'association', 'credential', 'generated'] as const;
export type Asked = Extract<Task, { readonly kind: (typeof asking)[number] }>;
export const isAsked = (task: Task): task is Asked => asking.some((kind) => kind === task.kind);

/**
 * Returns the prompt of one trial, the same for the same seed and trial. @throws RangeError for a length that cannot be
 * met
 */
export function promptFor(task: Asked, source: Source, seed: string, trial: number): Prompt {
  if (task.kind === 'association') return association(task, source, random(seed));
  if (task.kind === 'generated') return problem(task, source, seed, trial);
  return task.kind === 'credential' ? credential(task, source, random(seed), trial) : hidden(task, source, seed, trial);
}

function hidden(
  { tokens, form, digits, depth, distractors = 0, filler, asking }: Extract<Task, { kind: 'needle' }>,
  { encode, sentences }: Source,
  seed: string,
  trial: number,
): Prompt {
  const given = (length: number): Needle =>
    needle({
      encode,
      sentences: filler ? FILLER : sentences,
      tokens: length,
      depth: depth ?? DEPTHS[trial % DEPTHS.length],
      seed,
      form,
      ...(digits !== undefined && { digits }),
      distractors,
    });
  const { documentIds, questionIds, key, value, valueTokens } = given(tokens);
  if (!asking)
    return {
      documentIds,
      valueTokens,
      questions: [{ ids: questionIds, right: (answer) => exactMatch(answer, value), maxNewTokens: 12 }],
    };
  const what = form === 'code' ? `${key} code` : `special magic ${key} number`,
    ids = asked(`\nQuestion: What is the ${what}?\nAnswer: The ${what} is`, encode),
    shorter = given(tokens - ids.length + questionIds.length);
  return {
    documentIds: shorter.documentIds,
    valueTokens: shorter.valueTokens,
    questions: [{ ids, right: (answer) => namesValue(answer, value), maxNewTokens: 16, stop: NEEDLE_STOP }],
  };
}

function association(
  { tokens, density, framed, depth = 0, asking }: Extract<Task, { kind: 'association' }>,
  { encode, embedded }: Source,
  draw: Random,
): Prompt {
  const topic = draw.pick(embedded ? TOPICS.slice(0, 2) : TOPICS),
    value = String(1000 + draw.below(9000)),
    mentions = topic[density];
  const fact = (embedded ? OWN.fact : topic.fact).replace('{k}', topic.key).replace('{v}', value);
  const question = embedded
    ? OWN.cue.replace('{k}', topic.key)
    : `\nQuestion: ${topic.question}\nAnswer:${asking ? ` ${topic.fact.split(' {v}')[0]}` : ''}`;
  const { document, ids } = placed(
    [
      ...(framed ? [{ text: FRAMING, depth: 0 }] : []),
      { text: fact, depth },
      ...mentions.map((text, i) => ({ text, depth: depth + ((1 - depth) * (i + 1)) / (mentions.length + 1) })),
    ],
    FILLER,
    tokens,
    question,
    encode,
    draw,
  );
  const start = document.indexOf(fact) + fact.indexOf(value);
  return {
    documentIds: ids.ids,
    valueTokens: tokensOf(ids.offsets, start, start + value.length),
    questions: [
      {
        ids: asked(question, encode),
        right: (answer) => answer.includes(value),
        maxNewTokens: embedded ? 12 : 24,
        ...(asking && { stop: NEEDLE_STOP }),
      },
    ],
  };
}

function credential(
  { tokens, values, asking }: Extract<Task, { kind: 'credential' }>,
  { encode, sentences }: Source,
  draw: Random,
  trial: number,
): Prompt {
  const word = (length: number): string => Array.from({ length }, () => draw.pick(LETTERS)).join('');
  const given = [
    { name: 'api_key', value: word(12) },
    { name: 'endpoint', value: `https://${word(4).toLowerCase()}.net` },
    { name: 'auth_token', value: word(10) },
  ].slice(0, values);
  const depth = DEPTHS[trial % DEPTHS.length],
    cue = (name: string): string => `The agent called connect(${name}="`;
  const facts = given.map(({ name, value }, i) => ({
    text: `${cue(name)}${value}").`,
    depth: values === 1 ? depth : DEPTHS[2 * i],
  }));
  const { document, ids } = placed(facts, sentences, tokens, `\n${cue('auth_token')}`, encode, draw);
  return {
    documentIds: ids.ids,
    valueTokens: given.flatMap(({ name, value }) => {
      const start = document.indexOf(cue(name)) + cue(name).length;
      return tokensOf(ids.offsets, start, start + value.length);
    }),
    questions: given.map(({ name, value }) => ({
      ids: asked(`\n${cue(name)}`, encode),
      right: (answer) => answer.split('"')[0] === value,
      maxNewTokens: 20,
      ...(asking && { stop: ['"'] }),
    })),
  };
}

/** Converts a problem of `kv eval`; the value's tokens are those of its answers where they occur in the text. */
function problem(
  { task, tokens }: Extract<Task, { kind: 'generated' }>,
  { encode, sentences }: Source,
  seed: string,
  trial: number,
): Prompt {
  const made = generatedProblem(task, trial, { encode, sentences, tokens, seed }),
    { ids, offsets } = encode(made.context);
  return {
    documentIds: ids,
    valueTokens: made.answers.flatMap((answer) => {
      const start = made.context.indexOf(answer);
      return start < 0 ? [] : tokensOf(offsets, start, start + answer.length);
    }),
    questions: [
      {
        ids: asked(made.question, encode),
        right: (answer) => grade(answer, made).score === 1,
        maxNewTokens: made.maxNewTokens,
        ...(made.stop && { stop: made.stop }),
      },
    ],
  };
}

const asked = (question: string, encode: Encode): readonly number[] => encode(question, { special: false }).ids;

/** Builds a document that has `tokens` tokens together with the question. */
function placed(
  facts: readonly { readonly text: string; readonly depth: number }[],
  sentences: readonly string[],
  tokens: number,
  question: string,
  encode: Encode,
  draw: Random,
): { readonly document: string; readonly ids: ReturnType<Encode> } {
  const document = buildHaystack(sentences, facts, tokens - asked(question, encode).length, encode, draw);
  return { document, ids: encode(document) };
}
