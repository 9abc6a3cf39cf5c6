import { parseExactJson, writeExactJson } from '@kv/models';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Answer } from '../src/protocol/protocol.ts';
import { conversationOf } from '../src/protocols/messages/conversation.ts';
import type { RequestMessage } from '../src/protocols/messages/fields.ts';
import { messages } from '../src/protocols/messages/messages.ts';
import type { AnswerEvent } from '../src/run/answer-event.ts';
import { conversationTurns } from '../src/run/conversation-turns.ts';

const digits = fc.bigInt(10n ** 17n, 10n ** 25n).map(String);
const nothing = { given: null, tails: [], rest: async () => undefined };
/** The digest of a conversation whose answer calls a function. */
const digest = (text: string): string =>
  conversationTurns(
    [{ role: 'assistant', content: '', tool_calls: [{ id: 'x', function: { name: 'f', arguments: text } }] }],
    nothing,
  ).whole;

test('arguments that differ are another conversation, in any digit', () => {
  fc.assert(
    fc.property(digits, digits, (a, b) => {
      expect(digest(`{"id":${a}}`) === digest(`{"id":${b}}`)).toBe(a === b);
    }),
  );
  expect(digest('{"id":1234567890123456789}')).not.toBe(digest('{"id":1234567890123456790}'));
  expect(digest('{"a":{"b":1}}')).not.toBe(digest('{"a":[["b",1]]}'));
});

test('arguments that are written again are the same conversation: with other space, or names in another order', () => {
  const reversed = (value: unknown): unknown =>
    typeof value !== 'object' || value === null
      ? value
      : Array.isArray(value)
        ? value.map(reversed)
        : Object.fromEntries(
            Object.entries(value)
              .reverse()
              .map(([name, one]) => [name, reversed(one)]),
          );
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
      expect(digest(JSON.stringify(reversed(value), null, 2))).toBe(digest(JSON.stringify(value)));
    }),
  );
  expect(digest('{"a":1.0,"b":1E2,"c":2.50}')).toBe(digest('{"c":2.5,"b":100,"a":1}'));
});

test('/v1/messages has the numbers of calls as they were written, in an answer and in what was sent', async () => {
  await fc.assert(
    fc.asyncProperty(digits, async (id) => {
      const input = `{"id":${id},"x":1.0}`,
        said: AnswerEvent[] = [
          { what: 'call', choice: 0, call: 0, id: 'abc', name: 'f' },
          { what: 'arguments', choice: 0, call: 0, text: input },
          { what: 'end', choice: 0, finish: 'tool_calls' },
          { what: 'usage', usage: { completionTokens: 1, notes: new Set(), cache: {} } as never },
        ],
        answer = {
          asked: { stop: [] },
          events: (async function* () {
            yield* said;
          })(),
          read: { tokensRead: 1, tokensReused: 0 },
        } as unknown as Answer,
        body = writeExactJson(await messages.whole(answer)),
        block = `{"type":"tool_use","id":"abc","name":"f","input":${input}}`;
      expect(body).toContain(block);
      const sent = parseExactJson(
        `[{"role":"assistant","content":[${block}]},{"role":"user","content":"Q"}]`,
      ) as RequestMessage[];
      expect(conversationOf(sent)[0]).toMatchObject({ tool_calls: [{ function: { arguments: input } }] });
    }),
    { numRuns: 20 },
  );
});
