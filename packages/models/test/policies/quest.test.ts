import { fixture } from '@kv/model-testing/fixture';
import { expect, test } from 'vitest';
import { parsePolicy } from '@kv/policies';
import { generate, loadModel } from '../../src/index.ts';
import type { ObservedRow } from '../../src/index.ts';

test('Quest shows whole pages and leaves its first layers dense', async () => {
  const model = await loadModel(fixture('llama')),
    ids = Array.from({ length: 30 }, (_, i) => (7 * i) % 50),
    rows: ObservedRow[] = [];
  await generate(model, {
    ids,
    policy: parsePolicy('quest(page=8,slots=20,dense=1)'),
    maxNewTokens: 4,
    certify: { row: (row) => rows.push(row), conclude: () => ({}) },
  });
  expect(rows.length).toBeGreaterThan(0);
  for (const { layer, kept, query } of rows) {
    const earlier = kept.filter((slot) => slot < query),
      pages = new Map<number, number>();
    for (const slot of earlier) pages.set(Math.floor(slot / 8), (pages.get(Math.floor(slot / 8)) ?? 0) + 1);
    if (layer < 1) expect(earlier).toHaveLength(query);
    else for (const [page, seen] of pages) expect(seen).toBe(Math.min(8, query - 8 * page)); // no page is cut
  }
});
