import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { writeTinyModel } from '@kv/model-testing';
import { writeEmbeddedGguf } from '@kv/model-testing/embedded-gguf';
import { describe, expect, it, vi } from 'vitest';
import { main } from '../src/main.ts';
import { folder, kv } from './terminal.ts';

describe('kv serve', () => {
  it('says where it listens, answers, and ends a signal with 0', async () => {
    let address: string | undefined, answered: Promise<unknown> | undefined;
    const { code, stdout, stderr } = await kv(
      [
        'serve',
        '--policy',
        'snapkv(window=4)',
        '--budget',
        '50%',
        '--memory',
        '64MB',
        '--port',
        '0',
        '--device',
        'cpu',
      ],
      {
        onWrite: (text, interrupt) => {
          address ??= /"address":"([^"]+)"/.exec(text)?.[1];
          if (address === undefined) return;
          answered ??= fetch(`${address}/v1/completions`, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ model: 'embedded', prompt: 'The river was wide and the boys', max_tokens: 2 }),
          })
            .then((answer) => answer.json())
            .finally(interrupt);
        },
      },
    );
    expect([code, stderr]).toEqual([0, '']);
    expect(await answered).toMatchObject({
      object: 'text_completion',
      kv: { policy: 'snapkv(window=4) ∘ topK', budget: '50%' },
    });
    for (const line of stdout.trim().split('\n')) expect(typeof JSON.parse(line)).toBe('object');
  });
  it.each([
    [
      ['--host', '0.0.0.0', '--model', '/nowhere/nope.gguf'],
      '--host: expected a loopback address such as 127.0.0.1 without API keys, got 0.0.0.0',
    ],
    [['--model', '/nowhere/nope.gguf'], 'there is no "/nowhere/nope.gguf"'],
    [['--memory', '3'], 'memory'],
    [['--memory', 'much'], "--memory: must be a number of bytes such as 512MB, 2GB or 1.5GiB, got 'much'"],
    [['--policy', 'snapkv'], 'budget'],
    [['--pieces', '@unknown/nothing'], '@unknown/nothing: expected an installed package'],
    [['--api-key-file', 'missing'], 'missing'],
    [['--conversations', '/dev/null/here'], 'conversations: expected a folder that this process may read and write'],
  ])('%j is one sentence', async (args, says) => {
    const { code, stderr } = await kv(['serve', '--port', '0', '--device', 'cpu', ...args]);
    expect(code).toBe(2);
    expect(stderr).toContain(says);
    expect(stderr.trim().split('\n')).toHaveLength(1);
  });
  it.each([false, true])(
    'tells a person where it listens and what to paste, and logs to others (chat template: %s)',
    async (chats) => {
      const cwd = folder(),
        gguf = join(cwd, "an 'embedded' one.gguf"),
        model = chats ? writeTinyModel(join(cwd, "a 'tiny' one")) : gguf;
      writeEmbeddedGguf(gguf);
      if (chats)
        writeFileSync(join(model, 'chat_template.jinja'), '{% for m in messages %}{{ m.content }}{% endfor %}');
      let shown = '',
        logged = '';
      const abort = new AbortController(),
        ran = main(['serve', '--model', model, '--port', '0', '--device', 'cpu'], {
          stdout: { isTTY: true, columns: 80, write: (text) => void (logged += text) },
          stderr: { isTTY: true, write: (text) => void (shown += text) },
          signal: abort.signal,
          cwd,
          debug: false,
        });
      await vi.waitFor(() => expect(shown).toContain('curl '), 10_000);
      const pasted = /curl .*$/m.exec(shown)?.[0] ?? '',
        { stdout } = await promisify(execFile)('sh', ['-c', `${pasted} -s`]);
      abort.abort();
      expect(await ran).toBe(0);
      expect(JSON.parse(stdout)).toMatchObject({
        model: chats ? "a 'tiny' one" : "an 'embedded' one",
        object: chats ? 'chat.completion' : 'text_completion',
      });
      expect(shown).toMatch(/\n {2}API {3}(http:\/\/127\.0\.0\.1:\d+)\/v1\n {2}page {2}\1\/\n[^]*its field "policy"/);
      expect(logged).toBe(''); // nothing was wrong
    },
  );
  it('reads keys from a file, without those that are none', async () => {
    const cwd = folder();
    writeFileSync(join(cwd, 'keys'), '# no key\n\n');
    expect((await kv(['serve', '--api-key-file', 'keys', '--port', '0', '--device', 'cpu'], { cwd })).stderr).toBe(
      'keys: expected at least one key, one a line, got none\n',
    );
  });
});
