import type { GraderName, Problem } from '@kv/tasks';
import Type from 'typebox';
import type { Static, TSchema } from 'typebox';
import { Check } from 'typebox/value';
import { digestOf } from '../digest-of.ts';

const text = Type.String();
/** The longest answer that a row may ask for, in tokens. */
export const maxNewTokens = Type.Integer({ minimum: 1, maximum: 65_536 });

type Read<S extends TSchema> = (row: Static<S>, i: number) => readonly Problem[];
const reader = <S extends TSchema>(schema: S, read: Read<S>): readonly [TSchema, Read<TSchema>] => [
  schema,
  read as Read<TSchema>,
];

/** LongBench's metric and maximum answer length by data set; the others use F1 with 64 tokens. */
const LONG_BENCH: Readonly<Record<string, readonly [GraderName, number]>> = {
  narrativeqa: ['f1', 128],
  qasper: ['f1', 128],
  hotpotqa: ['f1', 32],
  '2wikimqa': ['f1', 32],
  musique: ['f1', 32],
  triviaqa: ['f1', 32],
  gov_report: ['rougeL', 512],
  qmsum: ['rougeL', 512],
  multi_news: ['rougeL', 512],
  samsum: ['rougeL', 128],
  trec: ['classification', 64],
  passage_retrieval_en: ['retrieval', 32],
  passage_count: ['count', 32],
  lcc: ['code', 64],
  'repobench-p': ['code', 64],
};

const asked = (question: string): string => `\nQuestion: ${question}\nAnswer:`;

/** Formats of published benchmarks, recognized by their fields; the first that fits is used. */
const READERS = [
  // MATH-500: problem, answer, unique_id
  reader(Type.Object({ problem: text, answer: text, unique_id: text }), ({ problem, answer, unique_id }) => [
    {
      id: unique_id,
      context: problem,
      question: '\nReason step by step, and put the final answer within \\boxed{}.\n',
      answers: [answer],
      grader: 'boxed',
      maxNewTokens: 4096,
    },
  ]),
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
  // RULER: the question ends the input
  reader(
    Type.Object({ input: text, outputs: Type.Array(text, { minItems: 1 }), index: Type.Integer() }),
    ({ input, outputs, index }) => {
      const starts = [
          ...input.matchAll(/What (?:is|are all) the special magic|\nQuestion: |\nAnswer the question based on/g),
        ],
        at = starts.at(-1)?.index ?? input.length;
      return [
        {
          id: `ruler/${index}`,
          context: input.slice(0, at),
          question: input.slice(at),
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
    ({ input, context, answers, all_classes, dataset, _id }) => {
      const [grader, length] = LONG_BENCH[dataset] ?? ['f1', 64];
      return [
        {
          id: `${dataset}/${_id}`,
          context,
          question: grader === 'code' || grader === 'rougeL' ? `\n${input}` : asked(input),
          answers,
          grader,
          maxNewTokens: length,
          ...(all_classes && { classes: all_classes }),
          ...(dataset === 'samsum' && { stop: ['\n'] }),
        },
      ];
    },
  ),
  // CoQA: a story and its turns, each after the answers before it
  reader(
    Type.Object({
      id: text,
      story: text,
      questions: Type.Array(Type.Object({ input_text: text })),
      answers: Type.Array(Type.Object({ input_text: text })),
    }),
    ({ id: story, story: context, questions, answers }) =>
      questions.slice(0, answers.length).map(
        ({ input_text }, turn): Problem => ({
          id: `${story}/${turn}`,
          document: story,
          context,
          question: `${questions
            .slice(0, turn)
            .map((before, i) => `\nQ: ${before.input_text}\nA: ${answers[i].input_text}`)
            .join('')}\nQ: ${input_text}\nA:`,
          answers: [answers[turn].input_text],
          grader: 'f1',
          maxNewTokens: 32,
          stop: ['\n'],
        }),
      ),
  ),
  // SQuAD, a question a row, several rows with the same context
  reader(
    Type.Object({
      id: text,
      context: text,
      question: text,
      answers: Type.Object({ text: Type.Array(text, { minItems: 1 }) }),
    }),
    ({ id: own, context, question, answers }) => [
      {
        id: own,
        document: digestOf(context),
        context,
        question: asked(question),
        answers: answers.text,
        grader: 'f1',
        maxNewTokens: 32,
        stop: ['\n'],
      },
    ],
  ),
] as const;

/** Returns the problems of a row of a published benchmark, or undefined for another row. @param i the row's number */
export function publishedProblems(row: unknown, i: number): readonly Problem[] | undefined {
  const [, read] = READERS.find(([schema]) => Check(schema, row)) ?? [];
  return read?.(row, i);
}
