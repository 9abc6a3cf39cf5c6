import { describe, expect, test } from 'vitest';
import { entries, KvError } from '@kv/core';
import { isFactory } from '@kv/core';
import { compile } from '@kv/core/engine';
import type { Piece } from '@kv/core';
import { catalogue, parsePolicy, policy, policyNames } from '../src/index.ts';
import * as all from '../src/index.ts';
import { PIECES, POLICIES } from './names.ts';

test('every method that is exported is in the catalogue, under its name', () => {
  const methods = Object.entries(all).flatMap(([name, x]) => (isFactory(x) ? [[name, x.description.name]] : []));
  expect(methods.length).toBeGreaterThan(30);
  for (const [name, declared] of methods) {
    expect(declared).toBe(name);
    expect(catalogue.get(name)?.some(({ package: from }) => from === '@kv/policies')).toBe(true);
  }
});

describe.each(entries(catalogue).map(({ factory: { description } }) => [description.name, description] as const))(
  '%s',
  (_, { name, says, source, options, kind }) => {
    test('is said and sourced, and so are its options; its name has no dot', () => {
      expect(says).toMatch(/^[A-Z0-9αln].*[.]$/u);
      expect(source).not.toBe('');
      expect(name).toMatch(/^[a-z]\w*$/i);
      for (const option of Object.values(options)) expect(option.says).toMatch(/[.]$/);
      expect(kind).not.toBe('');
    });
  },
);

const isPiece = (name: string): boolean =>
  catalogue.get(name)?.some(({ factory }) => factory.description.kind !== 'method') ?? false;
const refusal = (text: string): string => {
  try {
    return parsePolicy(text).label;
  } catch (error) {
    return (error as Error).message;
  }
};
test('every policy that the catalogue has had is still there', () => {
  for (const name of POLICIES) expect(policyNames).toContain(name);
});
test.each(PIECES)('%s is the name of a piece, or refused with its present name', (name) => {
  const present = isPiece(name) ? name : /: (?:it|its piece) is named (\w+) now/.exec(refusal(`${name} ∘ topK`))?.[1];
  expect(isPiece(present ?? name), refusal(`${name} ∘ topK`)).toBe(true);
});
test('no name is that of two pieces or methods', () =>
  expect([...catalogue].filter(([, known]) => known.length > 1).map(([name]) => name)).toEqual([]));
test('a method within a composition is named with its package where a piece had its name', () =>
  expect(parsePolicy('@kv/policies:finch(question=4) ∘ cadence(every=2)').label).toBe(
    'questionAttention(question=4) ∘ topK ∘ rerotate ∘ cadence(every=2)',
  ));

describe.each(policyNames)('the policy %s', (name) => {
  const made = policy(name);
  test('says what it reads, and its label is read back', () => {
    expect(made.to === 'kept' || made.to === 'same').toBe(true);
    expect(parsePolicy(made.label === '' ? 'full' : made.label).label).toBe(made.label);
    expect(parsePolicy(name).label).toBe(made.label);
    expect(compile(made as Piece).label).toBe(made.label);
  });
});

test.each([
  ['streaming(sinks=4)', 'streaming ∘ topK'],
  ['knorm', 'knorm ∘ topK'],
  [' snapkv( window = 16 , kernel=5 ) ', 'snapkv(window=16) ∘ topK'],
  ['tova', 'tova ∘ topK'],
  ['meanAttention()', 'meanAttention ∘ topK'],
  ['pyramidkv(window=16,kernel=5,beta=20)', 'snapkv(window=16) ∘ roundedLinearBudgets(window=16) ∘ topK'],
  ['h2o(recent=0.25,over=block)', 'h2o(recent=0.25,over=block) ∘ topK'],
  ['h2o(rows=kv)', 'h2o(rows=kv) ∘ topK'],
  ['meanAttention(rows=kv)', 'meanAttention(rows=kv) ∘ topK'],
  ['tovaCaote(forceLast=false)', 'tova(forceLast=false) ∘ caote ∘ topK'],
  [
    'taFast(reach=8)',
    'weighted(0.5*recency,0.3*structure,-0.1*frequency,1*sponsorship(reach=8)) ∘ mandatory(sinks=1,recent=2) ∘ protectedPartition(sponsorship(reach=8)) ∘ topK',
  ],
  [
    'taFast(slots=0.5)',
    'weighted(0.5*recency,-0.1*frequency) ∘ mandatory(sinks=1,recent=2) ∘ protectedPartition(sponsorship(reach=value,anchors=details),slots=0.5,whole=true) ∘ topK',
  ],
])('%s', (text, label) => {
  expect(parsePolicy(text).label).toBe(label);
});

