import { describe, expect, test } from 'vitest';
import { apply, compose, sum, weighted } from '@kv/core';
import type { Piece } from '@kv/core';
import { each, kernelLaws, scorerLaws, selectorLaws, transformLaws, unitLaws } from '@kv/laws';
import {
  branchDissolution,
  centrality,
  clip,
  coverage,
  crystallization,
  saliency,
  sentences,
  standout,
  strongest,
  trunks,
} from '../src/index.ts';
import { signals } from './given.ts';

const options = { signals, runs: 25 };
describe('saliency', () => {
  each(scorerLaws(saliency(), options), test);
});
describe('clip', () => {
  each(transformLaws(clip({ low: 0.5, high: 2 }), options), test);
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
  trunks({ maxSize: 3 }),
  trunks({ maxSize: 1 }),
  trunks({ merge: 'adaptive', maxSize: 4 }),
  compose(trunks({ maxSize: 4 }), centrality()),
  compose(sentences(), standout()),
  compose(trunks({ maxSize: 4 }), crystallization({ alpha: 0.5 })),
];
describe.each(units.map((piece) => [piece.label, piece] as const))('%s', (_, piece) => {
  each(unitLaws(piece, options), test);
});

/** Up to two slots fewer where the last unit goes whole. */
const size = (budget: number, n: number, banned: number) => {
  const most = Math.min(budget, n - banned);
  return { least: most - 2, most };
};
describe.each([
  ['trunks', compose(trunks({ maxSize: 4 }), crystallization(), branchDissolution())],
  ['sentences', compose(sentences(), branchDissolution())],
])('branch dissolution of %s', (_, piece) => {
  // a unit may be kept for one forced slot, or go for having too few
  const { ties, ...laws } = selectorLaws(piece, { ...options, size });
  each(laws, test);
  expect(ties).toBeDefined();
});
describe('branch dissolution that protects slots, of units of one', () => {
  each(selectorLaws(compose(trunks({ maxSize: 1 }), branchDissolution({ protect: 'slots', least: 1 })), options), test);
});

test.each([
  ['maxSize must be', () => trunks({ maxSize: 0 })],
  ['merge must be', () => trunks({ merge: -1 })],
  ['merge must be', () => trunks({ merge: 'often' as 'adaptive' })],
  ['alpha must be', () => crystallization({ alpha: -1 })],
  ['least must be', () => branchDissolution({ least: 0 })],
  ['protect must be', () => branchDissolution({ protect: 'all' as 'units' })],
  ['high must be', () => clip({ low: 2, high: 1 })],
  ['share must be', () => coverage({ share: 2 })],
])('%s checked', (sentence, make) => {
  expect(make).toThrow(sentence);
});
test('without units there is nothing to dissolve', () => {
  const plain = compose as (...pieces: unknown[]) => Piece; // with its types it does not compile
  expect(() => plain(sum(), branchDissolution())).toThrow(
    "'branchDissolution' needs unit scores, but 'sum' before it leaves weights (scores of at least 0)",
  );
  expect(() => apply(branchDissolution(), { scores: [[1, 2]], budget: 1 })).toThrow(
    'branchDissolution: needs units, such as trunks() or sentences(), got slots only',
  );
});
test('the uniform impact of the ablation, M = 1', () => {
  expect(Array.from(apply(compose(weighted(), clip({ low: 1 })), { at: { slots: 3 } }).scores!.data)).toEqual([
    1, 1, 1,
  ]);
});
