import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { Chat, loadCache, loadModel, saveCache, Sequence, type HostModel } from '../src/index.ts';

let model: HostModel;
beforeAll(async () => {
  model = await loadModel('embedded');
});
const messages = ['The code is: AB12CD34. ', 'A wide river. '.repeat(12), 'The boys walked on.', 'What is it? '];
const longest = (kept: readonly (readonly (readonly number[])[])[]): number =>
  Math.max(...kept.flat().map(({ length }) => length));

test('a chat refuses a budget that nothing keeps', async () => {
  const chat = new Chat(model, { budget: 64, maxNewTokens: 2 });
  await expect(chat.send('Hi')).rejects.toThrow(
    "policy: expected the policy that keeps a budget of 64, such as 'outstandingSentences', got none",
  );
  expect(chat.sequence.progress.length).toBe(0);
});

test('the bound that a chat reports is never exceeded, and is no more than budget and block, or budget and answer', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom('streaming(sinks=2)', 'knorm | topK', 'outstandingSentences'),
      fc.integer({ min: 16, max: 60 }),
      fc.integer({ min: 4, max: 40 }),
      fc.integer({ min: 1, max: 20 }),
      fc.option(fc.integer({ min: 2, max: 12 }), { nil: undefined }),
      async (policy, budget, block, maxNewTokens, every) => {
        const chat = new Chat(model, { policy, budget, block, maxNewTokens, every });
        for (const message of messages) {
          const {
            report: { bound, mostSlots },
          } = await chat.send(message);
          expect(mostSlots).toBeLessThanOrEqual(bound.slots);
          expect(bound.slots).toBeLessThanOrEqual(budget + Math.max(block, maxNewTokens));
          expect(longest(chat.sequence.kept())).toBeLessThanOrEqual(budget);
        }
        chat.destroy();
      },
    ),
    { numRuns: 12 },
  );
});

test('a chat refuses a sequence of another model, and what is none', async () => {
  const other = await loadModel('packages/model-reasoner');
  expect(() => new Chat(model, { sequence: new Sequence(other) })).toThrow(
    'chat: expected a sequence of embedded, got one of packages/model-reasoner',
  );
  for (const wrong of [{}, { model, memory: 1 }, new Map()])
    expect(() => new Chat(model, { sequence: wrong as unknown as Sequence })).toThrow(
      'chat: expected a sequence, such as',
    );
});

test('a loaded conversation goes on under its policy, or says that it has none', async () => {
  const policy = 'outstandingSentences',
    budget = 24,
    chat = new Chat(model, { policy, budget, maxNewTokens: 6 });
  for (const message of messages) await chat.send(message);
  await chat.flush();
  const bytes = await saveCache(chat.sequence),
    kept = new Chat(model, { sequence: await loadCache(model, bytes, { policy, budget }), maxNewTokens: 6 }),
    free = new Chat(model, { sequence: await loadCache(model, bytes), maxNewTokens: 6 });
  for (const message of messages) {
    await kept.send(message);
    await free.send(message);
    expect(longest(kept.sequence.kept())).toBe(budget);
  }
  const cleared = new Chat(model, { sequence: await loadCache(model, bytes, { policy, budget }), maxNewTokens: 6 });
  cleared.clear();
  for (const message of messages) await cleared.send(message);
  expect(longest(cleared.sequence.kept())).toBe(budget);
  expect(longest(free.sequence.kept())).toBeGreaterThan(2 * budget);
  const { report } = await free.send('Hi');
  expect([report.policy, report.budget]).toEqual(['full', undefined]);
  expect(report.notes.join()).toMatch(
    /loaded without a policy: nothing is evicted from now on; .* kept it at 24 slots/,
  );
});
