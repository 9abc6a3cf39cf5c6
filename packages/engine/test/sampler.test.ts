import { mulberry } from '@kv/core/shared';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Grammar } from '../src/generate/constraint.ts';
import { greedy } from '../src/sampling/greedy.ts';
import { Sampler } from '../src/sampling/sampler.ts';
import { OnTheEdge, oracle, ORDER, STEPS } from './sampling.oracle.ts';
import type { Draws, StepName } from './sampling.oracle.ts';

const VOCAB = 40,
  DRAWS = 20;
/** A grammar that always allows these ids. */
const allowing = (words: Int32Array): Grammar => ({
  begin: () => ({ allowed: () => words, accept() {}, complete: false, destroy() {} }),
});
const bitsOf = (ids: Iterable<number>, words = 2): Int32Array => {
  const bits = new Int32Array(words);
  for (const id of ids) bits[id >> 5] |= 1 << (id & 31);
  return bits;
};

// all on grids that f32 holds exactly, so that the steps to the draw have the numbers of float64
const grid = (min: number, max: number, by: number): fc.Arbitrary<number> =>
  fc.integer({ min: min / by, max: max / by }).map((n) => n * by);
const id = fc.nat(VOCAB - 1);
const cases = fc.record({
  logits: fc
    .constantFrom(1, 8)
    .chain((most) => fc.array(grid(-most, most, 0.25), { minLength: VOCAB, maxLength: VOCAB })),
  options: fc.record({
    temperature: fc.constantFrom(0, 0.5, 1, 2, 3),
    topK: fc.oneof(fc.constant(0), fc.nat(50)),
    topP: fc.oneof(fc.constant(1), fc.double({ min: 0.05, max: 1, noNaN: true })),
    minP: fc.oneof(fc.constant(0), fc.double({ min: 0, max: 1, noNaN: true })),
    repetitionPenalty: fc.constantFrom(0.5, 1, 2, 4),
    frequencyPenalty: grid(-2, 2, 0.25),
    presencePenalty: grid(-2, 2, 0.25),
    logitBias: fc.dictionary(id.map(String), grid(-20, 20, 0.25), { maxKeys: 6 }),
    seed: fc.nat(),
  }),
  prompt: fc.array(id, { maxLength: 6 }),
  answer: fc.array(id, { maxLength: 10 }),
  allowed: fc.option(fc.uniqueArray(id, { minLength: 1, maxLength: VOCAB }), { nil: undefined }),
});

/** Fails unless the sampler's id is where its random number falls among the oracle's probabilities, ids ascending. */
const lawOf = (order: readonly StepName[], steps: typeof STEPS, runs: number): void =>
  fc.assert(
    fc.property(cases, ({ logits, options, prompt, answer, allowed: ids }) => {
      const allowed = ids && new Set(ids);
      let p: readonly number[];
      try {
        p = oracle(logits, { options, prompt, answer, allowed } as Draws, order, steps);
      } catch (error) {
        if (error instanceof OnTheEdge) return;
        throw error;
      }
      const sampler = new Sampler(options, { prompt, grammar: ids && allowing(bitsOf(ids)) });
      for (const came of answer) sampler.accept(came);
      const row = Float32Array.from(logits),
        random = mulberry(options.seed);
      for (let draws = 0; draws < DRAWS; draws++) {
        const drawn = sampler.pick(row),
          share = options.temperature === 0 ? 0.5 : random(),
          below = p.slice(0, drawn).reduce((a, b) => a + b, 0);
        if (p[drawn] > 0 && share > below - 1e-9 && share < below + p[drawn] + 1e-9) continue;
        expect.fail(`${drawn} of ${below} to ${below + p[drawn]} was drawn by ${share}`);
      }
      expect([...row]).toEqual(logits); // the model's own, for log-probabilities
    }),
    { numRuns: runs, ...((steps !== STEPS || order !== ORDER) && { endOnFailure: true, seed: 41 }) },
  );

describe('the steps, each as transformers defines it, in float64', () => {
  test('in their order', () => lawOf(ORDER, STEPS, 400));
  const moved = (name: StepName, to: number): readonly StepName[] => {
    const rest = ORDER.filter((other) => other !== name);
    return [...rest.slice(0, to), name, ...rest.slice(to)];
  };
  test.each([
    ['penalties before the bias', moved('bias', 3)],
    ['the repetition penalty after those of counts', moved('repetition', 3)],
    ['temperature last, as in llama.cpp', moved('temperature', 7)],
    ['min-p before top-p', moved('minP', 6)],
    ['top-p before top-k', moved('topP', 5)],
    ['the mask last', moved('mask', 7)],
  ])('not with %s', (_, order) => {
    expect(() => lawOf(order, STEPS, 2000)).toThrow();
  });
  test.each<[string, Partial<typeof STEPS>]>([
    [
      'the repetition penalty of the answer alone',
      { repetition: (scores, by) => STEPS.repetition(scores, { ...by, prompt: [] }) },
    ],
    [
      'the other penalties of the prompt too',
      { counts: (scores, by) => STEPS.counts(scores, { ...by, answer: [...by.prompt, ...by.answer] }) },
    ],
    ['a presence penalty for each time', { counts: (scores, by) => perTime(scores, by) }],
  ])('not with %s', (_, other) => {
    expect(() => lawOf(ORDER, { ...STEPS, ...other }, 2000)).toThrow();
  });
});
const perTime: typeof STEPS.counts = (scores, by) =>
  scores.map(
    (x, at) =>
      x - by.answer.filter((each) => each === at).length * (by.options.frequencyPenalty + by.options.presencePenalty),
  );

