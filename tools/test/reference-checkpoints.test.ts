import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { root } from '../lib/process.mjs';

const leftOut = (env: NodeJS.ProcessEnv): string[] =>
  JSON.parse(
    execFileSync(
      process.execPath,
      [
        '--input-type=module',
        '--eval',
        `import { leftOut } from ${JSON.stringify(join(root, 'tools/lib/reference-checkpoints.mjs'))};
        console.log(JSON.stringify(leftOut()));`,
      ],
      { encoding: 'utf8', env: { PATH: process.env.PATH, ...env } },
    ),
  );

test('test files that read reference checkpoints are left out where there are none, and no other', () => {
  const files = leftOut({ KV_SHARED: join(root, 'nowhere') });
  for (const file of [
    'packages/tasks/test/conformance.shared.test.ts', // by itself
    'packages/checkpoints/test/hostile/texts.test.ts', // through a helper of model-testing
    'packages/models/test/download.test.ts', // late
    'apps/playground/test/engine.test.ts',
  ])
    expect(files).toContain(file);
  for (const file of ['packages/tasks/test/graders.test.ts', 'packages/models/test/wasm-events.test.ts'])
    expect(files).not.toContain(file);
});

test('none is left out where they are, or in CI', () => {
  expect(leftOut({ KV_SHARED: root })).toEqual([]);
  expect(leftOut({ KV_SHARED: join(root, 'nowhere'), CI: 'true' })).toEqual([]);
});

test('one place says where they are', () =>
  expect(execFileSync('git', ['grep', '-lE', 'KV_SHARED[^,;]*(\\?\\?|\\|\\|)'], { cwd: root, encoding: 'utf8' })).toBe(
    'tools/lib/reference-checkpoints.mjs\n',
  ));
