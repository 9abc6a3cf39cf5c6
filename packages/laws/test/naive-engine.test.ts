import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

test("the adapters' README shows the naive engine whole", () => {
  const read = (path: string): string => readFileSync(new URL(path, import.meta.url), 'utf8');
  expect(read('../../adapters/README.md')).toContain(`\`\`\`ts\n${read('naive-engine.ts')}\`\`\`\n`);
});
