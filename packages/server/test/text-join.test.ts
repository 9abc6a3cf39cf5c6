import type { AnswerPart, AnswerReader } from '@kv/models';
import { loadModel } from '@kv/models';
import { TOOL_TEMPLATES } from '@kv/model-testing/tool-templates';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { gather } from '../src/protocol/gather.ts';
import type { Answer } from '../src/protocol/protocol.ts';
import { gatherSegments } from '../src/protocol/segments.ts';
import { joinedEvents } from '../src/protocol/text-join.ts';
import { answerMessages } from '../src/protocol/turns.ts';
import { chatMessages } from '../src/protocols/messages/conversation.ts';
import type { Block } from '../src/protocols/messages/fields.ts';
import type { Item } from '../src/protocols/responses/fields.ts';
import { messagesOf } from '../src/protocols/responses/items.ts';
import type { AnswerEvent } from '../src/run/answer-event.ts';
import { serve } from './serve.ts';

const word = fc.stringMatching(/^[a-z]{1,5}$/),
  part = fc.oneof(
    fc.record({ what: fc.constantFrom('text' as const, 'reasoning' as const), text: word }),
    fc.constant({ what: 'call' as const }),
  );

test('texts of an answer that something stands between are lines, in every protocol, and in what it is known by', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(part, { minLength: 1, maxLength: 8 }), async (given) => {
      let count = 0;
      const parts = given.flatMap((one): AnswerPart[] =>
        one.what === 'call'
          ? [
              { what: 'call', call: count, name: 'f' },
              { what: 'arguments', call: count++, text: '{}' },
            ]
          : [one],
      );
      const events = async function* (): AsyncGenerator<AnswerEvent> {
        for (const each of parts) yield { ...each, choice: 0, id: 'x' } as AnswerEvent;
        yield { what: 'end', choice: 0, finish: 'stop' };
      };
      const reader: AnswerReader = { push: () => parts, end: () => [] },
        [plain, thinking = plain] = answerMessages('', reader),
        { content, reasoning_content: thought = '' } = thinking!;
      // texts next to one another are of one
      const lines = (what: string): string => {
        let [said, last] = ['', ''];
        for (const each of given) {
          if (each.what === what && 'text' in each) said += (said !== '' && last !== what ? '\n' : '') + each.text;
          last = each.what;
        }
        return said;
      };
      expect([content, thought]).toEqual([lines('text'), lines('reasoning')]);
      const { choices } = await gather({ choices: 1, events: joinedEvents(events()) } as unknown as Answer);
      expect([choices[0]!.text, choices[0]!.reasoning]).toEqual([content, thought]);
      const { segments } = await gatherSegments(events());
      const blocks = segments.map(
        ({ kind, text }): Block =>
          kind === 'text'
            ? { type: 'text', text }
            : kind === 'reasoning'
              ? { type: 'thinking', thinking: text }
              : { type: 'tool_use', id: 'x', name: 'f', input: {} },
      );
      expect(chatMessages({ role: 'assistant', content: blocks })[0]).toMatchObject({ content });
      // items of one answer are one message where its reasoning comes first
      if (given.slice(1).some(({ what }) => what === 'reasoning')) return;
      const items = segments.map(
        ({ kind, text }): Item =>
          kind === 'text'
            ? { type: 'message', role: 'assistant', content: [{ text }] }
            : kind === 'reasoning'
              ? { type: 'reasoning', content: [{ type: 'reasoning_text', text }] }
              : { type: 'function_call', call_id: 'x', name: 'f', arguments: '{}' },
      );
      expect(messagesOf(items)).toMatchObject([{ content, ...(thought !== '' && { reasoning_content: thought }) }]);
    }),
    { numRuns: 200 },
  );
});

test('instructions and a message of a developer are one, a later one is refused by name', async () => {
  const chatTemplate = `{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('first') }}{% endif %}{% endfor %}${TOOL_TEMPLATES['lfm2']!.source}`,
    on = await serve({ model: await loadModel('embedded', { chatTemplate }) }),
    tokens = async (body: object): Promise<number> =>
      (await on.post('/v1/responses', { max_output_tokens: 1, ...body })).json.usage.input_tokens,
    user = { role: 'user', content: 'Q' },
    developer = { role: 'developer', content: 'DEVELOPER' };
  expect(await tokens({ instructions: 'INSTRUCTIONS', input: [developer, user] })).toBe(
    await tokens({ instructions: 'INSTRUCTIONS\n\nDEVELOPER', input: [user] }),
  );
  const answer = { role: 'assistant', content: 'A' },
    { status, json } = await on.post('/v1/responses', { instructions: 'I', input: [user, answer, developer, user] });
  expect([status, json.error.param]).toEqual([400, 'input[2].role']);
  expect(json.error.message).toMatch(/^'input\[2\]\.role': expected system messages at the start alone/);
  const chat = await on.post('/v1/chat/completions', { messages: [user, answer, developer, user] });
  expect([chat.status, chat.json.error.param]).toEqual([400, 'messages[2].role']);
  await on.server.close();
});
