import { KvError } from '@kv/core';
import { boxedText } from '@kv/tasks';
import type { Problem } from '@kv/tasks';
import Type from 'typebox';
import type { Static, TSchema } from 'typebox';
import { Check } from 'typebox/value';
import { digestOf } from '../digest-of.ts';
import { longBenchSet } from './longbench.ts';

const text = Type.String();
/** The longest answer that a row may ask for, in tokens. */
export const maxNewTokens = Type.Integer({ minimum: 1, maximum: 65_536 });

type Read<S extends TSchema> = (row: Static<S>, i: number, place: string) => readonly Problem[];
const reader = <S extends TSchema>(schema: S, read: Read<S>): readonly [TSchema, Read<TSchema>] => [
  schema,
  read as Read<TSchema>,
];

/** Asks for a formula, whose answer stands in a box. */
const boxed = (id: string, context: string, answer: string): Problem => ({
  id,
  context,
  question: '\nReason step by step, and put the final answer within \\boxed{}.\n',
  answers: [answer],
  grader: 'boxed',
  maxNewTokens: 4096,
});

/** Asks the turns of a story, each after the answers before it. */
const turns = (
  story: string,
  context: string,
  questions: readonly string[],
  answers: readonly string[],
): readonly Problem[] =>
  questions.slice(0, answers.length).map((question, turn) => ({
    id: `${story}/${turn}`,
    document: story,
    context,
    question: `${questions
      .slice(0, turn)
      .map((before, i) => `\nQ: ${before}\nA: ${answers[i]}`)
      .join('')}\nQ: ${question}\nA:`,
    answers: [answers[turn]],
    grader: 'f1',
    maxNewTokens: 32,
    stop: ['\n'],
  }));

/** Asks a question about a context that several have; none where it has no answer, as some of SQuAD 2.0. */
const aboutContext = (id: string, context: string, question: string, answers: readonly string[]): readonly Problem[] =>
  answers.length === 0
    ? []
    : [
        {
          id,
          document: digestOf(context),
          context,
          question: `\nQuestion: ${question}\nAnswer:`,
          answers,
          grader: 'f1',
          maxNewTokens: 32,
          stop: ['\n'],
        },
      ];

