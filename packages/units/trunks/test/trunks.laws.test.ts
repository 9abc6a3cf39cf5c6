import { describe, expect, test } from 'vitest';
import { compose, weighted } from '@kv/core';
import { apply } from '@kv/cpu';
import { each, kernelLaws, scorerLaws, transformLaws, unitLaws } from '@kv/laws';
import {
  centrality,
  clipToRange,
  coverage,
  crystallization,
  saliency,
  sentences,
  unitLogMinMax,
  strongest,
  trunks,
} from '../src/index.ts';
import { signals } from './given.ts';

const options = { signals, runs: 25 };
describe('saliency', () => {
  each(scorerLaws(saliency(), options), test);
});
describe('clipToRange', () => {
  each(transformLaws(clipToRange({ low: 0.5, high: 2 }), options), test);
});
describe('coverage', () => {
  each(transformLaws(coverage({ share: 0.4 }), options), test);
});
describe('strongest', () => {
  each(
    kernelLaws(strongest, {
      make: ({ slots: n, seed }) => ({
        inputs: {
          x: {
            data: Float32Array.from({ length: n * n }, (_, i) => Math.round(9 * Math.abs(Math.sin(i * 7 + seed))) / 9),
            shape: [n, n],
          },
        },
        params: { above: 0.3 },
      }),
    }),
    test,
  );
});
const units = [
  sentences(),
  sentences({ maxSize: 3, top: 0 }),
  trunks({ maxSize: 3 }),
  trunks({ maxSize: 1 }),
  trunks({ merge: 'adaptive', maxSize: 4 }),
  compose(trunks({ maxSize: 4 }), centrality()),
  compose(sentences(), unitLogMinMax()),
  compose(trunks({ maxSize: 4 }), crystallization({ alpha: 0.5 })),
];
describe.each(units.map((piece) => [piece.label, piece] as const))('%s', (_, piece) => {
  each(unitLaws(piece, options), test);
});

test.each([
  ['maxSize must be', () => trunks({ maxSize: 0 })],
  ['merge must be', () => trunks({ merge: -1 })],
  ['merge must be', () => trunks({ merge: 'often' as 'adaptive' })],
  ['alpha must be', () => crystallization({ alpha: -1 })],
  ['high must be', () => clipToRange({ low: 2, high: 1 })],
  ['share must be', () => coverage({ share: 2 })],
])('%s checked', (sentence, make) => {
  expect(make).toThrow(sentence);
});
test('the uniform impact of the ablation, M = 1', () => {
  expect(Array.from(apply(compose(weighted(), clipToRange({ low: 1 })), { at: { slots: 3 } }).scores!.data)).toEqual([
    1, 1, 1,
  ]);
});
