import type * as Package from '@mlc-ai/web-xgrammar';
import { describe, expect, test } from 'vitest';
import { grammarsOf, type AnswerForm, type Matcher, type VocabularyModel } from '../src/index.ts';
import { allowedIds, walk } from './walk.ts';
import { vocabularies } from './vocabularies.ts';
import type { XGrammar } from '../src/xgrammar/types.ts';

/** Declarations of what is used of the package, which name no package that is not installed with this one. */
export const declared: typeof Package extends XGrammar<Package.TokenizerInfo> ? true : false = true;

const model = await (vocabularies[0] as (typeof vocabularies)[number])[1](),
  { tokenizer } = model,
  [end] = model.config.eosIds as [number];
const ids = (text: string): readonly number[] => tokenizer.encode(text, { special: false, parse: false }).ids;
const begun = async (form: AnswerForm, of: VocabularyModel = model): Promise<Matcher> =>
  (await grammarsOf(of).compile(form)).begin();
const schema: AnswerForm = { kind: 'schema', schema: { enum: ['ab', 'abc'] } };

describe('a constraint', () => {
  test('says what may come, takes it, and knows when nothing but an end may', async () => {
    const matcher = await begun(schema);
    for (const id of ids('"ab')) matcher.accept(id);
    expect(matcher.complete).toBe(false);
    for (const id of ids('"')) matcher.accept(id);
    expect([matcher.complete, allowedIds(matcher.allowed())]).toEqual([true, [end]]);
    matcher.destroy();
    matcher.destroy();
    expect(() => matcher.allowed()).toThrow('grammar: this constraint is destroyed');
  });
  test('refuses an id that may not come, and goes on as if it had not', async () => {
    const matcher = await begun(schema);
    for (const id of [ids('x')[0] as number, -1, 1e9, 0.5])
      expect(() => matcher.accept(id)).toThrow(`token ${id} may not come here`);
    for (const id of ids('"abc"')) matcher.accept(id);
    expect(matcher.complete).toBe(true);
    matcher.destroy();
  });
  test('begins each answer from the start, several at once', async () => {
    const grammar = await grammarsOf(model).compile(schema),
      [a, b] = [grammar.begin(), grammar.begin()];
    for (const id of ids('"abc"')) a.accept(id);
    for (const id of ids('"a')) b.accept(id);
    expect([a.complete, b.complete]).toEqual([true, false]);
    a.destroy();
    for (const id of ids('b"')) b.accept(id);
    expect(b.complete).toBe(true);
    b.destroy();
  });
});

test('a form is compiled once, however often it is asked for, and goes when 32 others have come', async () => {
  const grammars = grammarsOf(model),
    [first, same] = await Promise.all([grammars.compile(schema), grammars.compile({ ...schema })]);
  expect([grammarsOf(model) === grammars, first === same]).toEqual([true, true]);
  for (let i = 0; i < 32; i++) await grammars.compile({ kind: 'schema', schema: { const: i } });
  expect((await grammars.compile(schema)) === first).toBe(false);
  const still = first.begin(); // who holds it can go on
  expect(still.complete).toBe(false);
  still.destroy();
});

test('while a schema compiles the event loop turns', async () => {
  await grammarsOf(model).compile(schema); // the thread has begun
  let turns = 0,
    compiles = true;
  const turn = (): void => {
    turns++;
    if (compiles) setImmediate(turn);
  };
  setImmediate(turn);
  await grammarsOf(model).compile({ kind: 'schema', schema: { type: 'string', maxLength: 110 } });
  compiles = false;
  expect(turns).toBeGreaterThan(50);
});

test('any JSON object: walks end in one', async () => {
  for (let seed = 0; seed < 10; seed++) {
    const matcher = await begun({ kind: 'json' });
    expect(JSON.parse(walk(model, matcher, seed))).toEqual(expect.objectContaining({}));
    matcher.destroy();
  }
});

test('no text is let through that no rule has, where xgrammar 0.1.27 joins states that differ', async () => {
  const matcher = await begun({ kind: 'schema', schema: { type: 'integer', minimum: -9999, maximum: -11 } });
  for (const id of ids('-9999')) matcher.accept(id);
  expect(matcher.complete).toBe(true);
  matcher.destroy();
});

