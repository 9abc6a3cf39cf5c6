import { execFileSync, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { folder, kv } from './terminal.ts';

const script = async (shell: string): Promise<string> => {
  const { code, stdout } = await kv(['completion', shell]);
  expect(code).toBe(0);
  return stdout;
};
const here = (shell: string): boolean => spawnSync(shell, ['--version'], { stdio: 'ignore' }).status === 0;

it('bash completes commands, options of a command, and policies where they stand', async () => {
  const file = join(folder(), 'kv.bash');
  writeFileSync(file, await script('bash'));
  const complete = (...words: string[]): readonly string[] =>
    execFileSync(
      'bash',
      [
        '-c',
        `source ${file}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kv; printf '%s\\n' "\${COMPREPLY[@]}"`,
        'bash',
        'kv',
        ...words,
      ],
      { encoding: 'utf8' },
    )
      .trim()
      .split('\n');
  expect(complete('ne')).toEqual(['needle']);
  expect(complete('run', '--bud')).toEqual(['--budget']);
  expect(complete('run', '--policy', 'snapkvC')).toEqual(['snapkvCaote']);
  expect(complete('needle', '--policies', 'pyra')).toContain('pyramidal');
  expect(complete('chat', 'x')).toEqual(['']);
});

it.skipIf(!here('fish'))('fish does too', async () => {
  const file = join(folder(), 'kv.fish');
  writeFileSync(file, await script('fish'));
  const complete = (line: string): readonly string[] =>
    execFileSync('fish', ['--no-config', '-c', `source ${file}; complete -C '${line}'`], { encoding: 'utf8' })
      .trim()
      .split('\n')
      .map((found) => found.split('\t')[0] ?? '');
  expect(complete('kv ne')).toEqual(['needle']);
  expect(complete('kv run --bud')).toEqual(['--budget']);
  expect(complete('kv run --policy snapkvC')).toEqual(['snapkvCaote']);
});

it.skipIf(!here('zsh'))('zsh accepts its script', async () => {
  const file = join(folder(), 'kv.zsh');
  writeFileSync(file, await script('zsh'));
  expect(spawnSync('zsh', ['-f', '-n', file], { encoding: 'utf8' })).toMatchObject({ status: 0, stderr: '' });
  const loaded = ['-f', '-c', `autoload -U compinit; compinit -D; source ${file}; print $_comps[kv]`];
  expect(execFileSync('zsh', loaded, { encoding: 'utf8' })).toBe('_kv\n');
});

it('another shell is one sentence', async () =>
  expect(await kv(['completion', 'tcsh'])).toMatchObject({
    code: 2,
    stderr: "shell: must be 'bash' or 'zsh' or 'fish', got 'tcsh'\n",
  }));
