import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { violations } from '../boundaries.mjs';

const made: string[] = [];
afterEach(() => {
  for (const folder of made.splice(0)) rmSync(folder, { recursive: true });
});

/** Makes a workspace with core, gpu, laws, policies, the cli and a study, in which `file` contains `text`. */
function workspace(file: string, text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'kv-boundaries-'));
  made.push(folder);
  const write = (path: string, content: string): void => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  };
  mkdirSync(join(folder, 'node_modules/@kv'), { recursive: true });
  for (const path of [
    'packages/core',
    'packages/engine',
    'packages/engine-onnx',
    'packages/gpu',
    'packages/laws',
    'packages/policies',
    'packages/scorers/good',
    'apps/cli',
    'studies/papers',
  ]) {
    const name = `@kv/${path.split('/').slice(1).join('-')}`;
    write(
      `${path}/package.json`,
      JSON.stringify({ name, type: 'module', exports: { '.': { '@kv/source': './src/index.ts' } } }),
    );
    write(`${path}/src/index.ts`, 'export const value = 1;\nexport type Value = number;\n');
    write(`${path}/src/inner.ts`, 'export const inner = 1;\n');
    symlinkSync(join(folder, path), join(folder, 'node_modules', name));
  }
  write(file, text);
  return folder;
}

test.each([
  ['core-stands-alone', 'packages/core/src/index.ts', `export { value } from '@kv/gpu';`],
  ['core-stands-alone', 'packages/core/src/index.ts', `export type { Value } from '@kv/laws';`],
  ['core-stands-alone', 'packages/core/src/index.ts', `export { join } from 'node:path';`],
  ['pieces-see-core-only', 'packages/scorers/bad/src/index.ts', `export { value } from '@kv/scorers-good';`],
  ['pieces-see-core-only', 'packages/scorers/bad/src/index.ts', `export { value } from '@kv/policies';`],
  ['pieces-see-core-only', 'packages/units/bad/src/index.ts', `export { value } from '@kv/laws';`],
  ['laws-see-core-and-cpu', 'packages/laws/src/index.ts', `export { value } from '@kv/gpu';`],
  ['satellites-see-core-only', 'packages/gpu/src/index.ts', `export { value } from '@kv/scorers-good';`],
  ['adapters-see-core-and-policies', 'packages/adapters/bad/src/index.ts', `export { value } from '@kv/scorers-good';`],
  ['checkpoints-see-core-only', 'packages/checkpoints/src/index.ts', `export { value } from '@kv/engine';`],
  [
    'engine-sees-core-checkpoints-and-policies',
    'packages/engine/src/inner.ts',
    `export { value } from '@kv/scorers-good';`,
  ],
  ['engines-see-engine', 'packages/engine-onnx/src/inner.ts', `export { value } from '@kv/policies';`],
  ['models-see-engines', 'packages/models/src/index.ts', `export { value } from '@kv/scorers-good';`],
  ['onnx-on-demand', 'packages/models/src/index.ts', `export { value } from '@kv/engine-onnx';`],
  ['page-sees-what-a-page-needs', 'packages/page/src/index.ts', `export { value } from '@kv/laws';`],
  ['create-app-sees-create-piece', 'packages/create-app/src/bin.mjs', `export { value } from '@kv/core';`],
  ['server-sees-core-engine-and-models', 'packages/server/src/index.ts', `export { value } from '@kv/laws';`],
  ['catalogue-on-demand', 'packages/engine/src/inner.ts', `export { value } from '@kv/policies';`],
  ['catalogue-on-demand', 'packages/adapters/bad/src/index.ts', `export { value } from '@kv/policies';`],
  ['engine-webgpu-sees-gpu-too', 'packages/engine-webgpu/src/index.ts', `export { value } from '@kv/scorers-good';`],
  ['policies-see-core-and-pieces', 'packages/policies/src/index.ts', `export { value } from '@kv/gpu';`],
  ['no-one-imports-apps', 'packages/policies/test/a.test.ts', `export { value } from '@kv/cli';`],
  ['no-one-imports-studies', 'packages/policies/test/a.test.ts', `export { value } from '@kv/papers';`],
  ['no-reaching-inside', 'packages/scorers/bad/src/index.ts', `export { inner } from '../../../core/src/inner.ts';`],
  ['no-reaching-inside', 'packages/scorers/bad/test/a.test.ts', `export { value } from '../../good/src/index.ts';`],
  ['no-reaching-inside', 'apps/cli/src/run.ts', `export { inner } from '../../../packages/core/src/inner.ts';`],
  ['oracles-import-types-only', 'packages/scorers/bad/test/a.oracle.ts', `export { value } from '@kv/core';`],
  ['oracles-import-types-only', 'packages/scorers/good/test/a.oracle.ts', `export { value } from '../src/index.ts';`],
  ['no-circles', 'packages/core/src/inner.ts', `import { again } from './again.ts';\nexport const inner = again;`],
  ['no-circles', 'packages/core/src/inner.ts', `import type { Again } from './again.ts';\nexport type Inner = Again;`],
  ['resolvable', 'packages/scorers/bad/src/index.ts', `export { inner } from '@kv/core/src/inner.ts';`],
])('%s catches %s: %s', async (name, file, text) => {
  const folder = workspace(file, text);
  if (name === 'no-circles')
    writeFileSync(
      join(folder, 'packages/core/src/again.ts'),
      text.startsWith('import type')
        ? `import type { Inner } from './inner.ts';\nexport type Again = Inner;`
        : `import { inner } from './inner.ts';\nexport const again = inner;`,
    );
  const found = await violations(folder);
  expect(found.length).toBeGreaterThan(0);
  for (const sentence of found) expect(sentence).toContain(`[${name}]`);
});

test.each([
  ['packages/scorers/good/src/index.ts', `export { value } from '@kv/core';`],
  [
    'packages/scorers/good/test/a.test.ts',
    `export { value } from '@kv/laws';\nexport { inner } from '../src/inner.ts';`,
  ],
  ['packages/scorers/good/test/a.oracle.ts', `import type { Value } from '@kv/core';\nexport type A = Value;`],
  ['packages/policies/src/index.ts', `export { value } from '@kv/scorers-good';`],
  ['packages/engine-webgpu/src/index.ts', `export { value } from '@kv/gpu';`],
  ['packages/engine/src/inner.ts', `export const load = () => import('@kv/policies');`],
  ['packages/models/src/index.ts', `export const load = () => import('@kv/engine-onnx');`],
  [
    'packages/models/src/index.ts',
    `export type { Value } from '@kv/engine-onnx';\nexport { value } from '@kv/engine';`,
  ],
  ['packages/adapters/good/src/index.ts', `export const load = () => import('@kv/policies');`],
  ['apps/cli/src/index.ts', `export { value } from '@kv/policies';`],
  ['studies/papers/src/index.ts', `export { inner } from '../../../apps/cli/src/inner.ts';`],
])('an allowed import passes: %s: %s', async (file, text) => {
  expect(await violations(workspace(file, text))).toEqual([]);
});
