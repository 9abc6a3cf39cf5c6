import { readFile } from 'node:fs/promises';
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { describe, expect, inject, test } from 'vitest';
import { size } from '../sizes.mjs';

const packed = inject('packed');
const modules = packed.filter(
  ({ name }) => !['@kv/cli', '@kv/create-piece', '@kv/detector-smollm2', '@kv/model-embedded'].includes(name),
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

  test('stays under the ceiling in its package.json (kv.maxBytes)', async () => {
    const { bytes, ceiling } = await size(folder);
    expect(bytes, `${name} is ${bytes} bytes, its ceiling is ${ceiling}`).toBeLessThanOrEqual(ceiling);
  });
});
