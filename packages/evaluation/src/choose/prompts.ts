import { cutTurn, renderedIds, templateMessages } from '@kv/checkpoints';
import type { CutTurn, RenderedChat } from '@kv/checkpoints';
import { KvError } from '@kv/core';
import type { Model } from '@kv/models';
import type { GraderName } from '@kv/tasks';
import { answerTokens } from '../cells/evidence.ts';
import { publishedProblems } from '../files/published.ts';
import { rowsIn } from '../files/rows.ts';
import { askedIn, conversationIn, has, isPromptRow } from './prompt-rows.ts';
import type { RowPrompt } from './prompt-rows.ts';

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
  /** How answers are graded. @defaultValue words */
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
  /** Is told of each file of a folder that holds no prompts, and why. */
  readonly onLeftOut?: (name: string, why: string) => void;
}

/** A file's name, for messages, and its text. */
interface PromptFile {
  readonly name: string;
  readonly text: string;
  /** The folder that was given for it: such a file is left out if it holds no prompts. */
  readonly folder?: string | undefined;
}

/** The most prompts that are read. */
const MOST = 1000;

/**
 * Reads prompts for a choice. JSON files (.json, .jsonl, .ndjson) have a row a prompt: `prompt`; `context` with
 * `question` (or `input`) or `questions`; OpenAI `messages`; each with `answer` or `answers` or without; or a benchmark
 * as published (see `readProblems`). Context and question are joined as they stand. Any other file is plain text, which
 * the model goes on from; a long one is cut.
 *
 * A prompt's document is the row's `document`, else its text without the question; of plain text, the part of the first
 * file with that text; of messages, all up to the first user turn if that has 200 characters, else up to the last
 * user turn: rows whose text stands in a system turn need a `document`.
 *
 * @throws KvError, with file and line, for a row of another form, a field that is misspelt or would go unread, an empty
 * text or answer, and for more than 1000 prompts
 */
export function readPrompts(
  files: readonly PromptFile[],
  model: PromptModel,
  { ask = 'after', textTokens = 1024, onLeftOut }: ReadPromptsOptions = {},
): readonly ChoicePrompt[] {
  const prompts: ChoicePrompt[] = [],
    firsts = new Map<string, string>();
  for (const file of withPrompts(files, onLeftOut)) {
    // copies of a text under other names are one document
    const first = firsts.get(file.text) ?? file.name;
    firsts.set(file.text, first);
    const { rows } = file;
    for (const prompt of rows ? rowPrompts(rows, model, ask) : textPrompts(file, model, textTokens, first)) {
      if (prompts.push(prompt) > MOST)
        throw new KvError(file.name, `expected at most ${MOST} prompts in all, got more: give a part of them`);
    }
  }
  return prompts;
}

const isJson = ({ name }: PromptFile): boolean => /\.(json|jsonl|ndjson)$/i.test(name);

/** A file whose rows, if it is JSON, are read. */
interface ReadFile extends PromptFile {
  readonly rows?: Rows;
}
type Rows = ReturnType<typeof rowsIn>;

/** Leaves out files of folders that hold no prompts. @throws KvError for a folder of which no file is left */
function withPrompts(files: readonly PromptFile[], onLeftOut: ReadPromptsOptions['onLeftOut']): readonly ReadFile[] {
  const left = files.flatMap((file) => {
    const read = withRows(file);
    if (typeof read !== 'string') return [read];
    onLeftOut?.(file.name, read);
    return [];
  });
  for (const { folder } of files)
    if (folder !== undefined && !left.some((file) => file.folder === folder))
      throw new KvError(folder, 'expected a folder with prompts, got none in its files');
  return left;
}

/** Returns a file with its rows, or why one of a folder holds no prompts. @throws KvError for lines that are no JSON */
function withRows(file: PromptFile): ReadFile | string {
  const { name, text, folder } = file;
  if (folder !== undefined && text.trim() === '') return 'it is empty';
  if (!isJson(file)) return file;
  const bytes = new TextEncoder().encode(text);
  let rows: Rows;
  try {
    rows = rowsIn(bytes, name, 'prompts');
  } catch (cause) {
    if (folder === undefined || !/\.json$/i.test(name)) throw cause;
    return 'it is no JSON';
  }
  return folder === undefined || rows.some(([, row]) => isPromptRow(row)) ? { ...file, rows } : 'it holds no prompts';
}

