import fc from 'fast-check';
import { expect, test } from 'vitest';
import { chatTemplate } from '../src/chat/chat-template.ts';
import { cutTurn } from '../src/chat/cut-turn.ts';

const text = fc.oneof(fc.string(), fc.stringMatching(/^[ab \n]{0,8}$/));
const trimmed = (context: string, question: string): string =>
  context.trim() === '' ? question.trim() : question.trimEnd();
/** Templates, the end that each writes itself, which may read as a turn does, and what they leave of a question. */
const templates = [
  ['<user>{{ messages[0].content }}', '<bot>', (_: string, question: string) => question],
  ['Q {{ messages[0].content | trim }}', ' a b\n', trimmed],
] as const;

test('a turn is cut where its question begins, whatever both hold', () => {
  fc.assert(
    fc.property(text, text, fc.constantFrom(...templates), (context, question, [start, end, left]) => {
      fc.pre((context + question).trim() !== '');
      const template = chatTemplate(start + end, 'mine'),
        turn = cutTurn(template, context, question)!,
        whole = template.render([{ role: 'user', content: context + question }]);
      expect(turn.context.text + turn.question.text).toBe(whole.text);
      expect(turn.question.text).toBe(left(context, question) + end.trimEnd());
      const untrusted = [
        ...turn.context.untrusted.map(([from, to]) => turn.context.text.slice(from, to)),
        ...turn.question.untrusted.map(([from, to]) => turn.question.text.slice(from, to)),
      ].join('');
      expect(untrusted).toBe(whole.untrusted.map(([from, to]) => whole.text.slice(from, to)).join(''));
    }),
    { numRuns: 500 },
  );
});

test('a template that changes the question has no cut', () => {
  expect(cutTurn(chatTemplate('{{ messages[0].content | upper }}', 'mine'), 'text ', 'who?')).toBeUndefined();
});