describe('a structure', () => {
  const call: AnswerForm = {
    kind: 'structure',
    structure: {
      type: 'triggered_tags',
      triggers: ['<s>'],
      tags: [{ type: 'tag', begin: '<s>', content: { type: 'json_schema', json_schema: { const: 7 } }, end: '<end>' }],
    },
    marks: ['<s>'],
  };
  test('is free text up to a trigger, whose token is text if it is a mark, then values that fit', async () => {
    const matcher = await begun(call),
      mark = tokenizer.specials.get('<s>') as number;
    for (const id of [...ids('Well: '), mark]) matcher.accept(id);
    expect(
      allowedIds(matcher.allowed())
        .map((id) => tokenizer.decode([id]))
        .every((text) => /^(\s+7?<?|7|\n *)/.test(text)),
    ).toBe(true);
    for (const id of ids('7<end> so.')) matcher.accept(id);
    expect(allowedIds(matcher.allowed())).toContain(end);
    matcher.destroy();
  });
  test('has counted texts between tags, of no fewer characters and no more', async () => {
    for (const [text, fits] of [
      ['a', false],
      ['ab', true],
      ['a\né', true],
      ['abcd', false],
    ] as const) {
      const content = { type: 'grammar', grammar: 'root ::= [^<]{2,3}' } as const,
        matcher = await begun({ kind: 'structure', structure: { type: 'tag', begin: '<a>', content, end: '</a>' } }),
        take = (): void => {
          for (const id of ids(`<a>${text}</a>`)) matcher.accept(id);
        };
      if (fits) take();
      else expect(take, text).toThrow('may not come here');
      expect(matcher.complete).toBe(fits);
      matcher.destroy();
    }
  });
  test('without the mark, the special token may not come', async () => {
    const { marks: _, ...unmarked } = call as Extract<AnswerForm, { kind: 'structure' }>,
      matcher = await begun(unmarked);
    expect(allowedIds(matcher.allowed())).not.toContain(tokenizer.specials.get('<s>'));
    matcher.destroy();
  });
  test('ends at other tokens too, if they are named', async () => {
    const matcher = await begun({ kind: 'structure', structure: { type: 'const_string', value: 'a' }, ends: ['<s>'] });
    for (const id of ids('a')) matcher.accept(id);
    expect([matcher.complete, allowedIds(matcher.allowed())]).toEqual([
      true,
      [tokenizer.specials.get('<s>'), end].sort(),
    ]);
    matcher.destroy();
  });
  test('that xgrammar does not take is refused in one sentence, and others still compile', async () => {
    for (const structure of [
      { type: 'regex', pattern: '(' },
      { type: 'sequence', elements: [] },
      { type: 'no' },
      { type: 'json_schema', json_schema: { not: {} } },
    ])
      await expect(grammarsOf(model).compile({ kind: 'structure', structure } as never)).rejects.toThrow(
        /^(grammar: cannot be compiled|schema: 'not')/,
      );
    const matcher = await begun({ kind: 'structure', structure: { type: 'regex', pattern: 'b+' } });
    for (const id of ids('bbb')) matcher.accept(id);
    matcher.destroy();
  });
});

test('without an end token a constraint still knows when it is complete', async () => {
  const matcher = await begun(schema, { tokenizer: { ...tokenizer }, config: { vocab: tokenizer.size, eosIds: [] } });
  for (const id of ids('"abc"')) matcher.accept(id);
  expect(matcher.complete).toBe(true);
  matcher.destroy();
});

test('a vocabulary that cannot write the answer is refused before anything is generated', async () => {
  const digits = { ...tokenizer, bytesOf: (id: number) => Uint8Array.of(48 + (id % 10)) };
  await expect(grammarsOf({ tokenizer: digits, config: model.config }).compile({ kind: 'json' })).rejects.toThrow(
    "the model's vocabulary cannot write",
  );
});

test('twenty thousand constraints take no more memory than one after the other', async () => {
  const grammar = await grammarsOf(model).compile({ kind: 'json' }),
    bytes = (): number => process.memoryUsage().rss;
  const some = (count: number): void => {
    for (let i = 0; i < count; i++) {
      const matcher = grammar.begin();
      for (const id of ids('{"a"')) matcher.accept(id);
      matcher.destroy();
    }
  };
  some(1000);
  const before = bytes();
  some(4000);
  expect(bytes() - before).toBeLessThan(40e6);
});
