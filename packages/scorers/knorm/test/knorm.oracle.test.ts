import fc from 'fast-check';
import ndarray from 'ndarray';
import { expect, test } from 'vitest';
import { compose, softmax } from '@kv/core';
import { apply } from '@kv/cpu';
import { scene, sceneSpecs } from '@kv/laws';
import { knorm } from '../src/index.ts';
import { knormOracle } from './knorm.oracle.ts';

test('agrees with the float64 oracle to an ulp', () => {
  fc.assert(
    fc.property(sceneSpecs({ ragged: false, slots: 20 }), (spec) => {
      const { at, keys } = scene(spec).layers[0],
        shape = [at.kvHeads, at.slots, at.headDim];
      const want = knormOracle(ndarray(Float64Array.from(keys), shape)).data;
      const got = apply(knorm(), { keys: { data: keys, shape } }).scores!;
      expect(got.shape).toEqual(shape.slice(0, 2));
      want.forEach((x, i) => expect(Math.abs(got.data[i] - x)).toBeLessThanOrEqual(2 ** -23 * Math.abs(x)));
    }),
  );
});

test('is no weightScorer, and becomes one through softmax', () => {
  expect(knorm().to).toBe('scores');
  expect(compose(knorm(), softmax()).to).toBe('weights');
});