test.each([
  ['snapkvv', 'policy: expected the name of a method or piece (did you mean snapkv'],
  ['toString', 'policy: expected the name of a method or piece'],
  ['snapkv(window=16', "policy: expected as many '(' as ')', got 'snapkv(window=16'"],
  ['snapkv)(', "policy: expected as many '(' as ')'"],
  ['snapkv(w=16)', "snapkv: has no option 'w'"],
  ['snapkv(window)', "snapkv: expected options window, kernel, pooling as option=value, got 'window'"],
  ['knorm(p=2)', "knorm: has no option 'p': it has none"],
  ['snapkv(window=wide)', "snapkv: window must be a positive whole number of queries, got 'wide'"],
  ['snapkv(window=1e999)', "snapkv: window must be a positive whole number of queries, got '1e999'"],
  ['snapkv(window="16")', "snapkv: window must be a positive whole number of queries, got '16'"],
  ['snapkv(window=16())', "snapkv: window must be a positive whole number of queries, got '16()'"],
  ['snapkv(window=16,window=16)', "snapkv: expected every option once, got 'window' twice"],
  ['view(knorm ∘ topK,rows=all)', "view: rows must be 'query' or 'kv', got 'all'"],
  ['snapkv ∘ pool(kind=min) ∘ topK', "pool: kind must be 'mean' or 'max', got 'min'"],
  ['topK', "policy: 'topK' starts from scores or weights or units, expected a scorer such as knorm at its start"],
  ['snapkv(window=-1)', 'snapkv: window must be a positive whole number of queries, got -1'],
  ['tova(forceLast=yes)', "tova: forceLast must be true or false, got 'yes'"],
  ['h2o(over=all)', "h2o: over must be 'accumulated' or 'block', got 'all'"],
  ['h2o(over=block,rows=kv)', "h2o: expected rows 'query' over a block, got 'kv'"],
  ['snapkv ∘ chunks', "policy: 'snapkv ∘ chunks' leaves no kept slots, expected a selector such as topK at its end"],
  [
    'knorm ∘ caote ∘ topK',
    "compose: 'caote' needs weights (scores of at least 0), but 'knorm' before it leaves scores that may be negative",
  ],
  ['snapkv ∘ topk', 'policy: expected the name of a method or piece (did you mean topK'],
  ['weighted(snapkv) ∘ topK', "weighted: expected WEIGHT*SCORER, got 'snapkv'"],
  ['knorm ∘ protectedPartition(slots=4) ∘ topK', 'protectedPartition: expected a scorer first, got'],
  ['exact', "policy: expected the name of a method or piece, got 'exact': it is named newestQueryAttention now"],
  [
    'snapkv ∘ given(shares=1) ∘ topK',
    "policy: expected the name of a method or piece, got 'given': it is named fixedBudgets now",
  ],
  [
    'snapkv ∘ pyramidal ∘ topK',
    "policy: expected a piece, got the method 'pyramidal': its piece is named linearBudgets now, and '@kv/policies:pyramidal' is the method",
  ],
  ['max(finch,knorm) ∘ topK', "got the method 'finch': its piece is named questionAttention now"],
  ['sum(topK) ∘ topK', "sum: takes scorers, but 'topK' leaves kept"],
])('%s is refused in a sentence', (text, sentence) => {
  expect(() => parsePolicy(text)).toThrow(sentence);
  try {
    parsePolicy(text);
  } catch (error) {
    expect(KvError.is(error)).toBe(true);
  }
});

test.each([
  'snapkv(window=32) ∘ caote ∘ linearBudgets ∘ topK',
  'max(snapkv(window=8,kernel=3),sum(rarity,streaming)) ∘ pool(kernel=3,kind=max,except=2) ∘ mandatory(sinks=1) ∘ uniform ∘ topK',
  'weighted(0.5*knorm ∘ softmax,-2*tova) ∘ zScore ∘ topK',
  'meanAttention ∘ reduceHeads(kind=max) ∘ log1p ∘ normalize ∘ perLayer ∘ minMax ∘ fastCaote ∘ topK',
])('%s is read back', (label) => {
  expect(parsePolicy(label).label).toBe(label);
});
