import { describe, expect, test } from 'vitest';
import { each, selectorLaws } from '@kv/laws';
import type { LawOptions } from '@kv/laws';
import { diversity } from '../src/index.ts';

/**
 * One value for every token: in ragged scenes who else holds a token is in its signature, so equal values alone make no
 * tie.
 */
const alike: LawOptions['signals'] = (signal, { at: { kvHeads, slots, headDim }, lengths }, ops) =>
  signal.id !== 'values'
    ? undefined
    : ops.from(
        { data: new Float32Array(kvHeads * slots * headDim).fill(1), shape: [kvHeads, slots, headDim] },
        'f32',
        ops.from({ data: Uint32Array.from(lengths), shape: [kvHeads] }),
      );
const pieces = [
  diversity(),
  diversity({ signature: 'layer' }),
  diversity({ signature: 'head', lambda: 2, last: 0, decay: 0.9 }),
  diversity({ lambda: 0 }),
];
describe.each(pieces.map((piece) => [piece.label, piece] as const))('%s', (_, piece) => {
  each(
    {
      ...selectorLaws(piece, { nested: true, runs: 20 }),
      ties: selectorLaws(piece, { signals: alike, runs: 20 })['ties'],
    },
    test,
  );
});

test.each([
  ['lambda', () => diversity({ lambda: -1 })],
  ['last', () => diversity({ last: Number.NaN })],
  ['decay', () => diversity({ decay: 2 })],
  ['signature', () => diversity({ signature: 'token' as 'head' })],
])('%s is checked', (option, make) => {
  expect(make).toThrow(`diversity: ${option} must be `);
});
