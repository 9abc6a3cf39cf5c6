import { KvError } from '@kv/core';
import { policyCalls, printCalls } from '@kv/core/engine';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Arg, PolicyCall } from '@kv/core/engine';

const bare = fc.stringMatching(/^[a-zA-Z0-9@./*-][\w./@* -]{0,10}$/).map((name) => name.trim());
const head = fc.oneof(
  fc.record({ name: bare }),
  fc.record({ name: fc.string({ unit: 'binary' }), quoted: fc.constant(true as const) }),
);
const key = fc.stringMatching(/^[a-zA-Z]\w{0,10}$/);
const { chain } = fc.letrec<{ chain: readonly PolicyCall[]; call: PolicyCall; arg: Arg }>((tie) => ({
  chain: fc.array(tie('call'), { minLength: 1, maxLength: 3 }),
  call: fc.oneof(
    { maxDepth: 4 },
    head,
    fc.tuple(head, fc.array(tie('arg'), { maxLength: 3 })).map(([one, args]) => ({ ...one, args })),
  ),
  arg: fc.oneof(fc.record({ calls: tie('chain') }), fc.record({ key, calls: tie('chain') })),
}));
const refused = (run: () => unknown): string => {
  try {
    run();
  } catch (error) {
    if (KvError.is(error)) return error.message;
    throw error;
  }
  throw new Error('expected a refusal');
};

describe('policyCalls', () => {
  test('reads back what printCalls writes', () =>
    fc.assert(
      fc.property(chain, (calls) => {
        expect(policyCalls(printCalls(calls))).toEqual(calls);
      }),
      { numRuns: 300 },
    ));
  test('gives calls that print and read as themselves, or one sentence, for any text', () =>
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.stringMatching(/^[a-z(),="∘| \\*1.]{0,30}$/)), (text) => {
        let calls: readonly PolicyCall[];
        try {
          calls = policyCalls(text);
        } catch (error) {
          expect(KvError.is(error) && !error.message.includes('\n'), String(error)).toBe(true);
          return;
        }
        expect(policyCalls(printCalls(calls))).toEqual(calls);
      }),
      { numRuns: 500 },
    ));
  test.each<[string, readonly PolicyCall[]]>([
    ['full', [{ name: 'full' }]],
    ['observed()', [{ name: 'observed', args: [] }]],
    [
      ' snapkv( window = 16 , pooling=max ) ∘ topK',
      [
        {
          name: 'snapkv',
          args: [
            { key: 'window', calls: [{ name: '16' }] },
            { key: 'pooling', calls: [{ name: 'max' }] },
          ],
        },
        { name: 'topK' },
      ],
    ],
    [
      './mine=1,2.mjs(text="a, (b)",on=true)',
      [
        {
          name: './mine=1,2.mjs',
          args: [
            { key: 'text', calls: [{ name: 'a, (b)', quoted: true }] },
            { key: 'on', calls: [{ name: 'true' }] },
          ],
        },
      ],
    ],
    [
      'p(slots=4,by=sum(a ∘ b,-2*c))',
      [
        {
          name: 'p',
          args: [
            { key: 'slots', calls: [{ name: '4' }] },
            {
              key: 'by',
              calls: [
                { name: 'sum', args: [{ calls: [{ name: 'a' }, { name: 'b' }] }, { calls: [{ name: '-2*c' }] }] },
              ],
            },
          ],
        },
      ],
    ],
  ])('reads %s', (text, calls) => {
    expect(policyCalls(text)).toEqual(calls);
  });
  test('reads | as ∘, but for what stands in quotes', () => {
    expect(policyCalls('a(x="p|q") | sum(b | c)')).toEqual(policyCalls('a(x="p|q") ∘ sum(b ∘ c)'));
  });
  test.each([
    ['', "policy: expected a policy such as 'snapkv(window=16,kernel=17,pooling=max) | caote | topK', got ''"],
    ['a ∘', "policy: expected a piece after 'a ∘', got 'a ∘'"],
    ['snapkv | caote |', "policy: expected a piece after 'snapkv | caote |', got 'snapkv | caote |'"],
    ['| topK', "policy: expected a piece before '| topK', got '| topK'"],
    ['a || b', "policy: expected a piece between 'a |' and '| b', got 'a || b'"],
    ['sum(a | , b)', "policy: expected a piece between 'sum(a |' and ', b)'"],
    ['a(x=)', "policy: expected a value between 'a(x=' and ')', got 'a(x=)'"],
    ['a(=1)', "policy: expected the name of an option between 'a(' and '=1)'"],
    ['a(,)', "policy: expected a name or value between 'a(' and ',)'"],
    ['a(b=c=d)', "policy: expected ',' or ')' between 'a(b=c' and '=d)'"],
    ['a(1) b', "policy: expected '|' between 'a(1)' and 'b'"],
    ['sum(a |', "policy: expected as many '(' as ')', got 'sum(a |'"],
    ['a(b', "policy: expected as many '(' as ')', got 'a(b'"],
    ['a)', "policy: expected as many '(' as ')', got 'a)'"],
    ['a(b))', "policy: expected as many '(' as ')', got 'a(b))'"],
    ['a(b="c)', `policy: expected a closing quote, got 'a(b="c)'`],
    ['a(b="c\\")', 'policy: expected a closing quote'],
    ['a(b="\\q")', 'policy: expected text in quotes as JSON has it'],
    ['a(b="line\nline")', `policy: expected text in quotes as JSON has it, not '"line line"', got 'a(b="line line")'`],
  ])('refuses %j in one sentence', (text, sentence) => {
    expect(refused(() => policyCalls(text))).toContain(sentence);
  });
});

const deep = (n: number): string => `${'sum('.repeat(n)}knorm${')'.repeat(n)} ∘ topK`;
describe('limits', () => {
  test.each([
    ['brackets', deep(33), 'policy: expected at most 32 brackets within one another, got '],
    ['names', Array.from({ length: 513 }, () => 'a').join('∘'), 'policy: expected at most 512 names and values, got '],
    ['characters', 'a'.repeat(16_385), `policy: expected at most 16384 characters, got '${'a'.repeat(120)}…'`],
  ])('one too many %s', (_, text, sentence) => {
    expect(refused(() => policyCalls(text))).toContain(sentence);
  });
});
