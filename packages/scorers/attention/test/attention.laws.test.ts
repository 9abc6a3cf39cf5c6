import { describe, expect, test } from 'vitest';
import { each, scorerLaws } from '@kv/laws';
import { h2o, meanAttention, snapkv, streaming, tova } from '../src/index.ts';

// last places count in all but observed's and TOVA's scores, by what they force in those too
const pieces = [
  snapkv({ window: 2 }),
  snapkv({ window: 4, kernel: 3, pooling: 'max' }),
  h2o(),
  h2o({ recent: 3, over: 'block' }),
  tova(),
  tova({ forceLast: false }),
  meanAttention(),
  h2o({ recent: 3, rows: 'kv' }),
  meanAttention({ rows: 'kv' }),
  streaming({ sinks: 2 }),
];
describe.each(pieces.map((piece) => [piece.label, piece] as const))('%s', (_, piece) => {
  each(scorerLaws(piece, { positional: true }), test);
});

describe('options are checked', () => {
  test.each([
    ['window', () => snapkv({ window: 0 })],
    ['kernel', () => snapkv({ kernel: 4 })],
    ['pooling', () => snapkv({ pooling: 'median' as 'mean' })],
    ['recent', () => h2o({ recent: 1.5 })],
    ['over', () => h2o({ over: 'all' as 'block' })],
    ['rows', () => h2o({ rows: 'all' as 'kv' })],
    ['rows', () => meanAttention({ rows: 'all' as 'kv' })],
    ['sinks', () => streaming({ sinks: -1 })],
  ])('%s', (option, make) => {
    expect(make).toThrow(new RegExp(`^\\w+: ${option} must be `));
  });
  test('a block has no sums by KV head', () => {
    expect(() => h2o({ over: 'block', rows: 'kv' })).toThrow("h2o: expected rows 'query' over a block, got 'kv'");
  });
});