/** @param document the file's name, or that of the first file with the same text */
function* textPrompts(
  { name, text: whole }: PromptFile,
  { tokenizer }: PromptModel,
  most: number,
  document: string,
): Generator<ChoicePrompt> {
  if (whole.trim() === '') throw new KvError(name, 'expected a text, got an empty file');
  const { offsets } = tokenizer.encode(whole, { special: false, parse: false }),
    parts = Math.ceil(offsets.length / most),
    nameOf = (file: string, part: number): string => (parts === 1 ? file : `${file}, part ${part + 1}`);
  for (let part = 0; part < parts; part++) {
    const place = (i: number): number => offsets[Math.min(offsets.length, i)]?.[0] ?? whole.length;
    // a rest would be a shorter prompt than the others
    if (parts > 1 && offsets.length - part * most < most / 2) return;
    const { ids } = tokenizer.encode(whole.slice(place(part * most), place((part + 1) * most)), { parse: false });
    yield { document: nameOf(document, part), ids, origin: nameOf(name, part) };
  }
}

function* rowPrompts(rows: Rows, model: PromptModel, ask: 'after' | 'inside'): Generator<ChoicePrompt> {
  for (const [row, [origin, value]] of rows.entries()) {
    const published = publishedProblems(value, row, origin);
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

/** Returns the prompt of a conversation, up to the answer that it may end with. */
function conversation(row: unknown, origin: string, model: PromptModel): ChoicePrompt {
  const { messages, tools, rest } = conversationIn(row, origin),
    template = model.chatTemplate?.();
  if (!template) throw new KvError(origin, `expected a model with a chat template for messages, got ${model.name}`);
  const written = inPlace(origin, () => {
      try {
        return templateMessages(template, messages);
      } catch (cause) {
        if (!KvError.is(cause) || !cause.at.endsWith('.tool_calls')) throw cause;
        throw new KvError(
          cause.at,
          `expected a model whose chat template writes calls of functions and their results, got ${model.name}: choose for another model, or leave out conversations with calls`,
        );
      }
    }),
    rendered = inPlace(origin, () => template.render(written, { ...(tools && { tools }) }));
  return { ...rest, template: true, ...readingOf(model, { context: rendered }, rest.answers) };
}

/** Encodes a prompt. A question after the event is encoded apart, as it is then read. */
function encoded(
  { context, question, turn, ...rest }: RowPrompt,
  model: PromptModel,
  ask: 'after' | 'inside',
): ChoicePrompt {
  const { origin, answers } = rest,
    template = turn ? model.chatTemplate?.() : undefined,
    after = ask === 'after' && context.trim() !== '' && question.trim() !== '',
    inTurn = (content: string): RenderedChat =>
      template ? inPlace(origin, () => template.render([{ role: 'user', content }])) : plainText(content);
  if ((context + question).trim() === '') throw new KvError(origin, 'expected a prompt with text, got an empty one');
  const read = !after
    ? { context: inTurn(context + question) }
    : template
      ? inPlace(origin, () => cutTurn(template, context, question))
      : { context: plainText(context), question: plainText(question) };
  if (read === undefined)
    throw new KvError(
      origin,
      `expected a chat template that writes the question as it stands, got that of ${model.name}: read the question inside the prompt (--question inside, ask: 'inside')`,
    );
  return {
    ...rest,
    ...(template && { template: true as const }),
    ...readingOf(model, read, answers, template === undefined),
  };
}

const plainText = (all: string): RenderedChat => ({ text: all, untrusted: [[0, all.length]] });

/**
 * Returns the ids of a text and of what is asked after it, and where the answer's tokens are in the text.
 * @param special whether the tokenizer adds its own tokens at the start
 */
function readingOf(
  { tokenizer }: PromptModel,
  { context, question }: Pick<CutTurn, 'context'> & Partial<CutTurn>,
  answers: readonly string[] | undefined,
  special = false,
): Pick<ChoicePrompt, 'ids' | 'question' | 'answerAt'> {
  const { ids, offsets } = tokenizer.encode(context.text, { special, untrusted: context.untrusted }),
    answerAt = answers && answerTokens({ context: context.text, question: question?.text ?? '', answers }, offsets);
  return {
    ids,
    ...(question && { question: renderedIds(tokenizer, question) }),
    ...(answerAt && answerAt.length > 0 && { answerAt }),
  };
}

/** Adds to a template's error where the conversation stands. */
function inPlace<T>(origin: string, render: () => T): T {
  try {
    return render();
  } catch (cause) {
    throw KvError.is(cause) ? new KvError(origin, cause.message) : cause;
  }
}
