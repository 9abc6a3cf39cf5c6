import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { describe, expect, inject, test } from 'vitest';
import { size } from '../sizes.mjs';
import { REPOSITORY } from './pack.ts';

const packed = inject('packed');
const tar = async (...args: readonly string[]): Promise<string> =>
  (await promisify(execFile)('tar', args, { maxBuffer: 2 ** 24 })).stdout;
const modules = packed.filter(
  ({ name }) =>
    ![
      '@kv/cli',
      '@kv/create-app',
      '@kv/create-piece',
      '@kv/detector-smollm2',
      '@kv/model-embedded',
      '@kv/model-hybrid',
      '@kv/model-reasoner',
    ].includes(name),
);

describe.each(packed)('$name', ({ tarball }) => {
  test('is published in good shape (publint)', async () => {
    const bytes = await readFile(tarball);
    const { messages, pkg } = await publint({
      pack: { tarball: bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) },
      strict: true,
    });
    expect(messages.map((message) => formatMessage(message, pkg, { color: false }))).toEqual([]);
  });

  test('needs nothing that only this workspace has', async () => {
    const { pkg } = await publint({ pack: { tarball: new Uint8Array(await readFile(tarball)).buffer } });
    expect(JSON.stringify(pkg)).not.toMatch(/"(workspace|catalog|link|file):/);
  });
});

describe.each(packed)('$name, once installed,', ({ name, folder, tarball }) => {
  const read = (file: string): Promise<string> => tar('-xzOf', tarball, `package/${file}`);

  test('has licence, changes, keywords and the place of its sources', async () => {
    expect(await read('LICENSE')).toContain('MIT License');
    expect(await read('CHANGELOG.md')).toMatch(new RegExp(`^# ${name}$`, 'm'));
    const { keywords, repository, license, description } = JSON.parse(await read('package.json'));
    expect({ keywords, repository, license, description }).toEqual({
      keywords: expect.arrayContaining(['kv-cache']),
      repository: { type: 'git', url: REPOSITORY, directory: folder },
      license: 'MIT',
      description: expect.stringMatching(/\.$/),
    });
  });

  test('has a README whose links lead somewhere and that says how to install it, its peers and what it shows', async () => {
    const readme = await read('README.md'),
      files = (await tar('-tzf', tarball)).split('\n');
    const links = [...readme.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link.split('#')[0]);
    const dead = links.filter(
      (link) => link !== '' && !/^https?:/.test(link) && !files.some((file) => file.startsWith(`package/${link}`)),
    );
    expect(dead).toEqual([]);
    const installs = [...readme.matchAll(/`npm i (?:-\w )?([^`]*)`|^npm create (\S+)/gm)].flatMap(
      ([, some, made = '']) => some?.split(' ') ?? made.replace('/', '/create-'),
    );
    const shown = [...readme.matchAll(/^```(?:ts|js)\n([^]*?)^```/gm)].flatMap(([, code = '']) =>
      [...code.matchAll(/ from '((?:@[^/']+\/)?[^./'][^/']*)[^']*';$/gm)].map(([, from = '']) => from),
    );
    const { peerDependencies = {} } = JSON.parse(await read('package.json'));
    const wanted = [name, ...Object.keys(peerDependencies), ...shown].filter((one) => !one.startsWith('node:'));
    expect(installs).toEqual(expect.arrayContaining([...new Set(wanted)]));
  });
});

describe.each(modules)('$name', ({ name, folder, tarball }) => {
  test('has types that every ES module resolution finds (attw)', async () => {
    const analysis = await checkPackage(createPackageFromTarballData(await readFile(tarball)));
    if (!analysis.types) throw new Error(`${name} has no types`);
    const esm = analysis.problems.filter(
      (problem) =>
        !(
          'resolutionKind' in problem &&
          (problem.resolutionKind === 'node10' || problem.resolutionKind === 'node16-cjs')
        ) && problem.kind !== 'CJSResolvesToESM',
    );
    expect(esm).toEqual([]);
  });

  test('stays under the ceiling in its package.json (kv.maxBytes, kv.maxGzippedBytes)', async () => {
    const { bytes, ceiling } = await size(folder);
    expect(bytes, `${name} is ${bytes} bytes, its ceiling is ${ceiling}`).toBeLessThanOrEqual(ceiling);
  });
});
