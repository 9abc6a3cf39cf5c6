import { KvError } from '@kv/core';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { full, optionValue, parsePolicy, policyCalls, printCalls, printPiece, unknownName } from '../src/index.ts';
import type { Arg, Call, OptionValues } from '../src/index.ts';

const bare = fc.stringMatching(/^[a-zA-Z0-9@./*-][\w./@* -]{0,10}$/).map((name) => name.trim());
const head = fc.oneof(
  fc.record({ name: bare }),
  fc.record({ name: fc.string({ unit: 'binary' }), quoted: fc.constant(true as const) }),
);
const key = fc.stringMatching(/^[a-zA-Z]\w{0,10}$/);
const { chain } = fc.letrec<{ chain: readonly Call[]; call: Call; arg: Arg }>((tie) => ({
  chain: fc.array(tie('call'), { minLength: 1, maxLength: 3 }),
  call: fc.oneof(
    { maxDepth: 4 },
    head,
    fc.tuple(head, fc.array(tie('arg'), { maxLength: 3 })).map(([one, args]) => ({ ...one, args })),
  ),
  arg: fc.oneof(fc.record({ calls: tie('chain') }), fc.record({ key, calls: tie('chain') })),
}));
const value = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((x) => (Object.is(x, -0) ? 0 : x)),
  fc.integer(),
  fc.boolean(),
  fc.string({ unit: 'binary' }),
  fc.constantFrom('true', '12', '1e5', '1e999', ' padded ', 'a,b', 'x)', '"', 'sin ∘ us', ''),
);
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
      fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.stringMatching(/^[a-z(),="∘ \\*1.]{0,30}$/)), (text) => {
        let calls: readonly Call[];
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
  test.each<[string, readonly Call[]]>([
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
  test.each([
    ['', "policy: expected a name with options such as snapkv(window=16,kernel=5), got ''"],
    ['a ∘', "policy: expected a name with options such as snapkv(window=16,kernel=5), got 'a ∘'"],
    ['a(x=)', "policy: expected a name with options such as snapkv(window=16,kernel=5), got 'a(x=)'"],
    ['a(,)', 'policy: expected a name with options'],
    ['a(b=c=d)', 'policy: expected a name with options'],
    ['a(1) b', 'policy: expected a name with options'],
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

test('printPiece writes options that are read back as they were', () =>
  fc.assert(
    fc.property(
      fc.oneof(bare, fc.string({ unit: 'binary' })),
      fc.dictionary(key, value, { maxKeys: 4 }),
      (name, options) => {
        const [call] = policyCalls(printPiece(name, options));
        expect(call.name).toBe(name);
        expect(Object.fromEntries((call.args ?? []).map((arg) => [arg.key, optionValue(arg.calls[0])]))).toEqual({
          ...options,
        });
      },
    ),
    { numRuns: 300 },
  ));

describe('hostile texts give a sentence, at once', () => {
  const deep = (n: number): string => `${'sum('.repeat(n)}knorm${')'.repeat(n)} ∘ topK`;
  test.each([
    ['deep nesting', deep(1000)],
    ['deeper nesting', deep(250_000)],
    ['brackets that only open', '('.repeat(1e6)],
    ['names that only open', 'a('.repeat(8000)],
    ['a quote never closed', `snapkv(pooling="${'x'.repeat(1e6)}`],
    ['a short quote never closed', `snapkv(pooling="${'\\"'.repeat(8000)}`],
    ['many pieces', Array.from({ length: 3000 }, () => 'knorm').join('∘')],
    ['many scorers', `sum(${'tova,'.repeat(3000)}tova)∘topK`],
    ['many options', `snapkv(${Array.from({ length: 1500 }, (_, i) => `o${i}=1`).join(',')})`],
    ['a megabyte of spaces', `snapkv(window=8${' '.repeat(1e6)})`],
    ['only ∘', '∘'.repeat(16_000)],
  ])('%s', (_, text) => {
    const before = performance.now();
    expect(refused(() => parsePolicy(text)).length).toBeLessThan(1000);
    expect(performance.now() - before).toBeLessThan(1000);
  });
  test.each([
    ['brackets', deep(33), 'policy: expected at most 32 brackets within one another, got '],
    ['names', Array.from({ length: 513 }, () => 'a').join('∘'), 'policy: expected at most 512 names and values, got '],
    ['characters', 'a'.repeat(16_385), `policy: expected at most 16384 characters, got '${'a'.repeat(120)}…'`],
  ])('one too many %s', (_, text, sentence) => {
    expect(refused(() => policyCalls(text))).toContain(sentence);
  });
  test('the deepest and the longest that are read are made, too', () => {
    const before = performance.now();
    expect(parsePolicy(deep(32)).to).toBe('kept');
    expect(parsePolicy(`knorm${' ∘ minMax'.repeat(510)} ∘ topK`).to).toBe('kept');
    expect(parsePolicy(`sum(${'h2o,'.repeat(509)}h2o) ∘ topK`).to).toBe('kept');
    expect(performance.now() - before).toBeLessThan(5000);
  });
});

describe('find', () => {
  const caught = (text: string, more: { open?: boolean; options?: OptionValues } = {}): OptionValues => {
    let seen: OptionValues = {};
    parsePolicy(text, {
      find: (name) =>
        name === 'theirs'
          ? {
              options: {},
              open: true,
              ...more,
              make: (options = {}) => {
                seen = options;
                return full();
              },
            }
          : undefined,
    });
    return seen;
  };
  test('hands every option over as printPiece wrote it, where none is declared', () =>
    fc.assert(
      fc.property(fc.dictionary(key, value, { maxKeys: 4 }), (options) => {
        expect(caught(printPiece('theirs', options))).toEqual({ ...options });
      }),
      { numRuns: 200 },
    ));
  test('reads a declared option in the type of its default', () => {
    expect(caught('theirs(word=12,n=3,more=4)', { options: { word: 'x', n: 1 } })).toEqual({
      word: '12',
      n: 3,
      more: 4,
    });
    expect(refused(() => caught('theirs(n=3)', { open: false }))).toBe("theirs: expected options (none), got 'n=3'");
  });
  test('is not asked for what the package has', () => {
    expect(
      parsePolicy('knorm ∘ topK', {
        find: (name) => {
          throw new Error(name);
        },
      }).label,
    ).toBe('knorm ∘ topK');
  });
  test.each([
    ['nope(x=1)', 'policy', 'nope'],
    ['knorm ∘ nope', 'piece', 'nope'],
    ['weighted(2*nope ∘ zScore) ∘ topK', 'piece', 'nope'],
    ['view(of=nope ∘ topK)', 'piece', 'nope'],
    ['snapkv(nope=1)', 'option', 'nope'],
  ])('%s is refused with the name as data', (text, sort, name) => {
    try {
      parsePolicy(text);
      expect.unreachable();
    } catch (error) {
      expect(unknownName(error)).toMatchObject({ sort, name });
      expect(unknownName(error)!.known.length).toBeGreaterThan(2);
    }
  });
  test('other errors carry no name', () => {
    expect(unknownName(new KvError('a', 'b')) ?? unknownName(new Error('c'))).toBeUndefined();
  });
});