/** Formats of published benchmarks, recognized by their fields; the first that fits is used. */
const READERS = [
  // MATH-500: problem, answer, unique_id
  reader(Type.Object({ problem: text, answer: text, unique_id: text }), ({ problem, answer, unique_id }) => [
    boxed(unique_id, problem, answer),
  ]),
  // MATH: the answer is in the solution
  reader(Type.Object({ problem: text, level: text, type: text, solution: text }), ({ problem, solution }, i, place) => {
    const answer = boxedText(solution);
    if (answer === undefined)
      throw new KvError(
        place,
        `expected a solution with its answer in \\boxed{…}, got ${JSON.stringify(solution.slice(-60))}`,
      );
    return [boxed(`math/${i}`, problem, answer)];
  }),
  // GSM8K: the answer ends in "#### 18"
  reader(Type.Object({ question: text, answer: Type.String({ pattern: '#### ' }) }), ({ question, answer }, i) => [
    {
      id: `gsm8k/${i}`,
      context: '',
      question: `Question: ${question}\nAnswer:`,
      answers: [answer.slice(answer.lastIndexOf('#### '))],
      grader: 'number',
      maxNewTokens: 512,
      stop: ['\nQuestion:'],
    },
  ]),
  // LongEval lines
  reader(
    Type.Object({ random_idx: Type.Tuple([text, Type.Integer()]), expected_number: Type.Integer(), prompt: text }),
    ({ expected_number, prompt }, i) => {
      const end = prompt.lastIndexOf('\nNow the record is over.'),
        at = end < 0 ? prompt.length : end;
      return [
        {
          id: `longeval/${i}`,
          context: prompt.slice(0, at),
          question: prompt.slice(at),
          answers: [String(expected_number)],
          grader: 'number',
          maxNewTokens: 24,
        },
      ];
    },
  ),
  // lost in the middle: pairs of a JSON object
  reader(
    Type.Object({ ordered_kv_records: Type.Array(Type.Tuple([text, text])), key: text, value: text }),
    ({ ordered_kv_records, key, value }, i) => [
      {
        id: `pairs/${i}`,
        context: `Extract the value corresponding to the specified key in the JSON object below.\n\nJSON data:\n{${ordered_kv_records.map(([k, v]) => `"${k}": "${v}"`).join(',\n ')}}\n`,
        question: `\nKey: "${key}"\nCorresponding value:`,
        answers: [value],
        grader: 'any',
        maxNewTokens: 64,
      },
    ],
  ),
  // kvpress' RULER: context and question apart
  reader(
    Type.Object({
      context: text,
      question: text,
      answer_prefix: text,
      answer: Type.Array(text),
      task: text,
      max_new_tokens: maxNewTokens,
    }),
    ({ context, question, answer_prefix, answer, task, max_new_tokens }, i) => [
      {
        id: `${task}/${i}`,
        context,
        question: question + answer_prefix,
        answers: answer,
        grader: task.startsWith('qa') ? 'any' : 'all',
        maxNewTokens: max_new_tokens,
      },
    ],
  ),
  // RULER: the question ends the input, but for the start of the answer
  reader(
    Type.Object({
      input: text,
      outputs: Type.Array(text, { minItems: 1 }),
      index: Type.Integer(), // of some tasks where the answer stands, which several rows may have
      answer_prefix: Type.Optional(text),
    }),
    ({ input, outputs, answer_prefix = '' }, i) => {
      const starts = [
          ...input.matchAll(/What (?:is|are all) the special magic|\nQuestion: |\nAnswer the question based on/g),
        ],
        at = starts.at(-1)?.index ?? input.length;
      return [
        {
          id: `ruler/${i}`,
          context: input.slice(0, at),
          question: input.slice(at) + answer_prefix,
          answers: outputs,
          grader: input.includes('following are given documents') ? 'any' : 'all',
          maxNewTokens: 128,
        },
      ];
    },
  ),
  // LongBench
  reader(
    Type.Object({
      input: text,
      context: text,
      answers: Type.Array(text, { minItems: 1 }),
      all_classes: Type.Union([Type.Null(), Type.Array(text)]),
      dataset: text,
      _id: text,
    }),
    ({ input, context, answers, all_classes, dataset, _id }, _, place) => {
      const { prompt, grader, maxNewTokens } = longBenchSet(dataset, place),
        [before, after] = prompt.split('{context}');
      return [
        {
          id: `${dataset}/${_id}`,
          context: before + context,
          question: after.split('{input}').join(input),
          answers,
          grader,
          maxNewTokens,
          ...(all_classes && { classes: all_classes }),
        },
      ];
    },
  ),
  // CoQA: a story and its turns
  reader(
    Type.Object({
      id: text,
      story: text,
      questions: Type.Array(Type.Object({ input_text: text })),
      answers: Type.Array(Type.Object({ input_text: text })),
    }),
    ({ id, story, questions, answers }) =>
      turns(
        id,
        story,
        questions.map(({ input_text }) => input_text),
        answers.map(({ input_text }) => input_text),
      ),
  ),
  // CoQA of the Hugging Face hub
  reader(
    Type.Object({
      story: text,
      questions: Type.Array(text),
      answers: Type.Object({ input_text: Type.Array(text) }),
    }),
    ({ story, questions, answers }, i) => turns(`coqa/${i}`, story, questions, answers.input_text),
  ),
  // SQuAD: paragraphs with questions
  reader(
    Type.Object({
      paragraphs: Type.Array(
        Type.Object({
          context: text,
          qas: Type.Array(Type.Object({ id: text, question: text, answers: Type.Array(Type.Object({ text })) })),
        }),
      ),
    }),
    ({ paragraphs }) =>
      paragraphs.flatMap(({ context, qas }) =>
        qas.flatMap(({ id, question, answers }) =>
          aboutContext(
            id,
            context,
            question,
            answers.map((answer) => answer.text),
          ),
        ),
      ),
  ),
  // SQuAD of the Hugging Face hub, a question a row
  reader(
    Type.Object({
      id: text,
      context: text,
      question: text,
      answers: Type.Object({ text: Type.Array(text) }),
    }),
    ({ id, context, question, answers }) => aboutContext(id, context, question, answers.text),
  ),
] as const;

const readerOf = (row: unknown): Read<TSchema> | undefined => READERS.find(([schema]) => Check(schema, row))?.[1];

/** Returns whether a row is one of a published benchmark. */
export const isPublished = (row: unknown): boolean => readerOf(row) !== undefined;

/**
 * Returns the problems of a row of a published benchmark, or undefined for another row.
 * @param i the row's number
 * @throws KvError about `place` for a row that cannot be asked or graded as published
 */
export const publishedProblems = (row: unknown, i: number, place: string): readonly Problem[] | undefined =>
  readerOf(row)?.(row, i, place);
