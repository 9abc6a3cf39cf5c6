import { KvError } from '@kv/core';
import { editDistance } from '@kv/core/engine';

/** Fields that hold what is asked. */
export const KINDS = ['prompt', 'messages', 'context', 'question', 'questions'] as const;
/** Fields that hold its right answers. */
export const ANSWER_FIELDS = ['answer', 'answers'] as const;

/** Fields of which a row has one at most. */
const ALIKE: readonly (readonly string[])[] = [ANSWER_FIELDS, ['question', 'questions']],
  /** Fields of every row; `stop` and `tools` are too short to tell a misspelt one from another word. */
  COMMON = ['document', 'grader', 'maxNewTokens', 'classes', ...ANSWER_FIELDS],
  /** What rows hold for themselves, though a field is spelt much like it. */
  OTHER_WORDS = new Set(['class', 'grade', 'gender', 'message', 'content']),
  /** What other tools call the answer. */
  ANSWER_ELSEWHERE = /^(completion|expected|target|output)s?$/i,
  /** Changes of a letter that a misspelt field has. */
  MOST_CHANGES = 2;

const isGiven = (row: object, field: string): boolean => (row as Readonly<Record<string, unknown>>)[field] != null;

/**
 * Refuses a row that would be read otherwise than it is meant: with two kinds of prompt, with a misspelt field, or with an
 * answer under another name. Other fields, such as ids, are for the row's owner.
 * @param fields those that it may have; those of its kind of prompt unless they are given
 */
export function checkFields(row: unknown, origin: string, fields?: readonly string[]): void {
  if (typeof row !== 'object' || row === null) return;
  const kinds = [['prompt'], ['messages'], ['context', 'question', 'questions']].map((names) =>
      names.filter((name) => isGiven(row, name) && !(name === 'prompt' && repeatsMessage(row))),
    ),
    given = kinds.filter(({ length }) => length > 0),
    known = fields ?? [...COMMON, ...(given.length === 0 ? KINDS : kinds[2].length > 0 ? KINDS.slice(2) : [])];
  if (given.length > 1)
    throw new KvError(
      origin,
      `expected one of prompt, messages, and context with questions, got ${given.flat().join(' and ')}: put all that is asked into one of them, or make a row of each`,
    );
  const wanted = known.filter(
      (name) => !(ALIKE.find((alike) => alike.includes(name)) ?? [name]).some((one) => isGiven(row, one)),
    ),
    hasAnswer = ANSWER_FIELDS.some((name) => isGiven(row, name)) || hasAnswers(row);
  for (const field of Object.keys(row)) {
    if (known.includes(field) || !isGiven(row, field)) continue;
    const meant = wanted.find((name) => isNear(field, [name])),
      means = meant ?? (!hasAnswer && ANSWER_ELSEWHERE.test(field) ? 'answer' : undefined);
    if (means !== undefined)
      throw new KvError(
        origin,
        `expected fields that are known, got ${JSON.stringify(field)}: did you mean '${means}'? Rename it, or leave it out`,
      );
  }
}

/** Returns whether the prompt of a row is one of its messages, which some data sets have twice. */
const repeatsMessage = (row: { readonly messages?: unknown; readonly prompt?: unknown }): boolean =>
  Array.isArray(row.messages) &&
  row.messages.some((one: { readonly content?: unknown } | null) => one?.content === row.prompt);

/** Returns whether a row has questions with answers of their own. */
const hasAnswers = (row: { readonly questions?: unknown }): boolean =>
  Array.isArray(row.questions) &&
  row.questions.some(
    (one: unknown) => typeof one === 'object' && one !== null && ANSWER_FIELDS.some((name) => isGiven(one, name)),
  );

/** Returns whether a field may be one of some names, misspelt. */
export const isNear = (field: string, names: readonly string[]): boolean =>
  !OTHER_WORDS.has(field) &&
  names.some((name) => editDistance(field.toLowerCase(), name.toLowerCase()) <= MOST_CHANGES);