const hostile = fc.oneof(fc.float({ noNaN: true }), fc.constantFrom(NaN, Infinity, -Infinity, -0, 0));
test('whatever the logits are, a grammar bans what it does not allow: an allowed id is drawn, or one sentence said', () => {
  fc.assert(
    fc.property(
      fc.array(hostile, { minLength: 1, maxLength: 70 }),
      fc.array(fc.integer(), { maxLength: 3 }),
      fc.record({ temperature: fc.constantFrom(0, 1e-9, 1, 1e9), topK: fc.nat(3), topP: fc.constantFrom(0.3, 1) }),
      (logits, words, options) => {
        const row = Float32Array.from(logits),
          allowed = Int32Array.from(words),
          may = [...row.keys()].filter((at) => ((allowed[at >> 5] >>> (at & 31)) & 1) === 1),
          seen = row.map((x, at) => (may.includes(at) ? x : -Infinity)),
          draw = (): number => new Sampler(options, { grammar: allowing(allowed) }).pick(row);
        if (may.length === 0) expect(draw).toThrow(/^grammar: allows none of the model's \d+ tokens here/);
        else if (seen.some(Number.isNaN) || !Number.isFinite(Math.max(...seen)))
          expect(draw).toThrow(/^logits: must be finite numbers, .*, got (?:NaN|-?Infinity) for id \d+: /);
        else {
          expect(may).toContain(draw());
          if (options.temperature === 0 || options.topK === 1) expect(draw()).toBe(greedy(seen));
        }
      },
    ),
  );
});

test('ids that a model bans never come: as if no grammar had allowed them', () => {
  fc.assert(
    fc.property(cases, fc.uniqueArray(id, { maxLength: VOCAB - 1 }), ({ logits, options, prompt, allowed }, banned) => {
      const may = (allowed ?? Array.from({ length: VOCAB }, (_, at) => at)).filter((each) => !banned.includes(each));
      fc.pre(may.length > 0);
      const row = Float32Array.from(logits),
        grammar = allowed && allowing(bitsOf(allowed)),
        config = { vocab: VOCAB, bannedIds: banned },
        alike = new Sampler(options, { prompt, grammar: allowing(bitsOf(may)) }),
        sampler = new Sampler(options, { prompt, grammar, config });
      for (let i = 0; i < 5; i++) expect(sampler.pick(row)).toBe(alike.pick(row));
    }),
  );
});

test('biases as large as they may be and penalties keep every logit a number', () => {
  const row = Float32Array.of(3e38, -3e38, 0, -Infinity),
    sampler = new Sampler(
      { logitBias: { 0: -100, 1: 100, 3: 100 }, repetitionPenalty: 1.5, frequencyPenalty: 2 },
      { prompt: [0, 1, 2, 3] },
    );
  for (let i = 0; i < 100; i++) sampler.accept(2);
  expect(sampler.pick(row)).toBe(0);
  expect(() => new Sampler({ logitBias: { 4: 1 } }).pick(row)).toThrow(
    'logitBias: must be for token ids below 4, got 4',
  );
});

test('an id that a grammar does not allow is not counted', () => {
  const grammar: Grammar = {
      begin: () => ({
        allowed: () => undefined,
        accept() {
          throw new Error('no');
        },
        complete: false,
        destroy() {},
      }),
    },
    sampler = new Sampler({ frequencyPenalty: 1 }, { grammar });
  expect(() => sampler.accept(1)).toThrow('no');
  expect(sampler.edits).toBeUndefined();
});

test('each number is a seed of its own, and a whole one of 32 bits the same as ever', () => {
  const row = new Float32Array(500),
    drawn = (seed: number): string => {
      const sampler = new Sampler({ temperature: 1, seed });
      return Array.from({ length: 6 }, () => sampler.pick(row)).join();
    };
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (seed) => {
      expect(drawn(seed)).toBe(drawn(seed));
      expect(drawn(seed)).not.toBe(drawn(seed === 0 ? 0.5 : seed / 2));
    }),
  );
  const random = mulberry(7);
  expect(drawn(7)).toBe(Array.from({ length: 6 }, () => Math.floor(500 * random())).join());
});
