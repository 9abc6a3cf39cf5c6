import { expect, test } from 'vitest';
import { compose, scorer } from '@kv/core';
import { each, selectorLaws } from '@kv/laws';
import { jointEviction } from '../src/index.ts';

each(selectorLaws(jointEviction(), { nested: true, runs: 20 }), test);

test('scores that may be negative do not compose with it', () => {
  const minus = scorer('minus', {}, ({ ops, at }) =>
    ops.from({ data: new Float32Array(at.slots).fill(-1), shape: [1, at.slots] }),
  )();
  // @ts-expect-error the compiler says the same
  expect(() => compose(minus, jointEviction())).toThrow(
    "'jointEviction' needs weights (scores of at least 0), but 'minus' before it leaves scores that may be negative",
  );
});
