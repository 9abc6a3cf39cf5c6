import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { grade } from '@kv/tasks';
import type { Problem } from '@kv/tasks';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readProblems } from '../src/index.ts';
import { folder } from './folder.ts';

const read = (text: string): readonly Problem[] => {
    const path = join(folder(), 'file.json');
    writeFileSync(path, text);
    return readProblems(path, 'f');
  },
  lines = (...rows: readonly object[]): readonly Problem[] => read(rows.map((row) => JSON.stringify(row)).join('\n'));

describe('files of RULER', () => {
  const row = (input: string, more: object = {}): object => ({ index: 312, input, outputs: ['7'], length: 9, ...more });
  it('are read where rows have the same position of the answer for an index', () =>
    expect(lines(row('One.'), row('Two.')).map(({ id }) => id)).toEqual(['ruler/0', 'ruler/1']));
  it('are asked with the start of the answer, which newer ones hold apart', () =>
    fc.assert(
      fc.property(fc.string(), fc.string(), (text, prefix) => {
        const input = `${text}\nWhat is the special magic number for x mentioned in the provided text?`,
          [{ context, question }] = lines(row(input, { answer_prefix: prefix })),
          [older] = lines(row(input + prefix));
        expect(context + question).toBe(input + prefix);
        expect(older.context + older.question).toBe(input + prefix);
      }),
    ));
});

describe('files of LongBench', () => {
  const row = (dataset: string, more: object = {}): object => ({
      ...{ input: '', context: 'SOME TEXT', answers: ['5'], length: 3, dataset, language: 'en' },
      ...{ all_classes: null, _id: 'a', ...more },
    }),
    one = (dataset: string, more: object = {}): Problem => lines(row(dataset, more))[0];
  it('are asked with the instruction of their data set', () => {
    expect(one('passage_count').question).toMatch(
      /^\n\nPlease enter the final count of unique .*The final answer is: $/s,
    );
    expect(one('gov_report')).toMatchObject({
      context: expect.stringMatching(/^You are given a report .* summary of the report\.\n\nReport:\nSOME TEXT$/s),
      question: '\n\nNow, write a one-page summary of the report.\n\nSummary:',
      maxNewTokens: 512,
    });
    expect(one('passage_retrieval_en', { input: 'ABSTRACT $& {input}' }).question).toMatch(
      /\n\nABSTRACT \$& \{input\}\n\n.*must be like "Paragraph 1"/s,
    );
    // questions that are part of the input are asked once
    expect(one('trec', { input: 'Question: q\nType:' }).question).toBe('\nQuestion: q\nType:');
    expect(one('triviaqa', { input: 'Passage:\nx\nQuestion:\nq\nAnswer:\n' }).question).toBe(
      '\n\nPassage:\nx\nQuestion:\nq\nAnswer:\n',
    );
    expect(one('hotpotqa_e', { input: 'q' }).question).toMatch(/\n\nQuestion: q\nAnswer:$/);
  });
  it('are graded by the first line where their prompts are examples', () =>
    fc.assert(
      fc.property(fc.nat(3), fc.string({ unit: 'binary' }), fc.boolean(), (breaks, after, goesOn) => {
        const answer = `${'\n'.repeat(breaks)}Paris${goesOn ? `\n${after}` : ''}`;
        for (const dataset of ['triviaqa', 'samsum', 'trec', 'lsht']) {
          const problem = one(dataset, { answers: ['Paris'], all_classes: ['Paris', 'Rome'] });
          expect(problem.stop, dataset).toBeUndefined();
          expect(grade(answer, problem).score, dataset).toBeCloseTo(1, 6);
        }
      }),
    ));
  it('are read in Chinese where they are graded without words of Chinese', () => {
    expect(grade('段落5', one('passage_retrieval_zh', { answers: ['段落5'] })).score).toBe(1);
    expect(grade('段落6', one('passage_retrieval_zh', { answers: ['段落5'] })).score).toBe(0);
    for (const dataset of ['multifieldqa_zh', 'dureader', 'vcsum', 'constructor'])
      expect(() => lines(row(dataset))).toThrow(
        new RegExp(`^f, line 1: dataset must be one of narrativeqa, [^\\n]*, got "${dataset}": leave such rows out`),
      );
    expect(() => lines(row('trek'))).toThrow('(did you mean trec?)');
  });
});

describe('files of other data sets', () => {
  const story = 'Paris is in France.',
    turns = [
      ['Where?', 'France'],
      ['Who?', 'Paris'],
    ];
  it('are read as CoQA has them, and the hub has CoQA', () => {
    const own = {
        ...{ source: 'x', id: 's1', filename: 'f', story, name: 'n' },
        questions: turns.map(([input_text], i) => ({ input_text, turn_id: i + 1 })),
        answers: turns.map(([, input_text], i) => ({ span_text: 'x', input_text, turn_id: i + 1 })),
      },
      hub = {
        ...{ source: 'x', story, questions: turns.map(([question]) => question) },
        answers: { input_text: turns.map(([, answer]) => answer), answer_start: [0, 1], answer_end: [1, 2] },
      },
      file = { version: '1.0', data: [own] },
      asked = ({ context, question, answers }: Problem): unknown => [context, question, answers];
    for (const text of [JSON.stringify(file), JSON.stringify(file, undefined, 1), JSON.stringify(own)])
      expect(read(text).map(({ id }) => id)).toEqual(['s1/0', 's1/1']);
    expect(lines(hub).map(asked)).toEqual(lines(own).map(asked));
    expect(lines(hub, hub).map(({ id }) => id)).toEqual(['coqa/0/0', 'coqa/0/1', 'coqa/1/0', 'coqa/1/1']);
    expect(lines(own)[1].question).toBe('\nQ: Where?\nA: France\nQ: Who?\nA:');
  });
  it('are read as SQuAD has them, and the hub has SQuAD, without questions that have no answer', () => {
    const qas = [
        { id: '1', question: 'Where?', answers: [{ text: 'France', answer_start: 12 }], is_impossible: false },
        { id: '2', question: 'Who?', answers: [], plausible_answers: [], is_impossible: true },
      ],
      whole = { version: 'v2.0', data: [{ title: 't', paragraphs: [{ context: story, qas }] }] },
      hub = qas.map(({ answers, ...of }) => ({
        ...{ ...of, title: 't', context: story },
        answers: { text: answers.map(({ text }) => text), answer_start: answers.map(() => 12) },
      }));
    expect(read(JSON.stringify(whole))).toEqual(lines(...hub));
    expect(lines(...hub)).toMatchObject([{ id: '1', question: '\nQuestion: Where?\nAnswer:', answers: ['France'] }]);
  });
  it('are read as MATH has them: the answer is in the solution', () => {
    const row = { problem: '1+1?', level: 'Level 1', type: 'Algebra', solution: 'Not $\\boxed{3}$: $\\boxed{2}$.' },
      [problem] = lines(row);
    expect(problem).toMatchObject({ id: 'math/0', context: '1+1?', answers: ['2'], grader: 'boxed' });
    expect(() => lines(row, { ...row, solution: 'It is two.' })).toThrow(
      /^f, line 2: expected a solution with its answer in \\boxed\{…\}, got "It is two\."$/,
    );
  });
});
