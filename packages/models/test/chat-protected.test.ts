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

test('the first message is the first one, also if it was aborted before any of it was read', async () => {
  const protect = ['first-user', 'system'],
    options = { system: 'Be brief.', policy: 'streaming', budget: 64, maxNewTokens: 2, protect },
    [chat, plain] = [new Chat(model, options), new Chat(model, options)];
  await chat.send('Hi.', { signal: AbortSignal.abort() });
  expect(chat.sequence.progress.length).toBe(0);
  await chat.send(LONG);
  await plain.send('Hi.');
  expect(spansOf(chat)).toEqual(spansOf(plain));
  for (const each of [chat, plain]) each.destroy();
});

test('a loaded conversation protects what it holds of ranges and the system text, and says what it does not', async () => {
  const system = 'Be brief. '.repeat(5),
    sequence = await loaded({ budget: 56 }),
    { length } = sequence.progress,
    range: PositionSpan = [length - 9, length - 3],
    protect = [range, 'first-user', 'system'] as const,
    chat = new Chat(model, { sequence, maxNewTokens: 2, system, protect });
  expect(length).toBeLessThan(56); // all is held
  for (let turn = 0; turn < 2; turn++) {
    const { report } = await chat.send(LONG);
    expect(report.notes).toEqual([
      "'first-user' is to be protected, and where it stands in a loaded conversation is not known: name its text",
    ]);
    const [[from, to], other] = spansOf(chat);
    expect(other).toEqual(range);
    const { text } = chat.sequence.progress;
    expect(text.text.slice(text.offsets[from][0], text.offsets[to - 1][1])).toBe(system.trim());
  }
  chat.destroy();

  const other = new Chat(model, {
      ...{ sequence: await loaded({ budget: 24 }), maxNewTokens: 2, system: 'Shout.' },
      protect: [[2, 8], 'system'],
    }),
    { report } = await other.send('Well?');
  expect(report.notes).toEqual([
    '[2, 8] is to be protected, and was dropped before it was',
    "'system' is to be protected, and stands nowhere in the conversation so far",
    'the system text stands nowhere in the loaded conversation: `clear` begins one with it',
  ]);
  other.clear();
  expect((await other.send('Well?')).report.notes).toEqual([]);
  expect(other.sequence.progress.text.text).toContain('Shout.');
  expect(spansOf(other)).toHaveLength(1);
  other.destroy();
});
