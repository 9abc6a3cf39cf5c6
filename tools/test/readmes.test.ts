import { describe, expect, inject, test } from 'vitest';
import { examples, runExample } from '../lib/readme.mjs';

const pieces = inject('packed').filter(({ folder }) => folder.split('/').length === 3);

describe.each(pieces)('the README of $name', ({ folder }) => {
  test('has an example in a ts block, which runs and prints what its `// =>` comments say', async () => {
    const blocks = examples(folder);
    expect(blocks.length).toBeGreaterThan(0);
    for (const code of blocks) {
      const printed = await runExample(folder, code);
      expect(printed).not.toBe('');
      for (const [, said = ''] of code.matchAll(/\/\/ => (.*)$/gm)) expect(printed).toContain(said);
    }
  });
});
