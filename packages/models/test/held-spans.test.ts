/** How much of each part of a text is held in the end of a run. */
import { compose } from '@kv/core';
import { policy } from '@kv/policies';
import { snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { generate, loadModel } from '../src/index.ts';
import type { Report } from '../src/index.ts';

const model = await loadModel('embedded'),
  ids = model.tokenizer.encode('The wide river was wide. The code is: XK7. One more sentence here. The code is:').ids;

/** Shares and dropped tokens of `[from, to)`, counted token by token over all layers and KV heads. */
function counted({ kept }: Report, from: number, to: number): readonly [share: number, dropped: number] {
  const rows = kept.flat().map((row) => new Set(row)),
    // what no event has seen is held
    seen = 1 + Math.max(...kept.flat(2));
  let [held, dropped] = [0, 0];
  for (let p = from; p < to; p++) {
    const count = rows.filter((row) => p >= seen || row.has(p)).length;
    held += count;
    dropped += Number(count === 0);
  }
  return [held / rows.length / (to - from), dropped];
}

test('spans that a policy cuts are told one by one, with what was read after them', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(fc.integer({ min: 1, max: ids.length - 1 }), { minLength: 1, maxLength: 4 }),
      fc.integer({ min: 8, max: 30 }),
      async (places, budget) => {
        const at = places.sort((a, b) => a - b),
          { report } = await generate(model, {
            ids,
            policy: policy(`snapkv(window=4) | spans(at=${at.join(' ')}) | quota`),
            budget,
            maxNewTokens: 3,
          }),
          { fed, dropped } = report.held.tokens,
          ends = [...at, ids.length, ...(fed > ids.length ? [fed] : [])];
        expect(report.spans).toEqual(
          ends.map((to, i) => {
            const from = ends[i - 1] ?? 0,
              [share, gone] = counted(report, from, to);
            return {
              positions: [from, to],
              tokens: { fed: to - from, dropped: gone },
              share: expect.closeTo(share, 9),
            };
          }),
        );
        expect(report.spans!.reduce((sum, { tokens }) => sum + tokens.dropped, 0)).toBe(dropped);
      },
    ),
    { numRuns: 12 },
  );
});

test('without such a policy the turns of a conversation are, and a text without turns has none', async () => {
  const turn = (text: string): readonly number[] => model.tokenizer.encode(text).ids, // begins with a special token
    chat = [...turn('system\nBe brief.\n'), ...turn('user\nThe code is: XK7. Which code?\n')],
    run = { policy: compose(snapkv({ window: 4 }), topK()), budget: 12, maxNewTokens: 2 },
    { report } = await generate(model, { ids: chat, ...run });
  expect(report.spans).toBeDefined();
  expect(report.spans!.map(({ role }) => role)).toEqual(['system', 'user']);
  expect(report.spans!.map(({ share }) => share)).toEqual(
    report.spans!.map(({ positions }) => expect.closeTo(counted(report, ...positions)[0], 9)),
  );
  expect((await generate(model, { ids, ...run })).report.spans).toBeUndefined();
});
