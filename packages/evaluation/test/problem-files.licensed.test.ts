import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readProblems } from '../src/index.ts';

const shared = process.env['KV_SHARED'];

/** The files themselves, under MIT licences of others. */
test.skipIf(shared === undefined)('GSM8K and LongEval are read as they are published', () => {
  const read = (name: string): ReturnType<typeof readProblems> => readProblems(join(shared!, 'data/tasks', name), name);
  const gsm8k = read('gsm8k_test.jsonl'),
    lines = read('longeval_lines_50.jsonl');
  expect(gsm8k).toHaveLength(1319);
  expect(gsm8k[0]).toMatchObject({ id: 'gsm8k/0', answers: ['#### 18'], grader: 'number' });
  expect(lines).toHaveLength(50);
  for (const { context, question, answers } of lines) {
    const [, key] = /in line (\S+)\? I need/.exec(question) ?? [];
    expect(context).toContain(`line ${key}: REGISTER_CONTENT is <${answers[0]}>`);
  }
});
