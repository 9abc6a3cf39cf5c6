import { KvError } from '@kv/core';
import { policies } from '@kv/policies';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parsePolicySpec, printPolicySpec } from '../src/policy/policy-spec.ts';
import { resolvePolicy } from '../src/policy/resolve-policy.ts';

const name = fc.stringMatching(/^[a-zA-Z@./][\w./@-]{0,20}$/);
const key = fc.stringMatching(/^[a-zA-Z]\w{0,10}$/);
const value = fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }).map((x) => (Object.is(x, -0) ? 0 : x)), fc.integer(), fc.boolean(), fc.string(), fc.constantFrom('true', '12', '1e5', ' padded ', 'a,b', 'x)', '"', 'sin ∘ us', ''));
const piece = fc.record({ name, options: fc.dictionary(key, value, { maxKeys: 4 }).map((options) => ({ ...options })) });

describe('parsePolicySpec', () => {
  it('reads back what printPolicySpec writes', () => fc.assert(fc.property(fc.array(piece, { minLength: 1, maxLength: 4 }), (specs) => {
    expect(parsePolicySpec(printPolicySpec(specs))).toEqual(specs);
  }), { numRuns: 200 }));
  it('gives a spec or one sentence for any text', () => fc.assert(fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.stringMatching(/^[a-z(),="∘ \\]{0,30}$/)), (text) => {
    try {
      const specs = parsePolicySpec(text);
      expect(parsePolicySpec(printPolicySpec(specs))).toEqual(specs);
    } catch (error) {
      expect(KvError.is(error), String(error)).toBe(true);
    }
  }), { numRuns: 300 }));
  it.each([
    ['full', [{ name: 'full', options: {} }]],
    ['snapkv(window=16,kernel=5)', [{ name: 'snapkv', options: { window: 16, kernel: 5 } }]],
    [' snapkv( window = 16 , pooling=max ) ∘ topK', [{ name: 'snapkv', options: { window: 16, pooling: 'max' } }, { name: 'topK', options: {} }]],
    ['./mine.mjs(text="a, (b)",on=true)', [{ name: './mine.mjs', options: { text: 'a, (b)', on: true } }]],
  ])('reads %s', (text, specs) => expect(parsePolicySpec(text)).toEqual(specs));
  it.each([
    ['', 'policy: expected a name with options such as snapkv(window=16,kernel=5), got ""'],
    ['snapkv(window=16', 'policy: expected a name with options such as snapkv(window=16,kernel=5), got "snapkv(window=16"'],
    ['snapkv(16)', 'policy: expected an option as name=value, got "16" in "snapkv(16)"'],
    ['snapkv(window=1,window=2)', 'policy: expected every option once, got \'window\' twice in "snapkv(window=1,window=2)"'],
  ])('refuses %j in one sentence', (text, sentence) => expect(() => parsePolicySpec(text)).toThrow(sentence));
});

describe('resolvePolicy', () => {
  const cwd = import.meta.dirname;
  it('makes every policy of the catalogue under its name, and reads back the label that its report prints', async () => {
    for (const [id, { make }] of Object.entries(policies)) expect((await resolvePolicy(id, { cwd })).label).toBe(make().label);
    for (const { make } of Object.values(policies)) if (make().label !== 'full') expect((await resolvePolicy(make().label, { cwd })).label).toBe(make().label);
  });
  it('gives a seed to what draws at random, unless one is given', async () => {
    expect((await resolvePolicy('random', { cwd, seed: 7 })).label).toContain('seed=7');
    expect((await resolvePolicy('random(seed=3)', { cwd, seed: 7 })).label).toContain('seed=3');
  });
  it.each([
    ['snapvk', /expected the name of a policy \(did you mean snapkv/],
    ['snapkv(windw=3)', /^snapkv: expected the options window, kernel, pooling, got 'windw' \(did you mean window\?\)$/],
    ['snapkv(window=wide)', /^snapkv: window must be a number such as 64, got "wide"$/],
    ['snapkv(window=-1)', /^snapkv: window must be a positive whole number of queries, got -1$/],
    ['full(x=1)', /^full: expected no options, got 'x'$/],
    ['knorm ∘ tpK', /^policy: expected the name of an installed piece \(did you mean topK/],
    ['topK ∘ topK', /^compose: 'topK' needs scores, but 'topK' before it leaves kept slots$/],
    ['knorm ∘ minMax', /^policy: 'knorm ∘ minMax' leaves no kept slots, expected a selector such as topK at its end$/],
    ['constructor', /^policy: expected the name of a policy/],
    ['__proto__', /^policy: expected the name of a policy/],
    ['./nowhere.mjs', /^\.\/nowhere\.mjs: expected a file, got nothing at this path$/],
    ['@kv/tasks', /^@kv\/tasks: expected a module that exports 'policy' .*, got the exports /],
  ])('refuses %s in one sentence', async (text, sentence) => expect(resolvePolicy(text, { cwd })).rejects.toThrow(sentence));
});
