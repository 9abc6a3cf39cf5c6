import { describe, expect, test } from 'vitest';
import { compile, KvError } from '@kv/core';
import * as all from '../src/index.ts';
import { parsePolicy, pieces, policies } from '../src/index.ts';

test('every exported policy is in the catalogue, under its name', () => {
  const factories = Object.entries(all)
    .filter(
      ([name, x]) =>
        typeof x === 'function' &&
        !['parsePolicy', 'unknownName', 'optionValue', 'policyCalls', 'printCalls', 'printPiece'].includes(name),
    )
    .map(([name]) => name);
  expect(Object.keys(policies).sort()).toEqual(factories.sort());
});

describe.each(Object.entries(policies))('%s', (name, { make, options, about, source }) => {
  test('its listed defaults are its defaults', () => {
    expect(make(options).label).toBe(make().label);
  });
  test('is said and sourced', () => {
    expect(about.length * source.length).toBeGreaterThan(0);
  });
  test('its label is read back', () => {
    expect(parsePolicy(make().label).label).toBe(make().label);
  });
  test('is parsed with every option', () => {
    const said = Object.entries(options)
      .map(([k, v]) => `${k}=${v}`)
      .join(',');
    expect(parsePolicy(said === '' ? name : `${name}(${said})`).label).toBe(make(options).label);
  });
});

test.each([
  ['streaming(sinks=4)', 'streaming(sinks=4) ∘ topK'],
  ['knorm', 'knorm ∘ topK'],
  [' snapkv( window = 16 , kernel=5 ) ', 'snapkv(window=16,kernel=5) ∘ topK'],
  ['tova', 'tova ∘ topK'],
  ['observed()', 'observed ∘ topK'],
  ['pyramidkv(window=16,kernel=5,beta=20)', 'snapkv(window=16,kernel=5) ∘ pyramidkv(window=16,beta=20) ∘ topK'],
  ['h2o(recent=0.25,over=block)', 'h2o(recent=0.25,over=block) ∘ topK'],
  ['h2o(rows=kv)', 'h2o(recent=0.5,rows=kv) ∘ topK'],
  ['observed(rows=kv)', 'observed(rows=kv) ∘ topK'],
  ['tovaCaote(forceLast=false)', 'tova(forceLast=false) ∘ caote ∘ topK'],
  [
    'taFast(reach=8)',
    'weighted(0.5*recency,0.3*structure,-0.1*frequency,1*sponsorship(reach=8)) ∘ mandatory(sinks=1,recent=2) ∘ protectedPartition(slots=4,by=sponsorship(reach=8)) ∘ topK',
  ],
])('%s', (text, label) => {
  expect(parsePolicy(text).label).toBe(label);
});

test.each([
  ['snapkvv', 'policy: expected pieces joined by ∘, or NAME or NAME(option=value,...) with one of full, streaming, '],
  ['toString', 'policy: expected pieces'],
  ['snapkv(window=16', "policy: expected as many '(' as ')', got 'snapkv(window=16'"],
  ['snapkv)(', "policy: expected as many '(' as ')'"],
  ['snapkv(w=16)', "snapkv: expected options window=64, kernel=5, pooling=mean, got 'w=16'"],
  ['snapkv(window)', "snapkv: expected options window=64, kernel=5, pooling=mean, got 'window'"],
  ['knorm(p=2)', "knorm: expected options (none), got 'p=2'"],
  ['snapkv(window=wide)', "snapkv: window must be a number such as 64, got 'wide'"],
  ['snapkv(window=1e999)', "snapkv: window must be a number such as 64, got '1e999'"],
  ['snapkv(window="16")', `snapkv: window must be a number such as 64, got '"16"'`],
  ['snapkv(window=16())', "snapkv: window must be a number such as 64, got '16()'"],
  ['snapkv(window=16,window=16)', "snapkv: expected every option once, got 'window' twice"],
  ['view(of=knorm ∘ topK,rows=all)', "view: rows must be 'query' or 'kv', got 'all'"],
  ['snapkv ∘ pool(kind=min) ∘ topK', "pool: kind must be 'mean' or 'max', got 'min'"],
  ['topK', "policy: 'topK' starts from scores or weights or units, expected a scorer such as knorm at its start"],
  ['snapkv(window=-1)', 'snapkv: window must be a positive whole number of queries, got -1'],
  ['tova(forceLast=yes)', "tova: forceLast must be true or false, got 'yes'"],
  ['h2o(over=all)', "h2o: over must be 'accumulated' or 'block', got 'all'"],
  ['h2o(over=block,rows=kv)', "h2o: expected rows 'query' over a block, got 'kv'"],
  [
    'snapkv ∘ caote',
    "policy: 'snapkv(window=64,kernel=5) ∘ caote' leaves no kept slots, expected a selector such as topK at its end",
  ],
  [
    'knorm ∘ caote ∘ topK',
    "compose: 'caote' needs weights (scores of at least 0), but 'knorm' before it leaves scores that may be negative",
  ],
  ['snapkv ∘ topk', 'policy: expected one of the pieces streaming, '],
  ['weighted(snapkv) ∘ topK', "weighted: expected WEIGHT*SCORER, got 'snapkv'"],
  ['knorm ∘ protectedPartition(slots=4) ∘ topK', 'protectedPartition: expected one scorer as by=SCORER, got 0'],
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
  'snapkv(window=32,kernel=5) ∘ caote ∘ pyramidal ∘ topK',
  'max(snapkv(window=8,kernel=3),sum(rarity,streaming(sinks=4))) ∘ pool(kernel=3,kind=max,except=2) ∘ mandatory(sinks=1,recent=0) ∘ uniform ∘ topK',
  'weighted(0.5*knorm ∘ softmax,-2*tova) ∘ zScore ∘ topK',
  'observed ∘ reduceHeads(kind=max) ∘ log1p ∘ normalize ∘ perLayer ∘ minMax ∘ fastCaote ∘ topK',
])('%s is read back', (label) => {
  expect(parsePolicy(label).label).toBe(label);
});

test.each(Object.entries(pieces).filter(([, { around }]) => around === undefined))(
  'the piece %s has the defaults that are listed',
  (name, { make, options }) => {
    expect(make(options).label).toBe(make().label);
    expect(make().name).toBe(name);
    expect(compile(make()).steps.length).toBe(make().atoms.some((atom) => atom.at === 'event') ? 1 : 0);
  },
);
