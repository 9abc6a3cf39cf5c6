import { renderedIds, templateMessages } from '@kv/checkpoints';
import type { ChatMessage, ChatTemplate, RenderedChat } from '@kv/checkpoints';
import { KvError } from '@kv/core';
import type { Model } from '@kv/models';
import { graderNames } from '@kv/tasks';
import type { GraderName } from '@kv/tasks';
import Type from 'typebox';
import type { Static } from 'typebox';
import { answerTokens } from '../cells/evidence.ts';
import { checkShape } from '../files/check-shape.ts';
import { maxNewTokens, publishedProblems } from '../files/published.ts';
import { rowsIn } from '../files/rows.ts';

/** A text that is read once, and what is asked after it. */
export interface ChoicePrompt {
  /** Prompts of one document are never on both sides of the split. */
  readonly document: string;
  /** What is read, and then reduced by the policy. */
  readonly ids: readonly number[];
  /** What is read after the event. @defaultValue nothing: the event comes at the prompt's end */
  readonly question?: readonly number[];
  /** Right answers. @defaultValue none: the full cache's answer is what should stay */
  readonly answers?: readonly string[];
  /** How answers are graded. @defaultValue any */
  readonly grader?: GraderName;
  /** Every class of a classification task. */
  readonly classes?: readonly string[];
  /** Texts that end the answer. */
  readonly stop?: readonly string[];
  /** The longest answer, in tokens. @defaultValue that of the choice */
  readonly answerTokens?: number;
  /** Positions in `ids` of the tokens of the right answer, where it occurs there. */
  readonly answerAt?: readonly number[];
  /** Whether it was put into the model's chat template. */
  readonly template?: true;
  /** Where it comes from, for messages: "file.jsonl, line 12". */
  readonly origin: string;
}

/** What prompts are made for: a loaded model, or what its files say. */
export type PromptModel = Pick<Model, 'name' | 'tokenizer' | 'chatTemplate'>;

/** Options of `readPrompts`. */
export interface ReadPromptsOptions {
  /** Whether a question is asked after the event, or is read before it. @defaultValue after */
  readonly ask?: 'after' | 'inside';
  /** Plain texts are cut into prompts of at most this many tokens. @defaultValue 1024 */
  readonly textTokens?: number;
}

/** A file's name, for messages, and its text. */
interface PromptFile {
  readonly name: string;
  readonly text: string;
}

/** The most prompts that are read. */
const MOST = 1000;

const text = Type.String(),
  answer = Type.Union([text, Type.Array(text, { minItems: 1 })]),
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
    answer: Type.Optional(answer),
    answers: Type.Optional(Type.Array(answer, { minItems: 1 })),
  });

/** One prompt as text, before it is encoded. */
interface Asked extends Omit<ChoicePrompt, 'ids' | 'question' | 'answerAt'> {
  readonly context: string;
  readonly question: string;
  /** Whether the text is put into the model's chat template, where there is one. */
  readonly turn: boolean;
}

/**
 * Reads prompts for a choice. JSON files (.json, .jsonl, .ndjson) have a row a prompt: `prompt`; `context` with
 * `question` or `questions`; OpenAI `messages`; each with `answer` or `answers` or without; or a benchmark as published
 * (see `readProblems`). Any other file is plain text, which the model goes on from; a long one is cut.
 *
 * @throws KvError, with file and line, for a row of another form, an empty text or answer, and for more than 1000 prompts
 */
export function readPrompts(
  files: readonly PromptFile[],
  model: PromptModel,
  { ask = 'after', textTokens = 1024 }: ReadPromptsOptions = {},
): readonly ChoicePrompt[] {
  const prompts: ChoicePrompt[] = [];
  for (const file of files)
    for (const prompt of /\.(json|jsonl|ndjson)$/i.test(file.name)
      ? rowPrompts(file, model, ask)
      : textPrompts(file, model, textTokens)) {
      if (prompts.push(prompt) > MOST)
        throw new KvError(file.name, `expected at most ${MOST} prompts in all, got more: give a part of them`);
    }
  return prompts;
}

function* textPrompts(
  { name, text: whole }: PromptFile,
  { tokenizer }: PromptModel,
  most: number,
): Generator<ChoicePrompt> {
  if (whole.trim() === '') throw new KvError(name, 'expected a text, got an empty file');
  const { offsets } = tokenizer.encode(whole, { special: false, parse: false }),
    parts = Math.ceil(offsets.length / most);
  for (let part = 0; part < parts; part++) {
    const place = (i: number): number => offsets[Math.min(offsets.length, i)]?.[0] ?? whole.length,
      origin = parts === 1 ? name : `${name}, part ${part + 1}`;
    // a rest would be a shorter prompt than the others
    if (parts > 1 && offsets.length - part * most < most / 2) return;
    const { ids } = tokenizer.encode(whole.slice(place(part * most), place((part + 1) * most)), { parse: false });
    yield { document: origin, ids, origin };
  }
}

function* rowPrompts(file: PromptFile, model: PromptModel, ask: 'after' | 'inside'): Generator<ChoicePrompt> {
  let row = 0;
  for (const [origin, value] of rowsIn(new TextEncoder().encode(file.text), file.name, 'prompts')) {
    const published = publishedProblems(value, row++);
    if (published)
      for (const { context, question, answers, grader, maxNewTokens, stop, classes } of published)
        yield encoded(
          {
            ...{ document: context || question, context, question, answers, grader, origin, turn: false },
            ...{ answerTokens: maxNewTokens, ...(stop && { stop }), ...(classes && { classes }) },
          },
          model,
          ask,
        );
    else if (has(value, 'messages')) yield conversation(value, origin, model);
    else for (const one of askedIn(value, origin)) yield encoded(one, model, ask);
  }
}

