import { mkdirSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cacheFolder, endpointOf } from '../src/environment.ts';
import { parseModelName } from '../src/index.ts';
import { parseRepo } from '../src/repo-name.ts';
import { cache } from './model.ts';

describe('the name of a model', () => {
  const repo = (name: string, more: object = {}): object => ({ kind: 'repo', repo: name, ...more });
  const meanings: (readonly [string, object])[] = [
    ['embedded', { kind: 'embedded' }],
    ['HuggingFaceTB/SmolLM2-135M-Instruct', repo('HuggingFaceTB/SmolLM2-135M-Instruct')],
    ['unsloth/x.y_z-GGUF:Q4_K_M', repo('unsloth/x.y_z-GGUF', { quant: 'Q4_K_M' })],
    ['unsloth/x-GGUF:UD-Q4_K_XL', repo('unsloth/x-GGUF', { quant: 'UD-Q4_K_XL' })],
    ['org/name/file.gguf', repo('org/name', { file: 'file.gguf' })],
    ['org/name/BF16/file.GGUF', repo('org/name', { file: 'BF16/file.GGUF' })],
    ...[
      './org/name',
      '../org/name',
      '/org/name',
      '~/org/name',
      'name',
      'a/b/c',
      'org\\name',
      'C:\\x',
      'C:/x',
      'org/',
      '/',
      '',
      '.',
      'a//b',
      'org/name:',
      'org/..',
      'org/na--me',
      'org/name.git',
    ].map((path) => [path, { kind: 'folder', path }] as const),
    ...['file.gguf', './org/name/file.gguf', 'models/file.gguf', '/x/y.gguf', 'org/name/../x.gguf'].map(
      (path) => [path, { kind: 'gguf', path }] as const,
    ),
    ['https://host/x', { kind: 'url', url: 'https://host/x' }],
    ['file:///x', { kind: 'url', url: 'file:///x' }],
  ];
  it.each(meanings)('%j', (text, meaning) => expect(parseModelName(text, cache())).toEqual(meaning));
  it('is a path where there is one', () => {
    const cwd = cache();
    mkdirSync(join(cwd, 'org/name'), { recursive: true });
    writeFileSync(join(cwd, 'org/name/file.gguf'), '');
    expect(parseModelName('org/name', cwd)).toEqual({ kind: 'folder', path: 'org/name' });
    expect(parseModelName('org/name/file.gguf', cwd)).toEqual({ kind: 'gguf', path: 'org/name/file.gguf' });
    expect(parseModelName('org/other', cwd)).toMatchObject({ kind: 'repo' });
  });
  it('never throws, and a repository has no part that leads elsewhere', () => {
    const part = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 6 }),
      fc.constantFrom('..', '.', 'a', '.gguf', ':', '\0', '--', '%2e%2e'),
    );
    fc.assert(
      fc.property(
        fc.array(part, { maxLength: 5 }).map((parts) => parts.join('/')),
        (text) => {
          const name = parseModelName(text, '/nowhere');
          if (name.kind === 'repo')
            for (const piece of `${name.repo}/${name.file ?? 'x'}`.split('/'))
              expect(piece).not.toMatch(/^\.{0,2}$|[\\\0:]/);
        },
      ),
      { numRuns: 300 },
    );
  });
  it.each(['name', '../x/y', 'a/b/c', 'embedded'])('that must be a repository is not %j', (text) =>
    expect(() => parseRepo(text)).toThrow(/^model: expected a repository such as /),
  );
});

describe('the environment', () => {
  it.each([
    [{}, join(homedir(), '.cache/huggingface/hub')],
    [{ XDG_CACHE_HOME: '/x' }, '/x/huggingface/hub'],
    [{ XDG_CACHE_HOME: '/x', HF_HOME: '/h' }, '/h/hub'],
    [{ HF_HOME: '~/h' }, join(homedir(), 'h/hub')],
    [{ HF_HOME: '/h', HUGGINGFACE_HUB_CACHE: '/old' }, '/old'],
    [{ HF_HOME: '/h', HUGGINGFACE_HUB_CACHE: '/old', HF_HUB_CACHE: '/c' }, '/c'],
    [{ HF_HOME: '', HF_HUB_CACHE: '' }, join(homedir(), '.cache/huggingface/hub')],
  ])('%j puts the cache into %s', (env, folder) => expect(cacheFolder(env)).toBe(folder));
  it('names the endpoint', () => {
    expect(endpointOf({})).toBe('https://huggingface.co');
    expect(endpointOf({ HF_ENDPOINT: 'https://mirror.example/hf/' })).toBe('https://mirror.example/hf');
    expect(() => endpointOf({ HF_ENDPOINT: 'mirror' })).toThrow('HF_ENDPOINT: expected an http(s) URL, got "mirror"');
  });
});
