import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeTinyModel } from '@kv/model-testing';
import { expect, test } from 'vitest';
import { folder, kv, type Run } from './terminal.ts';

const cwd = folder(),
  model = writeTinyModel(join(cwd, 'tiny'));
/** Id of a byte that no text has. */
const CLOSE = 250;
writeFileSync(
  join(model, 'chat_template.jinja'),
  '{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}{% if add_generation_prompt %}<think>\n{% endif %}',
);
const file = join(model, 'tokenizer.json'),
  json = JSON.parse(readFileSync(file, 'utf8')) as { added_tokens: object[]; model: { vocab: Record<string, number> } },
  [old] = Object.entries(json.model.vocab).find(([, id]) => id === CLOSE)!;
delete json.model.vocab[old];
json.model.vocab['</think>'] = CLOSE;
json.added_tokens.push({ ...json.added_tokens[0], id: CLOSE, content: '</think>' });
writeFileSync(file, JSON.stringify(json));
writeFileSync(join(cwd, 'schema.json'), '{"enum":[true,"ab"]}');
writeFileSync(join(cwd, 'document.txt'), 'A boat.');

const run = (...args: string[]): ReturnType<typeof kv> => kv(['run', '--model', model, ...args], { cwd });
const SCHEMA = ['--json-schema', 'schema.json', '--logit-bias', `${CLOSE}=100`, '--json'];

test('kv run --json-schema lets a model that thinks do so first, over a document too', async () => {
  const { stdout, stderr } = await run('Hi', ...SCHEMA),
    { text, tokens } = JSON.parse(stdout);
  expect([stderr, tokens[0]]).toEqual([expect.not.stringContaining('not whole'), CLOSE]);
  expect([true, 'ab']).toContain(JSON.parse(text));
  const over = await run('--document', 'document.txt', '--question', ' Who?', ...SCHEMA),
    [answer] = JSON.parse(over.stdout).answers;
  expect(answer.tokens[0]).toBe(CLOSE);
  expect([true, 'ab']).toContain(JSON.parse(answer.text));
  // without the template it answers at once
  const raw = JSON.parse((await run('Hi', '--raw', ...SCHEMA)).stdout);
  expect([true, 'ab']).toContain(JSON.parse(raw.text));
  expect(raw.tokens).not.toContain(CLOSE);
});

test('reasoning is no text of an answer: a terminal shows it, --json tells it apart', async () => {
  const few = ['--max-new-tokens', '6'],
    told = JSON.parse((await run('Hi', ...few, '--json')).stdout);
  expect(told).toMatchObject({ text: '', reasoning: expect.stringMatching(/./s) });
  expect(JSON.parse((await run('Hi', '--raw', ...few, '--json')).stdout).reasoning).toBeUndefined();
  expect((await run('Hi', ...few)).stdout).toBe('\n');
  const chat = async (more: Run): Promise<string> =>
    (await kv(['chat', '--model', model, '--policy', 'full', ...few], { cwd, lines: ['Hi'], ...more })).stdout;
  expect((await chat({})).trim()).toBe('');
  expect((await chat({ columns: 80 })).trim()).not.toBe('');
});
