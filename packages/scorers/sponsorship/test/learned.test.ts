import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { tensorFile } from '@kv/core';
import { apply } from '@kv/cpu';
import { compile } from '@kv/core/engine';
import type { ProviderEngine, Tokens } from '@kv/core';
import { each, scorerLaws } from '@kv/laws';
import {
  confidence,
  DETECTOR_FILE,
  detector,
  detectorFile,
  learned,
  learnedRank,
  learnRank,
  readDetector,
  sponsorship,
  structure,
} from '../src/index.ts';
import { confidenceOracle } from './detector.oracle.ts';

const silent = (n: number): Tokens => ({ ids: new Array<number>(n).fill(0), text: '', offsets: [] });
const num = fc.integer({ min: -400, max: 400 }).map((x) => x / 100);
const detectors = fc
  .record({
    width: fc.integer({ min: 1, max: 6 }),
    units: fc.integer({ min: 1, max: 5 }),
    rows: fc.integer({ min: 1, max: 8 }),
  })
  .chain(({ width, units, rows }) =>
    fc.record({
      width: fc.constant(width),
      first: fc.array(fc.array(num, { minLength: width, maxLength: width }), { minLength: units, maxLength: units }),
      second: fc.array(num, { minLength: units, maxLength: units }),
      states: fc.array(fc.array(num, { minLength: width, maxLength: width }), { minLength: rows, maxLength: rows }),
    }),
  );
const weightsOf = ({
  width,
  first,
  second,
}: {
  readonly width: number;
  readonly first: readonly (readonly number[])[];
  readonly second: readonly number[];
}) => ({ width, first: Float32Array.from(first.flat()), second: Float32Array.from(second) });
/** Returns an engine with these hidden states, `[tokens, width]`, and this file next to its model. */
const engine = (states: Float32Array, width: number, file?: Uint8Array): ProviderEngine =>
  ({
    artifact: async (name: string) => (name === DETECTOR_FILE ? file : undefined),
    hiddenNumbers: async (_: string, fold: (rows: Float32Array, width: number) => Float32Array) => fold(states, width),
  }) as unknown as ProviderEngine;
const given = (file: Uint8Array, states: Float32Array, width: number): Promise<Float32Array> =>
  learned({ weights: file }).signal!.provide!(engine(states, width), 0) as Promise<Float32Array>;

const one = detectorFile({ width: 1, first: Float32Array.of(1), second: Float32Array.of(2) });
/** Confidences of a scene's tokens: about half of them anchors. */
const signals = (signal: { readonly id: string }, { tokens }: { readonly tokens: Tokens }): unknown =>
  signal.id === 'confidences' ? Float32Array.from(tokens.ids, (id, i) => (1 + Math.sin(3 * id + i)) / 2) : undefined;
describe.each(
  [
    sponsorship({ anchors: learned() }),
    structure({ anchors: learned({ above: 0.8, weights: one }) }),
    learnRank(),
    learnRank({ rank: learnedRank({ weights: one }) }),
  ].map((piece) => [piece.label, piece] as const),
)('%s', (_, piece) => {
  each(scorerLaws(piece, { runs: 40, signals }), test);
});

test('f agrees with the oracle', () => {
  fc.assert(
    fc.property(detectors, ({ states, ...of }) => {
      const got = confidence(weightsOf(of), Float32Array.from(states.flat())),
        [first, second] = [of.first.map((row) => row.map(Math.fround)), of.second.map(Math.fround)];
      states.forEach((h, i) =>
        expect(Math.abs(got[i] - confidenceOracle(first, second, h.map(Math.fround)))).toBeLessThan(1e-7),
      );
    }),
    { numRuns: 200 },
  );
});
test('anchors are the tokens with f > 0.5, and vouch as given ones do', async () => {
  await fc.assert(
    fc.asyncProperty(detectors, fc.constantFrom(0.3, 0.5, 0.8), async ({ states, ...of }, above) => {
      const file = detectorFile(weightsOf(of)),
        f = await given(file, Float32Array.from(states.flat()), of.width),
        want = states.flatMap((h, i) =>
          Math.fround(
            confidenceOracle(
              of.first.map((row) => row.map(Math.fround)),
              of.second.map(Math.fround),
              h.map(Math.fround),
            ),
          ) > above
            ? [i]
            : [],
        );
      const detect = learned({ above, weights: file }),
        tokens = silent(states.length);
      expect(detect.run(tokens, f)).toEqual(want);
      expect(apply(sponsorship({ anchors: detect }), { tokens, confidences: f as object }).scores!.data).toEqual(
        apply(sponsorship({ anchors: detector('want', {}, () => () => want)() }), { tokens }).scores!.data,
      );
    }),
    { numRuns: 60 },
  );
});
test('LearnRank vouches by confidence', async () => {
  const f = Float32Array.of(0.9, 0.2, 0.4, 0, 0),
    { scores } = apply(learnRank({ strength: 1 }), { tokens: silent(5), confidences: f as object });
  const want = [0, 0.9 * 0.8, 0.9 * 0.64, 0.9 * 0.512 + 0.4 * 0.8, 0.9 * 0.4096 + 0.4 * 0.64];
  want.forEach((v, i) => expect(scores!.data[i]).toBeCloseTo(v, 6));
});

