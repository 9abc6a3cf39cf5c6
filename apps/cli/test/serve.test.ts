import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
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
    [['--host', '0.0.0.0'], 'host: expected a loopback address such as 127.0.0.1 without API keys, got 0.0.0.0'],
    [['--memory', '3'], 'memory'],
    [['--memory', 'much'], '--memory: must be a number of bytes such as 512MB, 2GB or 1.5GiB, got "much"'],
    [['--policy', 'snapkv'], 'budget'],
    [['--pieces', '@nobody/nothing'], '@nobody/nothing: expected an installed package'],
    [['--api-key-file', 'missing'], 'missing'],
  ])('%j is one sentence', async (args, says) => {
    const { code, stderr } = await kv(['serve', '--port', '0', '--device', 'cpu', ...args]);
    expect(code).toBe(2);
    expect(stderr).toContain(says);
    expect(stderr.trim().split('\n')).toHaveLength(1);
  });
  it('reads keys from a file, without those that are none', async () => {
    const cwd = folder();
    writeFileSync(join(cwd, 'keys'), '# nobody\n\n');
    expect((await kv(['serve', '--api-key-file', 'keys', '--port', '0', '--device', 'cpu'], { cwd })).stderr).toBe(
      'keys: expected at least one key, one a line, got none\n',
    );
  });
});
