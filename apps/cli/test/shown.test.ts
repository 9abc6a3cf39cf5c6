import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { KvError } from '@kv/core';
import { needleReport } from '@kv/evaluation';
import { expect, test } from 'vitest';
import { columns } from '../src/columns.ts';
import { oneSentence } from '../src/one-sentence.ts';
import { shownOn } from '../src/terminal.ts';
import { kv } from './terminal.ts';

test('an error shows neither credentials nor what moves a cursor', () => {
  const error = new KvError('a\u001b]0;title\u0007b', 'expected no token: such, got "password: hunter2"\nmore');
  expect(oneSentence(error)).toBe('a]0;titleb: expected no token: such, got "password: [redacted]" more');
});

test('names in tables keep no control characters, and tables their colours', () => {
  expect(columns([['\u001b[1mname\u001b[22m', 'x\u001b[2Jy\u202ez']])).toBe('\u001b[1mname\u001b[22m  x[2Jyz');
});

test('a model’s text moves no cursor on a terminal, and is itself elsewhere', () => {
  const text = 'a\u001b[2Jb\n\tc\r\u0007';
  expect(shownOn({ write: () => {}, isTTY: true }, text)).toBe('a[2Jb\n\tc');
  expect(shownOn({ write: () => {} }, text)).toBe(text);
});

test('the report lets nothing run or apply but its own script and style', () => {
  const html = needleReport({
    settings: {
      model: '<img src=x onerror=alert(1)>',
      weights: 'w',
      engine: 'e',
      policies: ['full'],
      code: [],
      budgets: [8],
      depths: [0.5],
      prompts: 1,
      tokens: 64,
      seed: 0,
      modes: ['aware'],
      form: 'code',
      asking: 'cued',
      distractors: 0,
    },
    arms: [],
    rows: [],
    results: [],
  } as unknown as Parameters<typeof needleReport>[0]);
  const [, policy = ''] = /<meta http-equiv="Content-Security-Policy" content="([^"]*)">/.exec(html) ?? [];
  const hash = (text: string | undefined): string =>
    `'sha256-${createHash('sha256')
      .update(text ?? '')
      .digest('base64')}'`;
  expect(policy).toContain(`default-src 'none'`);
  expect(policy).toContain(`script-src ${hash(/<script>([^]*?)<\/script>/.exec(html)?.[1])}`);
  expect(policy).toContain(`style-src ${hash(/<style>([^]*?)<\/style>/.exec(html)?.[1])}`);
  expect(html.indexOf('Content-Security-Policy')).toBeLessThan(html.indexOf('<style'));
  expect(html).not.toMatch(/<[^>]+\s(?:on\w+|style)=/);
});

test('the first Ctrl-C ends the wait for a model’s address', async () => {
  const abort = new AbortController();
  const server = createServer(() => void setTimeout(() => abort.abort(), 20));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  try {
    const { code, stderr } = await kv(['run', '--model', address, '--prompt', 'x'], { signal: abort.signal });
    expect([code, stderr]).toEqual([130, '']);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test.each([
  [['needle', '--model', 'https://127.0.0.1:1/model'], /download failed: /],
  [['run', '--model', 'file:///nowhere', '--prompt', 'x'], /expected 'embedded', a \.gguf file or a folder/],
  [['run', '--prompt-file', '/'], /cannot be read \(EISDIR\)/],
  [['run', '--prompt-file', '/dev/zero'], /expected a text of at most \d+ bytes, got more/],
  [['run', '--prompt', 'x', '--model', '/dev/null'], /expected/],
  [['run', '--load-cache', '/dev/null', '--question', 'x'], /is not a regular file/],
  [['run', '--document', '/dev/null', '--save-cache', '/'], /expected a file, got a folder/],
  [['calibrate', '--text', '/dev/null', '--out', '/nowhere/c'], /expected a folder that exists/],
])('kv %j is a sentence, not a fault of kv', async (args, message) => {
  const { code, stderr } = await kv(args as string[]);
  expect(stderr).toMatch(message as RegExp);
  expect(stderr).not.toContain('fault of kv');
  expect(code).toBe(2);
});