test('the detector is read from next to the model, or is the given one', async () => {
  const states = Float32Array.of(1, -1),
    signal = learned().signal!;
  expect(signal).toMatchObject({ id: 'confidences', hidden: true, cost: 'artifact' });
  const own = await (signal.provide!(engine(states, 1, one), 0) as Promise<Float32Array>);
  expect(own).toEqual(await given(one, states, 1));
  expect(own[0]).toBeCloseTo(1 / (1 + Math.exp(-2 * 0.841192)), 5);
  await expect(signal.provide!(engine(states, 1), 0)).rejects.toThrow(
    `learned: expected ${DETECTOR_FILE} next to the model, got none: @kv/detector-smollm2 has that of SmolLM2-135M-Instruct, and 'node tools/detector.mjs MODEL' makes one`,
  );
  await expect(signal.provide!(engine(states, 2, one), 0)).rejects.toThrow(
    'learned: expected a detector of hidden states of 2 channels, got one of 1: it is of another model',
  );
});
test('one signal for one file', () => {
  const other = one.slice(),
    [a, b, c, d] = [learned(), learned({ above: 0.7 }), learned({ weights: one }), learned({ weights: other })],
    needs = (...detectors: readonly (typeof a)[]) =>
      new Set(
        detectors.flatMap((anchors) =>
          compile(sponsorship({ anchors }))
            .needs.filter(({ id }) => id === 'confidences')
            .map(({ args }) => JSON.stringify(args ?? {})),
        ),
      );
  expect(needs(a, b).size).toBe(1);
  expect(needs(c, learned({ weights: one })).size).toBe(1);
  expect(needs(a, c, d).size).toBe(3);
});
test('labels, and what is checked', () => {
  expect(sponsorship({ anchors: learned() }).label).toBe('sponsorship(anchors=learned)');
  expect(sponsorship({ anchors: learned({ above: 0.7 }) }).label).toBe('sponsorship(anchors=learned(above=0.7))');
  expect(learnRank().label).toBe('learnRank');
  expect(learnRank({ rank: learnedRank({ weights: one }) }).label).toBe(
    'learnRank(rank=learnedRank(weights=<object>))',
  );
  expect(() => learned({ above: 1.5 })).toThrow('learned: above must be a number from 0 to 1, got 1.5');
});

test('the file is read back, and nothing else is', () => {
  fc.assert(
    fc.property(detectors, fc.string({ unit: 'grapheme', maxLength: 9 }), (of, said) => {
      expect(readDetector(detectorFile(weightsOf(of), { model: said }))).toEqual(weightsOf(of));
    }),
    { numRuns: 60 },
  );
  const file = detectorFile(
    { width: 3, first: Float32Array.of(1, 2, 3, 4, 5, 6), second: Float32Array.of(7, 8) },
    { model: 'x' },
  );
  fc.assert(
    fc.property(fc.nat(file.length - 1), fc.nat(255), fc.nat(file.length), (at, byte, end) => {
      const broken = file.slice(0, end);
      if (at < broken.length) broken[at] = byte;
      try {
        readDetector(broken);
      } catch (error) {
        expect(String((error as Error).message)).toMatch(/^learned-detector\.safetensors: expected /);
      }
    }),
    { numRuns: 200 },
  );
  const text = Buffer.from(file).toString('latin1'),
    spoilt = (from: string, to: string): Uint8Array => Uint8Array.from(text.replace(from, to), (c) => c.charCodeAt(0));
  expect(() => readDetector(spoilt('[2,3]', '[3,2]'))).toThrow(
    "learned-detector.safetensors: expected 'first' [units, width] and 'second' [units], got [3, 2] and [2]",
  );
  expect(() => readDetector(spoilt('[2,3]', '  [6]'))).toThrow('got [6] and [2]');
  expect(() =>
    readDetector(
      tensorFile({
        metadata: {},
        tensors: {
          first: { shape: [2, 3, 1], data: new Float32Array(6) },
          second: { shape: [2], data: new Float32Array(2) },
        },
      }),
    ),
  ).toThrow('got [2, 3, 1] and [2]');
  expect(() => readDetector(detectorFile({ width: 0, first: new Float32Array(), second: Float32Array.of(1) }))).toThrow(
    'got [1, 0] and [1]',
  );
});
