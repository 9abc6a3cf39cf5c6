import { KvError } from '@kv/core';
import { graderNames } from '@kv/tasks';
import type { GraderName } from '@kv/tasks';
import Type from 'typebox';
import type { Static } from 'typebox';
import { checkShape } from '../files/check-shape.ts';
import { isPublished, maxNewTokens } from '../files/published.ts';
import { ANSWER_FIELDS, KINDS, checkFields, isNear } from './prompt-fields.ts';

const text = Type.String(),
  answer = Type.Union([text, Type.Array(text, { minItems: 1 })]),
  each = Type.Array(answer, { minItems: 1 }),
  common = {
    document: Type.Optional(text),
    grader: Type.Optional(
      Type.Unsafe<GraderName>(
        Type.Union(graderNames.filter((name) => name !== 'perplexity').map((name) => Type.Literal(name))),
      ),
    ),
    stop: Type.Optional(Type.Array(Type.String({ minLength: 1 }))),
    maxNewTokens: Type.Optional(maxNewTokens),
    classes: Type.Optional(Type.Array(text)),
  },
  answered = { answer: Type.Optional(answer), answers: Type.Optional(answer) };
const Common = Type.Object(common),
  PromptRow = Type.Object({ ...common, ...answered, prompt: text }),
  MessagesRow = Type.Object({
    ...common,
    ...answered,
    messages: Type.Array(
      Type.Object({
        role: text,
        content: Type.Optional(
          Type.Union([text, Type.Null(), Type.Array(Type.Object({ type: Type.Literal('text'), text }))]),
        ),
      }),
      { minItems: 1 },
    ),
    tools: Type.Optional(Type.Array(Type.Object({}))),
  }),
  Question = Type.Union([text, Type.Object({ question: text, ...answered })]),
  ContextRow = Type.Object({
    ...common,
    context: text,
    question: Type.Optional(text),
    questions: Type.Optional(Type.Array(Question, { minItems: 1 })),
    input: Type.Optional(Type.Union([text, Type.Null()])),
    answer: Type.Optional(Type.Union([text, each])),
    answers: Type.Optional(each),
  });

/** One prompt as text, before it is encoded. */
export interface RowPrompt {
  readonly document: string;
  readonly context: string;
  readonly question: string;
  readonly origin: string;
  readonly answers?: readonly string[];
  readonly grader?: GraderName;
  readonly classes?: readonly string[];
  readonly stop?: readonly string[];
  readonly answerTokens?: number;
  /** Whether the text is put into the model's chat template, where there is one. */
  readonly turn: boolean;
}

/** Returns whether a row is an object with a field of its own. */
export const has = (row: unknown, field: string): row is object =>
  typeof row === 'object' && row !== null && Object.hasOwn(row, field);

/** Returns whether a row is meant as a prompt, be it a right one or not. */
export const isPromptRow = (row: unknown): boolean =>
  KINDS.some((field) => has(row, field)) ||
  (typeof row === 'object' && row !== null && Object.keys(row).some((field) => isNear(field, KINDS))) ||
  isPublished(row);

/** Returns the prompts of a row with `prompt` or `context`. */
export function askedIn(row: unknown, origin: string): readonly RowPrompt[] {
  checkFields(row, origin);
  if (has(row, 'prompt')) {
    checkShape(row, PromptRow, origin);
    return [asked(row, { context: row.prompt, question: '', origin }, row.answers ?? row.answer)];
  }
  if (!has(row, 'context')) {
    const fields = typeof row === 'object' && row !== null ? Object.keys(row).slice(0, 8).join(', ') : '';
    throw new KvError(
      origin,
      `expected a prompt, a context with a question, or messages, got ${fields ? `the fields ${fields}` : 'no fields'}`,
    );
  }
  checkShape(row, ContextRow, origin);
  const { context, questions } = row,
    answers = row.answers ?? row.answer,
    question = questionOf(row, origin);
  if (questions === undefined) return [asked(row, { context, question, origin }, answers && [answers].flat(2))];
  const own = answers && [answers].flat();
  if (own && own.length !== questions.length)
    throw new KvError(
      origin,
      `expected answers to ${questions.length} questions, got ${own.length}: give each question one, or a list of its right ones`,
    );
  return questions.map((one, i) => {
    const of = typeof one === 'string' ? { question: one } : one;
    checkFields(of, origin, ['question', ...ANSWER_FIELDS]);
    return asked(
      row,
      { context, question: withText(of.question, origin), origin },
      of.answers ?? of.answer ?? own?.[i],
    );
  });
}

/** Returns the one question of a row with a context, an empty text for none. LongBench calls it `input`, and may leave it empty. */
function questionOf({ question, questions, input }: Static<typeof ContextRow>, origin: string): string {
  const given = Object.entries({ question, questions, input: input?.trim() ? input : undefined }).flatMap(
    ([name, value]) => (value === undefined ? [] : [name]),
  );
  if (given.length > 1)
    throw new KvError(origin, `expected ${given.join(' or ')}, got ${given.length === 2 ? 'both' : 'all'}`);
  return question === undefined ? (given[0] === 'input' ? (input ?? '') : '') : withText(question, origin);
}

function withText(question: string, origin: string): string {
  if (question.trim() !== '') return question;
  throw new KvError(origin, 'expected a question with text, got a blank one: leave it out where nothing is asked');
}

function asked(
  { document, grader, stop, maxNewTokens, classes }: Static<typeof Common>,
  { context, question, origin }: Pick<RowPrompt, 'context' | 'question' | 'origin'>,
  answers: string | readonly string[] | undefined,
): RowPrompt {
  const all = answers === undefined ? undefined : [answers].flat();
  if (all?.some((one) => one.trim() === '')) throw new KvError(origin, 'expected answers with text, got an empty one');
  return {
    ...{ document: document ?? context, context, question, origin, turn: true },
    ...(all && { answers: all }),
    ...(grader && { grader }),
    ...(stop && { stop }),
    ...(classes && { classes }),
    ...(maxNewTokens && { answerTokens: maxNewTokens }),
  };
}

/** Returns the conversation of a row up to the answer that it may end with, its tools, and what else the row says. */
export function conversationIn(row: unknown, origin: string) {
  checkFields(row, origin);
  checkShape(row, MessagesRow, origin);
  const all = row.messages.map((message) => ({ ...message, content: contentOf(message.content) })),
    messages = all.at(-1)?.role === 'assistant' ? all.slice(0, -1) : all,
    {
      context: _,
      question: __,
      turn: ___,
      ...rest
    } = asked(
      { ...row, document: row.document ?? documentOf(messages) },
      { context: '', question: '', origin },
      row.answers ?? row.answer,
    );
  return { messages, tools: row.tools, rest };
}

const contentOf = (content: Static<typeof MessagesRow>['messages'][number]['content']): string =>
  typeof content === 'string' ? content : (content ?? []).map((part) => part.text).join('');

/** The least characters of a first user turn that is taken for a document. */
const LONG = 200;
interface Turn {
  readonly role: string;
  readonly content: string;
}
/**
 * Returns what a conversation is about: its turns up to the first user turn if that is long, else up to its last user
 * turn, since many chats begin with the same greeting. One system turn stands before all chats of an application, so
 * that it alone tells nothing.
 */
function documentOf(messages: readonly Turn[]): string {
  const first = messages.find(({ role }) => role === 'user'),
    end =
      first && first.content.length >= LONG
        ? messages.indexOf(first)
        : messages.findLastIndex(({ role }) => role === 'user');
  return messages
    .slice(0, end < 0 ? messages.length : end + 1)
    .map(({ content }) => content)
    .join('\n');
}
