import fc from 'fast-check';
import { expect, test } from 'vitest';
import { greedy, sampler } from '../src/sampling.ts';

const logits = fc.float32Array({ minLength: 1, maxLength: 20, min: -9, max: 9, noNaN: true });

test('greedy is the lowest id of the largest logit', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: -3, max: 3 }), { minLength: 1, maxLength: 12 }), (values) => {
      expect(greedy(Float32Array.from(values))).toBe(values.indexOf(Math.max(...values)));
    }),
  );
});

test('the same seed draws the same ids; temperature 0 and a tiny nucleus are greedy', () => {
  fc.assert(
    fc.property(logits, fc.integer(), (row, seed) => {
      const draw = (): number[] => {
        const next = sampler({ seed, temperature: 1.3, topP: 0.9 });
        return Array.from({ length: 8 }, () => next(row));
      };
      expect(draw()).toEqual(draw());
      expect(sampler({ temperature: 0 })(row)).toBe(greedy(row));
      expect(sampler({ topP: 1e-9, seed })(row)).toBe(greedy(row));
    }),
  );
});

test('frequencies are softmax(logits / temperature) within the nucleus', () => {
  const row = Float32Array.of(2, 1, 0, -1);
  const next = sampler({ temperature: 2, topP: 0.8, seed: 7 });
  const counts = [0, 0, 0, 0];
  for (let i = 0; i < 20_000; i++) counts[next(row)]++;
  const weights = [...row.slice(0, 3)].map((x) => Math.exp(x / 2));
  const total = weights.reduce((a, b) => a + b);
  weights.forEach((w, i) => expect(counts[i] / 20_000).toBeCloseTo(w / total, 1.7));
  expect(counts[3]).toBe(0);
});

test('NaN, Infinity and nothing but banned ids are refused in one sentence, whatever draws', () => {
  const bad = fc
    .tuple(logits, fc.nat(19), fc.constantFrom(NaN, Infinity, -Infinity))
    .map(([row, at, value]) =>
      value === -Infinity ? row.map(() => value) : row.map((x, i) => (i === at % row.length ? value : x)),
    );
  fc.assert(
    fc.property(bad, fc.constantFrom(0, 0.7, 1e308), fc.constantFrom(0.5, 1), (row, temperature, topP) => {
      const refused = /^logits: must be finite numbers, .*, got (?:NaN|-?Infinity) for id \d+: /;
      expect(() => sampler({ temperature, topP })(row)).toThrow(refused);
      expect(() => greedy(row)).toThrow(refused);
    }),
  );
  expect(() => greedy(new Float32Array(0))).toThrow(/^logits: must be finite numbers, .*, got none: /);
});

test('an id of -Infinity is never drawn', () => {
  const row = Float32Array.of(-Infinity, 0, -Infinity, 0.1),
    next = sampler({ temperature: 50, seed: 3 });
  expect(new Set(Array.from({ length: 200 }, () => next(row)))).toEqual(new Set([1, 3]));
  expect(greedy(row)).toBe(3);
});

test('refuses options out of range', () => {
  expect(() => sampler({ temperature: -1 })).toThrowErrorMatchingInlineSnapshot(
    `[KvError: sampler: temperature must be a number of at least 0, got -1]`,
  );
  expect(() => sampler({ topP: 0 })).toThrowErrorMatchingInlineSnapshot(
    `[KvError: sampler: topP must be above 0 and at most 1, got 0]`,
  );
});
