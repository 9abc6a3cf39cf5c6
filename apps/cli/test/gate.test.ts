import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeTinyModel } from '@kv/model-testing';
import { excerpt } from '@kv/model-testing/reference';
import { readGate } from '@kv/scorers-gate';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { kv } from './terminal.ts';

let cwd: string, model: string;
const short = ['--shortest', '60', '--longest', '90'];
beforeAll(() => {
  cwd = mkdtempSync(join(tmpdir(), 'kv-gate-'));
  const book = excerpt('alice29.txt', 600, 1000);
  for (const [name, text] of [
    ['a.txt', book.slice(0, 500)],
    ['b.txt', book.slice(500)],
    ['short.txt', 'Too short.'],
    ['binary.txt', 'a\0b'],
  ] as const)
    writeFileSync(join(cwd, name), text);
  model = writeTinyModel(join(cwd, 'model'));
});
afterAll(() => rmSync(cwd, { recursive: true }));

test('kv gate fits a gate, says how well it predicts, and kv run scores by it', async () => {
  const before = await kv(['run', '--model', model, 'The key is XK.', '--policy', 'gate | topK', '--budget', '75%'], {
    cwd,
  });
  expect([before.code, before.stderr.trim().split('\n').at(-1)]).toEqual([
    2,
    "gate: expected gate.safetensors next to the model, got none: make it with 'kv gate --model MODEL --text FILES'",
  ]);
  const made = await kv(['gate', '--model', model, '--text', 'a.txt', 'b.txt', ...short], { cwd });
  expect(made.stdout).toMatch(
    /^layer {2}head 0 {2}head 1\n(?: +\d+ +-?\d+\.\d{3} +-?\d+\.\d{3}\n){2}R² of the log importance of \d+ tokens that trained nothing: -?\d+\.\d{3} on average, from -?\d+\.\d{3} to -?\d+\.\d{3}; \d+ tokens trained\n.*gate\.safetensors\n$/,
  );
  expect(made.code).toBe(0);
  expect(made.stderr).toMatch(/kv gate: \d+ of \d+ jobs/);
  expect(readGate(readFileSync(join(model, 'gate.safetensors')))).toHaveLength(2);
  const json = await kv(
    ['gate', '--model', model, '--text', 'a.txt', '--text', 'b.txt', ...short, '--out', 'own', '--json'],
    { cwd },
  );
  const said = JSON.parse(json.stdout) as { file: string; r2: number[][]; mean: number; tokens: { trained: number } };
  expect([said.file, said.r2.length, said.tokens.trained > 0]).toEqual(['own', 2, true]);
  expect(json.stderr).toContain(
    `gate: the policy 'gate' reads ${join(model, 'gate.safetensors')}: put the file there, or at that name next to a link to the model\n`,
  );
  expect(made.stderr).not.toContain('put the file there');
  expect(said.mean).toBeCloseTo(said.r2.flat().reduce((a, b) => a + b, 0) / 4, 9);
  expect(readFileSync(join(cwd, 'own'))).toEqual(readFileSync(join(model, 'gate.safetensors')));
  const prompt = 'The secret code is: XK7M9P2Q. The secret code is:';
  for (const policy of ['gate | topK', 'gate | threshold(at=-6, window=8) | topK', 'view(gate | topK, budget=16)']) {
    const { code, stderr } = await kv(
      [
        'run',
        '--model',
        model,
        prompt,
        '--policy',
        policy,
        '--max-new-tokens',
        '4',
        ...(policy === 'gate | topK' ? ['--budget', '75%'] : []),
      ],
      { cwd },
    );
    expect([code, policy, code === 0 ? '' : stderr]).toEqual([0, policy, '']);
  }
});

test('a stop leaves the gate of before, and nothing else; bad input is one sentence', async () => {
  const abort = new AbortController(),
    files = (): string[] => readdirSync(cwd).filter((name) => name.startsWith('old'));
  writeFileSync(join(cwd, 'old'), 'before');
  const stopping = kv(['gate', '--model', model, '--text', 'a.txt', 'b.txt', ...short, '--out', 'old'], {
    cwd,
    signal: abort.signal,
  });
  setTimeout(() => abort.abort(), 1);
  expect((await stopping).code).toBe(130);
  expect([files(), readFileSync(join(cwd, 'old'), 'utf8')]).toEqual([['old'], 'before']);
  for (const [args, says] of [
    [[], '--text: expected at least one file with a plain text, got none'],
    [['--text', 'none.txt'], 'none.txt: cannot be read (ENOENT)'],
    [['--text', 'binary.txt'], 'binary.txt: expected a text in UTF-8, got other bytes'],
    [
      ['--text', 'short.txt', ...short],
      /^--text: expected texts of at least 120 tokens, so that some train and some are held out, got \d+ in 'short.txt'$/,
    ],
    [['--text', 'a.txt', '--shortest', '90', '--longest', '60'], '--longest: must be at least shortest, 90, got 60'],
    [
      ['--text', 'a.txt', ...short, '--tokens', '100'],
      /^--tokens: must be at least 120, a stretch of --shortest tokens that trains/,
    ],
    [['--text', 'a.txt', '--out', '/nowhere/gate'], /^\/nowhere\/gate: expected a folder that exists/],
  ] as const) {
    const { code, stderr } = await kv(['gate', '--model', model, ...args], { cwd }),
      said = stderr.trim().split('\n').at(-1);
    expect(code, stderr).toBe(2);
    if (typeof says === 'string') expect(said).toBe(says);
    else expect(said).toMatch(says);
  }
});
