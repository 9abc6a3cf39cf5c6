import fc from 'fast-check';
import { expect, test } from 'vitest';
import { greedy } from '../src/sampling/greedy.ts';
import { Sampler } from '../src/sampling/sampler.ts';
import type { SamplerOptions } from '../src/sampling/options.ts';

const sampler = (options: SamplerOptions): ((row: Float32Array) => number) => {
  const one = new Sampler({ temperature: 1, ...options });
  return (row) => one.pick(row);
};

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

test.each<[SamplerOptions, string]>([
  [{ temperature: -1 }, 'temperature: must be a number of at least 0, got -1'],
  [{ topP: 0 }, 'topP: must be a positive number at most 1, got 0'],
  [{ topK: 1.5 }, 'topK: must be a whole number of tokens of at least 0, got 1.5'],
  [{ minP: 2 }, 'minP: must be a number from 0 to 1, got 2'],
  [{ repetitionPenalty: 0 }, 'repetitionPenalty: must be a number from 0.01 to 100, got 0'],
  [{ frequencyPenalty: 3 }, 'frequencyPenalty: must be a number from -2 to 2, got 3'],
  [{ logitBias: { 5: 101 } }, 'logitBias: must have numbers from -100 to 100, got 101 for id 5'],
  [{ logitBias: { a: 1 } as {} }, 'logitBias: must have whole numbers of token ids as names, got "a"'],
])('%j is refused', (options, sentence) => {
  expect(() => new Sampler(options)).toThrow(sentence);
});
