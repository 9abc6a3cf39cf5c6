import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { writeTinyModel } from '@kv/model-testing';
import { describe, expect, it } from 'vitest';
import { bin } from './built.ts';
import { folder } from './terminal.ts';

const cwd = folder(),
  model = writeTinyModel(join(cwd, 'tiny'));

describe('the built kv chat', () => {
  it.each([
    ['once', 1, 0],
    ['twice', 2, 130],
  ] as const)('Ctrl-C %s', async (_, times, want) => {
    const child = spawn(
      process.execPath,
      [
        bin,
        'chat',
        '--model',
        model,
        '--policy',
        'streaming',
        '--budget',
        '48',
        '--max-new-tokens',
        '5000',
        '--save',
        `spawned${times}.safetensors`,
      ],
      { cwd },
    );
    let stdout = '',
      stderr = '';
    child.stderr.on('data', (text: Buffer) => {
      stderr += text.toString();
    });
    child.stdout.on('data', (text: Buffer) => {
      stdout += text.toString();
      if (stdout.length > 3 && child.killed === false) {
        child.kill('SIGINT');
        if (times === 2) setTimeout(() => child.kill('SIGINT'), 50);
        else child.stdin.end('/bytes\n');
      }
    });
    child.stdin.write(`one two three\n`);
    const code = await new Promise((resolve) => {
      child.on('close', resolve);
    });
    expect(code, stderr).toBe(want);
    if (times === 1) expect(stderr).toMatch(/, stopped\ncache /);
    expect(existsSync(join(cwd, `spawned${times}.safetensors`))).toBe(true);
  });
  it('goes on and saves where no one reads its answers', async () => {
    const child = spawn(
      process.execPath,
      [bin, 'chat', '--model', model, '--policy', 'full', '--max-new-tokens', '4', '--save', 'unread.safetensors'],
      { cwd },
    );
    let stderr = '';
    child.stderr.on('data', (text: Buffer) => {
      stderr += text.toString();
    });
    child.stdout.destroy();
    child.stdin.end('one two three\nfour\n');
    const code = await new Promise((resolve) => {
      child.on('close', resolve);
    });
    expect([code, existsSync(join(cwd, 'unread.safetensors'))], stderr).toEqual([0, true]);
    expect(stderr.match(/^kv: no one reads standard output any more: going on without it$/gm)).toHaveLength(1);
  });
});
