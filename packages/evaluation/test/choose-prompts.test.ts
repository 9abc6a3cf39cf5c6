import { KvError } from '@kv/core';
import { loadModel } from '@kv/models';
import type { Model } from '@kv/models';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { readPrompts, splitPrompts } from '../src/choose.ts';
import type { ReadPromptsOptions } from '../src/choose.ts';

const TEMPLATE =
  '{% for m in messages %}[{{ m.role }}] {{ m.content | trim }}\n{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}';
let plain: Model, chat: Model;
beforeAll(async () => {
  [plain, chat] = await Promise.all([loadModel('embedded'), loadModel('embedded', { chatTemplate: TEMPLATE })]);
});
const file = (...rows: readonly unknown[]) => [
  { name: 'p.jsonl', text: rows.map((row) => JSON.stringify(row)).join('\n\n') },
];
const read = (rows: readonly unknown[], options?: ReadPromptsOptions, model = plain) =>
  readPrompts(file(...rows), model, options);
const text = (ids: readonly number[] | undefined, model = plain): string => model.tokenizer.decode(ids ?? []);

describe('prompts are read', () => {
  it('from rows with a prompt, a context and questions, messages or a benchmark', () => {
    const context = 'The code of the blue door is 4711. The red door has none.',
      prompts = read(
        [
          { prompt: 'One two three', answers: ['four'], grader: 'exact', maxNewTokens: 3, stop: ['.'] },
          { context, question: ' The code is', answer: '4711' },
          { context, questions: [' Which?', { question: ' Whose?', answer: 'mine' }] },
          { context, questions: [' Which?', ' Whose?'], answers: ['4711', ['mine', 'ours']] },
          { input: 'Some text. What is the special magic number?', outputs: ['7'], index: 0 },
        ],
        {},
      );
    expect(
      prompts.map(({ ids, question, answers, origin }) => [text(ids), question && text(question), answers, origin]),
    ).toEqual([
      ['One two three', undefined, ['four'], 'p.jsonl, line 1'],
      [context, ' The code is', ['4711'], 'p.jsonl, line 3'],
      [context, ' Which?', undefined, 'p.jsonl, line 5'],
      [context, ' Whose?', ['mine'], 'p.jsonl, line 5'],
      [context, ' Which?', ['4711'], 'p.jsonl, line 7'],
      [context, ' Whose?', ['mine', 'ours'], 'p.jsonl, line 7'],
      ['Some text. ', 'What is the special magic number?', ['7'], 'p.jsonl, line 9'],
    ]);
    expect(prompts[0]).toMatchObject({ grader: 'exact', answerTokens: 3, stop: ['.'] });
    expect(prompts[6]).toMatchObject({ grader: 'all', answerTokens: 128 });
    expect(new Set(prompts.slice(1, 6).map(({ document }) => document)).size).toBe(1);
    expect(text(prompts[1].answerAt?.map((at) => prompts[1].ids[at]))).toContain('4711');
    expect(prompts[0].answerAt).toBeUndefined();
  });
  it('with the question inside, and as a turn where there is a chat template', () => {
    const row = { context: 'A door. ', question: 'Which door?' };
    expect(text(read([row], { ask: 'inside' })[0].ids)).toBe('A door. Which door?');
    const [turn] = read([row], {}, chat);
    expect([text(turn.ids), text(turn.question)]).toEqual(['[user] A door. ', 'Which door?\n[assistant] ']);
    const messages = [
      { role: 'system', content: 'Be brief.' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Which' },
          { type: 'text', text: ' door?' },
        ],
      },
    ];
    const [asked, again] = read(
      [{ messages }, { messages: [...messages, { role: 'assistant', content: 'The blue one.' }], answer: 'blue' }],
      {},
      chat,
    );
    expect(text(asked.ids)).toBe('[system] Be brief.\n[user] Which door?\n[assistant] ');
    expect([again.ids, again.document, again.answers]).toEqual([asked.ids, asked.document, ['blue']]);
  });
  it('from plain text, which is cut', () => {
    const whole = 'Some words stand here, one after the other. '.repeat(30),
      { length } = plain.tokenizer.encode(whole, { special: false }).ids,
      parts = readPrompts([{ name: 'a.txt', text: whole }], plain, { textTokens: 40 });
    expect(parts).toHaveLength(Math.round(length / 40));
    expect(
      whole.startsWith(
        parts
          .slice(0, -1)
          .map(({ ids }) => text(ids))
          .join(''),
      ),
    ).toBe(true);
    expect(new Set(parts.map(({ document }) => document)).size).toBe(parts.length);
    expect(readPrompts([{ name: 'a.txt', text: whole }], plain)).toHaveLength(1);
  });
  it.each<[unknown, string]>([
    [{ prompt: 3 }, 'p.jsonl, line 1: prompt must be a string, got 3'],
    [
      { question: 'x' },
      'p.jsonl, line 1: expected a prompt, a context with a question, or messages, got the fields question',
    ],
    [7, 'p.jsonl, line 1: expected a prompt, a context with a question, or messages, got no fields'],
    [{ prompt: ' ' }, 'p.jsonl, line 1: expected a prompt with text, got an empty one'],
    [{ prompt: 'x', answer: ' ' }, 'p.jsonl, line 1: expected answers with text, got an empty one'],
    [{ prompt: 'x', grader: 'exakt', answer: 'y' }, 'p.jsonl, line 1: grader must be one of'],
    [{ context: 'x', question: 'y', questions: ['z'] }, 'p.jsonl, line 1: expected question or questions, got both'],
    [
      { context: 'x', questions: ['y'], answers: ['a', 'b'] },
      'p.jsonl, line 1: expected answers to 1 questions, got 2',
    ],
    [
      { messages: [{ role: 'user', content: 'x' }] },
      'p.jsonl, line 1: expected a model with a chat template for messages',
    ],
  ])('%j is refused', (row, message) => {
    expect(() => read([row])).toThrow(message);
  });
  it('broken JSON is refused with its line, and so is too much', () => {
    expect(() => readPrompts([{ name: 'p.jsonl', text: '{"prompt":"x"}\n{"prompt":' }], plain)).toThrow(
      'p.jsonl, line 2',
    );
    expect(() => readPrompts([{ name: 'p.jsonl', text: ' \n' }], plain)).toThrow('expected prompts, got an empty file');
    expect(() => read(Array.from({ length: 1001 }, () => ({ prompt: 'x' })))).toThrow('at most 1000 prompts');
  });
  it('any JSON is read or refused in one sentence', () => {
    const field = fc.constantFrom(
      'prompt',
      'context',
      'question',
      'questions',
      'messages',
      'answer',
      'answers',
      'grader',
    );
    fc.assert(
      fc.property(fc.array(fc.dictionary(field, fc.jsonValue({ maxDepth: 2 })), { maxLength: 3 }), (rows) => {
        try {
          for (const { ids } of read(rows, {}, chat)) expect(ids.length).toBeGreaterThan(0);
        } catch (error) {
          expect(error).toBeInstanceOf(KvError);
        }
      }),
      { numRuns: 200 },
    );
  });
});

describe('prompts are split', () => {
  it('by document, each on one side, whatever their order', () => {
    const documents = fc.array(fc.constantFrom(...'abcdefgh'), { minLength: 1, maxLength: 30 });
    fc.assert(
      fc.property(documents, fc.integer(), (names, seed) => {
        const of = (some: readonly number[]) => new Set(some.map((i) => names[i])),
          { choosing, confirming } = splitPrompts(
            names.map((document) => ({ document })),
            seed,
          ),
          [a, b] = [of(choosing), of(confirming)],
          back = names.toReversed(),
          turned = splitPrompts(
            back.map((document) => ({ document })),
            seed,
          );
        expect([...choosing, ...confirming].toSorted((x, y) => x - y)).toEqual([...names.keys()]);
        expect([...a].filter((document) => b.has(document))).toEqual([]);
        expect(a.size - b.size).toBeLessThanOrEqual(1);
        expect(a.size).toBeGreaterThanOrEqual(b.size);
        expect(new Set(turned.choosing.map((i) => back[i]))).toEqual(a);
      }),
    );
  });
});
