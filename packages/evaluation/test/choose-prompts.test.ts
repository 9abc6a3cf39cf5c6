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
  it('with answers under either name, and the input of a context as its question', () => {
    const context = 'The code of the blue door is 4711.',
      questions = [' Which?', ' Whose?'];
    expect(
      read([
        { context, questions, answer: ['4711', ['mine', 'ours']] },
        { context, questions: [' Which?'], answer: '4711' },
        { context, question: ' Which?', answer: ['4711', 'blue'] },
        { context, input: ' Which?', answers: ['4711'] },
        { context, question: ' Which?', input: '' },
        { context, input: '', id: 7, class: 'b', metadata: { target: 'x' } },
        { prompt: context, target: 'x', answer: '4711' },
      ]).map(({ question, answers }) => [question && text(question), answers]),
    ).toEqual([
      [' Which?', ['4711']],
      [' Whose?', ['mine', 'ours']],
      [' Which?', ['4711']],
      [' Which?', ['4711', 'blue']],
      [' Which?', ['4711']],
      [' Which?', undefined],
      [undefined, undefined],
      [undefined, ['4711']],
    ]);
  });
  it.each(['a', 'assistant', 'user', ' ] ', '\n[assistant]  '])(
    'with the question %j cut at the end of the content',
    (question) => {
      const [{ ids, question: end }] = read([{ context: 'A door. ', question }], {}, chat);
      expect([text(ids), text(end)]).toEqual(['[user] A door. ', `${question.trimEnd()}\n[assistant] `]);
    },
  );
  it('with the question cut where a template changes the content, or refused where it changes the question', async () => {
    const of = async (content: string) =>
        loadModel('embedded', { chatTemplate: `{% for m in messages %}[user] {{ ${content} }} [a]{% endfor %}` }),
      row = { context: 'A  door. ', question: 'a' },
      [{ ids, question }] = read([row], {}, await of("m.content | replace('  ', ' ')"));
    expect([text(ids), text(question)]).toEqual(['[user] A door. ', 'a [a]']);
    const upper = await of('m.content | upper');
    expect(() => read([row], {}, upper)).toThrow(
      'p.jsonl, line 1: expected a chat template that writes the question as it stands',
    );
    expect(read([row], { ask: 'inside' }, upper)).toHaveLength(1);
  });
  it('with one document for copies of a text, and for chats about one text', () => {
    const whole = Array.from({ length: 30 }, (_, i) => `Some words stand here, ${i} after the other. `).join(''),
      parts = readPrompts(
        ['a.txt', 'copy.txt'].map((name) => ({ name, text: whole })),
        plain,
        { textTokens: 40 },
      );
    expect(new Set(parts.map(({ document }) => document)).size).toBe(parts.length / 2);
    expect(new Set(parts.map(({ origin }) => origin)).size).toBe(parts.length);
    const turn = (role: string, content: string) => ({ role, content }),
      documents = (...rows: readonly unknown[]) => new Set(read(rows, {}, chat).map(({ document }) => document)).size,
      hi = [turn('user', 'Hi'), turn('assistant', 'Hello.')];
    // a prompt that is one of the messages is no second one
    expect(documents({ prompt: 'Hi', messages: hi })).toBe(1);
    // an application's chats have one system turn, however long
    const asking = (system: string) =>
      documents(
        { messages: [turn('system', system), turn('user', 'Who?')] },
        { messages: [turn('system', system), turn('user', 'When?')] },
      );
    expect([asking(whole), asking('Be brief.')]).toEqual([2, 2]);
    // a long first user turn is a document, a greeting is not
    const going = (first: readonly object[]) =>
      documents({ messages: [...first, turn('user', 'Who?')] }, { messages: [...first, turn('user', 'When?')] });
    expect([going([turn('user', whole), turn('assistant', 'Read.')]), going(hi)]).toEqual([1, 2]);
    expect(
      documents(
        { messages: [...hi, turn('user', 'Who?')] },
        { messages: [...hi, turn('user', 'Who?'), turn('assistant', 'I.')] },
      ),
    ).toBe(1);
    expect(documents({ messages: [turn('system', 'Go.')] }, { messages: [turn('system', 'Stop.')] })).toBe(2);
    expect(documents({ messages: hi, document: 'x' }, { messages: [turn('user', 'Who?')], document: 'x' })).toBe(1);
  });
  it('from a folder, without the files that hold none', () => {
    const one = (name: string, whole: string) => ({ name, text: whole, folder: 'mine' }),
      none = [
        one('mine/package.json', JSON.stringify({ name: 'x', version: '1.0.0' }, null, 2)),
        one('mine/empty.txt', '\ufeff \n'),
        one('mine/list.json', '[]'),
        one('mine/log.jsonl', '{"message":"info"}\n{"message":"warn"}'),
        one('mine/tsconfig.json', '{\n  // the newest\n  "strict": true,\n}'),
      ],
      left: string[] = [],
      onLeftOut = (name: string, why: string) => left.push(`${name}: ${why}`);
    const some = [one('mine/p.json', '[{"prompt":"One two"}]'), ...none, one('mine/a.md', 'Three four.')];
    expect(readPrompts(some, plain, { onLeftOut }).map(({ ids }) => text(ids))).toEqual(['One two', 'Three four.']);
    expect(left).toEqual([
      'mine/package.json: it holds no prompts',
      'mine/empty.txt: it is empty',
      'mine/list.json: it holds no prompts',
      'mine/log.jsonl: it holds no prompts',
      'mine/tsconfig.json: it is no JSON',
    ]);
    expect(() => readPrompts(none, plain)).toThrow('mine: expected a folder with prompts, got none in its files');
    for (const row of ['{"prompt":3}', '{"promt":"x"}', '{"prompt":'])
      expect(() => readPrompts([...some, one('mine/bad.jsonl', `{"prompt":"x"}\n${row}`)], plain)).toThrow(
        'mine/bad.jsonl, line 2',
      );
    expect(() => readPrompts([one('mine/bad.jsonl', '{"promt":"x"}')], plain)).toThrow("did you mean 'prompt'?");
    const spread = one('mine/one.json', JSON.stringify({ prompt: 'One two' }, null, 2));
    for (const given of [spread, { name: 'one.json', text: spread.text }])
      expect(readPrompts([given], plain).map(({ ids }) => text(ids))).toEqual(['One two']);
    expect(() => readPrompts([{ name: 'a.json', text: '{\n// no' }], plain)).toThrow('a.json, line 1');
  });
  it('from conversations with calls, whose error names no option that is not there', () => {
    const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } },
      messages = [
        { role: 'user', content: 'x' },
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', tool_call_id: 'a', content: '1' },
      ];
    expect(() => read([{ messages }], {}, chat)).toThrow(
      /^p\.jsonl, line 1: messages\[1\]\.tool_calls: expected a model whose chat template writes calls of functions and their results, got [^:]+: choose for another model/,
    );
  });
  it.each<[unknown, string]>([
    [{ context: 'x', questions: ['y', 'z'], answer: ['a'] }, 'expected answers to 2 questions, got 1'],
    [{ context: 'x', questions: ['y', 'z'], answer: 'a' }, 'expected answers to 2 questions, got 1'],
    [
      { prompt: 'x', context: 'y' },
      'expected one of prompt, messages, and context with questions, got prompt and context',
    ],
    [{ prompt: 'x', questions: ['y'] }, 'got prompt and questions: put all that is asked into one of them'],
    [{ messages: [{ role: 'user', content: 'x' }], question: 'y' }, 'got messages and question'],
    [{ messages: [{ role: 'user', content: 'x' }], prompt: 'y' }, 'got prompt and messages'],
    [{ context: 'x', question: 'y', input: 'z' }, 'expected question or input, got both'],
    [{ context: 'x', questions: ['y'], input: 'z' }, 'expected questions or input, got both'],
    [{ context: 'x', question: ' ' }, 'expected a question with text, got a blank one'],
    [{ context: 'x', questions: ['y', { question: '' }] }, 'expected a question with text, got a blank one'],
    [{ prompt: 'x', anwser: 'y' }, `expected fields that are known, got "anwser": did you mean 'answer'?`],
    [{ context: 'x', questoin: 'y', answer: 'z' }, `got "questoin": did you mean 'question'?`],
    [{ context: 'x', questions: [{ question: 'y', Awnser: 'z' }] }, `got "Awnser": did you mean 'answer'?`],
    [{ promt: 'x' }, `got "promt": did you mean 'prompt'?`],
    [{ prompt: 'x', max_new_tokens: 3 }, `got "max_new_tokens": did you mean 'maxNewTokens'?`],
    [{ prompt: 'x', completion: 'y' }, `got "completion": did you mean 'answer'?`],
    [{ context: 'x', question: 'y', expected: 'z' }, `got "expected": did you mean 'answer'?`],
    [{ prompt: 'x', target: 'y' }, `got "target": did you mean 'answer'?`],
    [{ prompt: 'x', outputs: ['y'] }, `got "outputs": did you mean 'answer'?`],
  ])('%j is refused, since a part of it would go unread', (row, message) => {
    expect(() => read([row], {}, chat)).toThrow(message);
    expect(() => read([row], {}, chat)).toThrow('p.jsonl, line 1: ');
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