const has = (row: unknown, field: string): row is object =>
  typeof row === 'object' && row !== null && Object.hasOwn(row, field);

/** Returns the prompts of a row with `prompt` or `context`. */
function askedIn(row: unknown, origin: string): readonly Asked[] {
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
  const { context, question, questions, answers } = row;
  if (questions === undefined)
    return [asked(row, { context, question: question ?? '', origin }, answers?.flat() ?? row.answer)];
  if (question !== undefined) throw new KvError(origin, 'expected question or questions, got both');
  if (answers && answers.length !== questions.length)
    throw new KvError(origin, `expected answers to ${questions.length} questions, got ${answers.length}`);
  return questions.map((one, i) => {
    const own = typeof one === 'string' ? { question: one } : one;
    return asked(row, { context, question: own.question, origin }, own.answers ?? own.answer ?? answers?.[i]);
  });
}

function asked(
  { document, grader, stop, maxNewTokens, classes }: Static<typeof Common>,
  { context, question, origin }: Pick<Asked, 'context' | 'question' | 'origin'>,
  answers: string | readonly string[] | undefined,
): Asked {
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

/** Returns the prompt of a conversation, up to the answer that it may end with. */
function conversation(row: unknown, origin: string, model: PromptModel): ChoicePrompt {
  checkShape(row, MessagesRow, origin);
  const template = model.chatTemplate?.();
  if (!template) throw new KvError(origin, `expected a model with a chat template for messages, got ${model.name}`);
  const all = row.messages.map((message) => ({ ...message, content: contentOf(message.content) })),
    messages: readonly ChatMessage[] = all.at(-1)?.role === 'assistant' ? all.slice(0, -1) : all,
    first = messages.findIndex(({ role }) => role === 'user');
  const rendered = inPlace(origin, () =>
    template.render(templateMessages(template, messages), { ...(row.tools && { tools: row.tools }) }),
  );
  const { context, question, turn, ...rest } = asked(
    row,
    { context: '', question: '', origin },
    row.answers ?? row.answer,
  );
  return {
    ...rest,
    // turns of one conversation begin alike
    document:
      row.document ??
      messages
        .slice(0, first + 1)
        .map(({ content }) => content)
        .join('\n'),
    template: true,
    ...readingOf(model, rendered, undefined, rest.answers),
  };
}

const contentOf = (content: Static<typeof MessagesRow>['messages'][number]['content']): string =>
  typeof content === 'string' ? content : (content ?? []).map((part) => part.text).join('');

/** Encodes a prompt. A question after the event is encoded apart, as it is then read. */
function encoded(
  { context, question, turn, ...rest }: Asked,
  model: PromptModel,
  ask: 'after' | 'inside',
): ChoicePrompt {
  const { origin, answers } = rest,
    template = turn ? model.chatTemplate?.() : undefined,
    after = ask === 'after' && context !== '' && question !== '';
  if ((context + question).trim() === '') throw new KvError(origin, 'expected a prompt with text, got an empty one');
  const whole = template ? inPlace(origin, () => asTurn(template, context + question)) : plainText(context + question),
    at = after ? whole.text.lastIndexOf(template ? question.trim() : question) : undefined;
  return {
    ...rest,
    ...(template && { template: true as const }),
    ...readingOf(model, whole, at, answers, template === undefined),
  };
}

const plainText = (all: string): RenderedChat => ({ text: all, untrusted: [[0, all.length]] });

/** Renders a text as a user's turn. */
const asTurn = (template: ChatTemplate, content: string): RenderedChat => template.render([{ role: 'user', content }]);

/**
 * Returns the ids of a text, cut at a place, and where the answer's tokens are in its first part.
 * @param special whether the tokenizer adds its own tokens at the start
 */
function readingOf(
  { tokenizer }: PromptModel,
  whole: RenderedChat,
  at: number | undefined,
  answers: readonly string[] | undefined,
  special = false,
): Pick<ChoicePrompt, 'ids' | 'question' | 'answerAt'> {
  const read = at === undefined ? whole : part(whole, 0, at),
    { ids, offsets } = tokenizer.encode(read.text, { special, untrusted: read.untrusted }),
    question = at === undefined ? undefined : part(whole, at, whole.text.length),
    answerAt = answers && answerTokens({ context: read.text, question: question?.text ?? '', answers }, offsets);
  return {
    ids,
    ...(question && { question: renderedIds(tokenizer, question) }),
    ...(answerAt && answerAt.length > 0 && { answerAt }),
  };
}

const part = ({ text: all, untrusted }: RenderedChat, from: number, to: number): RenderedChat => ({
  text: all.slice(from, to),
  untrusted: untrusted
    .map(([start, end]) => [Math.max(start, from) - from, Math.min(end, to) - from] as const)
    .filter(([start, end]) => end > start),
});

/** Adds to a template's error where the conversation stands. */
function inPlace<T>(origin: string, render: () => T): T {
  try {
    return render();
  } catch (cause) {
    throw KvError.is(cause) ? new KvError(origin, cause.message) : cause;
  }
}
