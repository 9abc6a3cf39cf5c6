import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeTinyModel } from '@kv/model-testing';
import { describe, expect, it } from 'vitest';
import { ownPackage } from '../src/policy/own-packages.ts';
import { ON, start } from './built.ts';
import { folder } from './terminal.ts';

describe('a module in a folder without packages', () => {
  const run = async (imports: string, ...args: readonly string[]) => {
    const cwd = folder();
    writeTinyModel(join(cwd, 'tiny'));
    writeFileSync(
      join(cwd, 'mine.mjs'),
      `import { compose } from '@kv/core';\n${imports}\nexport const policy = compose(knorm(), topK());`,
    );
    return start([...args, '--model', 'tiny'], cwd).ended;
  };
  const pieces = "import { knorm } from '@kv/scorers-knorm';\nimport { topK } from '@kv/selectors-top-k';";
  it.each([
    [
      'kv run',
      ['run', '--prompt', 'It was cold.', '--policy', './mine.mjs', '--budget', '50%', '--max-new-tokens', '1'],
    ],
    [
      'threads of kv needle',
      [
        'needle',
        '--policies',
        './mine.mjs',
        '--budgets',
        '50%',
        '--depths',
        '0.5',
        '--prompts',
        '1',
        '--tokens',
        '220',
        ...ON,
      ],
    ],
  ])('takes those of kv: %s', async (_, args) => {
    const { code, stdout, stderr } = await run(pieces, ...args);
    expect(code, stderr).toBe(0);
    expect(`${stdout}${stderr}`).toMatch(/knorm ∘ topK|mine\.mjs/);
  });
  it('is refused a name that no package has', async () => {
    const { code, stderr } = await run(
      "import {} from '@kv/nobodys';",
      'run',
      '--prompt',
      'x',
      '--policy',
      './mine.mjs',
    );
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(/^\.\/mine\.mjs: expected a module that can be imported, got .*'@kv\/nobodys'/),
    ]);
  });
});

it('its results are told apart by the code of those packages', () => {
  expect(ownPackage('@kv/core')).toMatch(/core$/);
  expect(ownPackage('@kv/scorers-knorm')).toMatch(/knorm$/);
  expect(ownPackage('vitest')).toBeUndefined();
});
