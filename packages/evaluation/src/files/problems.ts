import { KvError } from '@kv/core';
import { graderNames } from '@kv/tasks';
import type { Problem } from '@kv/tasks';
import Type from 'typebox';
import { checkShape } from './check-shape.ts';
import { maxNewTokens, publishedProblems } from './published.ts';
import { readRows } from './read-json.ts';

const text = Type.String(),
  id = Type.Union([Type.String({ minLength: 1 }), Type.Integer()]);

/** kv's own format; only an id, answers and something to read are required. */
const Own = Type.Object({
  id,
  document: Type.Optional(id),
  context: Type.Optional(text),
  question: Type.Optional(text),
  answers: Type.Optional(Type.Array(text, { minItems: 1 })),
  answer: Type.Optional(text),
  grader: Type.Optional(Type.Union(graderNames.map((name) => Type.Literal(name)))),
  maxNewTokens: Type.Optional(maxNewTokens),
  stop: Type.Optional(Type.Array(Type.String({ minLength: 1 }))),
  classes: Type.Optional(Type.Array(text)),
});

/**
 * Reads problems from a file, a JSON array or JSON lines, in the format of `Problem` or as published by MATH, GSM8K,
 * LongEval, RULER (also kvpress'), LongBench, CoQA, SQuAD and lost-in-the-middle. @throws KvError in one sentence, with
 * the row
 */
export function readProblems(path: string, name: string): readonly Problem[] {
  const problems = readRows(path, name).flatMap(
    ([place, row], i) => publishedProblems(row, i, place) ?? [own(row, place)],
  );
  if (problems.length === 0) throw new KvError(name, 'expected at least one problem, got none');
  const seen = new Set<string>();
  for (const { id } of problems) {
    if (seen.has(id)) throw new KvError(name, `expected each id once, got ${JSON.stringify(id.slice(0, 80))} twice`);
    seen.add(id);
  }
  return problems;
}

function own(row: unknown, place: string): Problem {
  checkShape(row, Own, place);
  const {
    id,
    document,
    context = '',
    question = '',
    answer,
    answers = answer === undefined ? undefined : [answer],
    ...rest
  } = row;
  if (answers === undefined) throw new KvError(place, 'expected answer or answers, got neither');
  if (context + question === '') throw new KvError(place, 'expected a context or a question, got neither');
  const { grader = 'words', maxNewTokens = 64, stop, classes } = rest;
  return {
    id: String(id),
    ...(document !== undefined && { document: String(document) }),
    context,
    question,
    answers,
    grader,
    maxNewTokens,
    ...(stop && { stop }),
    ...(classes && { classes }),
  };
}
