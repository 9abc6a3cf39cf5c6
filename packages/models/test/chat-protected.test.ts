import type { PositionSpan } from '@kv/core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Chat, loadCache, loadModel, saveCache, type ChatSettings, type Model, type Sequence } from '../src/index.ts';

let model: Model;
beforeAll(async () => {
  model = await loadModel('embedded');
});
afterAll(() => model.destroy?.());

const LONG = 'The wide river was wide, and the boat was old. '.repeat(12);
const positionsOf = ({ sequence }: Chat): readonly number[] => sequence.kept()[0][0];
const spansOf = ({ sequence }: Chat): readonly PositionSpan[] => sequence.active.policy.protectedSpans;

/** Returns a conversation, as it is loaded, whose system text is 'Be brief. ' five times. */
async function loaded(options: ChatSettings = {}): Promise<Sequence> {
  const chat = new Chat(model, {
    ...{ system: 'Be brief. '.repeat(5), policy: 'recency | topK', budget: 64, maxNewTokens: 2 },
    ...options,
  });
  await chat.send('Hello, and what is it?');
  await chat.flush();
  const sequence = await loadCache(model, await saveCache(chat.sequence), { policy: 'recency | topK' });
  chat.destroy();
  return sequence;
}

test('a conversation that goes on and is cleared does not keep what the earlier one protected', async () => {
  const chat = new Chat(model, { sequence: await loaded({ protect: ['system'] }), maxNewTokens: 2 });
  expect(spansOf(chat)).toHaveLength(1);
  await chat.send('And now?');
  expect(spansOf(chat)).toHaveLength(1);
  chat.clear();
  await chat.send(LONG);
  expect(spansOf(chat)).toEqual([]);
  const newest = chat.sequence.progress.length;
  expect(positionsOf(chat)).toEqual(Array.from({ length: 64 }, (_, i) => newest - 64 + i));
  chat.destroy();
});

test('what an aborted message left is flushed in blocks, each followed by an eviction', async () => {
  const chat = new Chat(model, { policy: 'streaming', budget: 64, block: 64 }),
    stop = new AbortController();
  await chat.send(LONG.repeat(8), { signal: stop.signal, onRead: (read) => read > 100 && stop.abort() });
  const unread = chat.unread.length;
  expect(unread).toBeGreaterThan(500);
  const { length } = chat.sequence.progress;
  await chat.flush();
  expect([chat.unread.length, chat.sequence.progress.length]).toEqual([0, length + unread]);
  expect(positionsOf(chat)).toHaveLength(64);
  expect(chat.sequence.progress.mostSlots).toBeLessThanOrEqual(128);
  chat.destroy();
});
