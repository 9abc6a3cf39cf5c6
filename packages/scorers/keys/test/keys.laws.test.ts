import { describe, expect, test } from 'vitest';
import { each, kernelLaws, scorerLaws } from '@kv/laws';
import { cur, keydiff, lagkv, lagRange, lagRank, lagSpread } from '../src/index.ts';

describe('keydiff', () => { each(scorerLaws(keydiff()), test); });
// windows and partitions are of slots
describe.each([cur(), cur({ sinks: 1, window: 3, of: 'mean' }), lagkv(), lagkv({ sinks: 1, lag: 2 }), lagkv({ sinks: 0, lag: 3, cross: true })].map((piece) => [piece.label, piece] as const))('%s', (_, piece) => {
  each(scorerLaws(piece, { positional: true, runs: 40 }), test);
});

// the references run on the CPU themselves here; @kv/gpu runs the same laws on a device
const wide = ({ rows, slots, lengths }: { rows: number; slots: number; lengths?: readonly number[] | undefined }) => ({
  inputs: { x: { data: Float32Array.from({ length: rows * slots * 2 }, (_, i) => Math.sin(i * 7)), shape: [rows, slots, 2], lengths }, range: { data: Float32Array.from({ length: rows * (slots + 1) * 4 }, (_, i) => i % 4), shape: [rows, slots + 1, 4] } },
  params: { lag: 2, sinks: 1, ranked: 1 },
});
describe('kernels', () => {
  each(kernelLaws(lagRange, { make: wide }), (name, law) => test(`${lagRange.id} ${name}`, law));
  each(kernelLaws(lagSpread, { make: wide }), (name, law) => test(`${lagSpread.id} ${name}`, law));
  each(kernelLaws(lagRank), (name, law) => test(`${lagRank.id} ${name}`, law));
});

describe('options are checked', () => {
  test.each([
    ['sinks', () => cur({ sinks: -1 })], ['window', () => cur({ window: 0 })], ['of', () => cur({ of: 'both' as 'key' })], ['sinks', () => lagkv({ sinks: 0.5 })], ['lag', () => lagkv({ lag: 0 })],
  ])('%s', (option, make) => { expect(make).toThrow(new RegExp(`^\\w+: ${option} must be `)); });
});
