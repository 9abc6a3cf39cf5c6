import { spawn } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { bin } from './built.ts';
import { folder } from './terminal.ts';

const CODE = 'The secret code is: XK7M9P2Q. The secret code is:',
  cwd = folder();

describe('standard input of a process', () => {
  const ended = (
    stdin: 'ignore' | 'pipe',
    said?: string,
  ): Promise<{ code: number | null; stdout: string; stderr: string }> =>
    new Promise((resolve) => {
      const child = spawn(process.execPath, [bin, 'run', '--stop', '.'], { cwd, stdio: [stdin, 'pipe', 'pipe'] });
      let stdout = '',
        stderr = '';
      child.stdout?.on('data', (text: Buffer) => (stdout += text.toString()));
      child.stderr?.on('data', (text: Buffer) => (stderr += text.toString()));
      if (said !== undefined) child.stdin?.end(said);
      child.on('close', (code) => resolve({ code, stdout, stderr }));
    });
  it('is the prompt', async () =>
    expect(await ended('pipe', `${CODE}\n`)).toMatchObject({ code: 0, stdout: ' XK7M9P2Q\n' }));
  it('is none where it is closed, or a pipe without a writer: no run waits for ever', async () => {
    const [closed, open] = await Promise.all([ended('ignore'), ended('pipe')]);
    expect(closed).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(/^prompt: expected a text, got an empty one: give it by one of /) as string,
    });
    expect(open).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(/^prompt: expected a prompt, got a standard input /) as string,
    });
  }, 60_000);
});
