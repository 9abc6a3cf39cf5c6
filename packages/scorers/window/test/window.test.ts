import fc from 'fast-check';
import ndarray from 'ndarray';
import { describe, expect, test } from 'vitest';
import { apply, compose, selector } from '@kv/core';
import type { Piece } from '@kv/core';
import { each, kernelLaws, scene, sceneSpecs, scorerLaws } from '@kv/laws';
import { defensive, finch, importance, lastNear, redundancy, scissorhands } from '../src/index.ts';
import { attentionOracle, defensiveOracle, finchOracle, importanceOracle, redundancyOracle, scissorhandsOracle } from './window.oracle.ts';
import type { Vector } from './window.oracle.ts';

const topK = () => selector('topK', [], ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks));
// the window is of slots; of keys alike the last counts
const pieces = [importance({ window: 2, kernel: 3 }), redundancy(), defensive({ window: 2, kernel: 3 }), scissorhands({ window: 3, recent: 1 }), finch({ question: 2 })];
describe.each(pieces.map((piece) => [piece.label, piece] as const))('%s', (_, piece) => { each(scorerLaws(piece, { positional: true, runs: 30 }), test); });
describe('last-near', () => { each(kernelLaws(lastNear, { runs: 15, make: ({ rows, slots, lengths }) => ({ inputs: { x: { data: Float32Array.from({ length: rows * slots * 2 }, (_, i) => (i % 2 ? Math.sin : Math.cos)((i >> 1) * 2)), shape: [rows, slots, 2], lengths } }, params: { near: 0.4 } }) }), test); });

interface Case { readonly keys: Vector[]; readonly heads: Vector[][]; readonly positions: number[]; readonly length: number; /** Scores of one KV head's row, or of its first query head. */ row(piece: Piece, rows: 'kv' | 'query'): number[] }
const W = 3;
const onHeads = (check: (c: Case) => void): void => fc.assert(fc.property(sceneSpecs({ ragged: false, layers: 1 }).filter((s) => s.vectors !== 'long'), (spec) => {
  const { at, keys, positions } = scene(spec).layers[0]!, { kvHeads: G, queryHeads: H, slots: n, headDim: d, length } = at, q = Float32Array.from({ length: H * W * d }, (_, i) => Math.sin(i * 1.7));
  const vectors = (x: Float32Array, r: number, m: number): Vector[] => Array.from({ length: m }, (_, i) => ndarray(Float64Array.from(x.subarray((r * m + i) * d, (r * m + i + 1) * d)), [d]));
  for (let g = 0; g < G; g++) check({ keys: vectors(keys, g, n), heads: Array.from({ length: H / G }, (_, r) => vectors(q, (g * H) / G + r, W)), positions: Array.from(positions.subarray(g * n, (g + 1) * n)), length,
    row: (piece, rows) => { const { data } = apply(piece, { queries: { data: q, shape: [H, W, d] }, keys: { data: keys, shape: [G, n, d] }, positions: { data: positions, shape: [G, n] }, at: { length, queryHeads: H, headDim: d } }).scores!, r = rows === 'kv' ? g : (g * H) / G; return Array.from(data.subarray(r * n, (r + 1) * n)); } });
}), { numRuns: 40 });
const near = (got: readonly number[], want: readonly number[]): void => want.forEach((x, i) => expect(Math.abs(got[i]! - x)).toBeLessThan(1e-5));
const rowsOf = ({ heads, keys, positions, length }: Case): number[][][] => heads.map((qs) => qs.map((q, i) => attentionOracle(q, keys, positions, length - W + i)));

test("R-KV's importance agrees with its oracle", () => onHeads((c) => near(c.row(importance({ window: W, kernel: 3 }), 'kv'), importanceOracle(c.heads, c.keys, W, 3))));
test("R-KV's redundancy agrees with the whole matrix of cosines", () => onHeads((c) => { // a cosine within rounding of the border may fall on either side
  near(c.row(redundancy({ near: 0.4999 }), 'kv'), redundancyOracle(c.keys, 0.4999));
}));
test('of keys alike the last is the least redundant', () => {
  const { data } = apply(redundancy(), { keys: { data: Float32Array.of(0, 1, 1, 0, 1, 0, 1, 0), shape: [1, 4, 2] } }).scores!;
  expect(data[3]!).toBeLessThan(data[1]!);
  expect(data[1]).toBeCloseTo(data[2]! * Math.exp(1 / 4), 5); // the last one's own row leaves out slot 2
});
test('DefensiveKV agrees with its oracle', () => onHeads((c) => near(c.row(defensive({ window: W, kernel: 3 }), 'kv'), defensiveOracle(rowsOf(c), W, 3))));
test('Scissorhands agrees with its oracle', () => onHeads((c) => {
  const rows = rowsOf(c)[0]!, visible = rows.map((_, i) => c.positions.filter((p) => p <= c.length - W + i).length), got = c.row(scissorhands({ window: W, recent: 1 }), 'query');
  // a weight within rounding of the mean may count or not
  scissorhandsOracle(rows, visible.map((v) => Math.max(1, v))).forEach((x, i) => { if (rows.every((r, t) => Math.abs(r[i]! * Math.max(1, visible[t]!) - 1) > 1e-5)) expect(got[i]).toBeCloseTo(x, 5); });
}));
test('Finch agrees with its oracle', () => onHeads((c) => {
  const want = finchOracle(rowsOf(c)[0]!, c.positions, c.length), largest = Math.max(1, ...want);
  near(c.row(finch({ question: W }), 'query').map((x) => x / largest), want.map((x) => x / largest));
}));
test('Finch: weights that are spread evenly count alike, whichever query gave them', () => {
  const same = { data: new Float32Array(8).fill(1), shape: [1, 8, 1] }, { scores, kept } = apply(compose(finch({ question: 3 }), topK()), { queries: { data: new Float32Array(3), shape: [1, 3, 1] }, keys: same, budget: 4 });
  expect(Array.from(scores!.data.slice(0, 5), (x) => +x.toFixed(5))).toEqual(new Array(5).fill(+((5 / 6 + 6 / 7 + 7 / 8) / 3).toFixed(5))); // slots before a query over slots that it sees
  expect(kept).toEqual([[0, 5, 6, 7]]);
});

describe('options are checked', () => {
  test.each([['window', () => importance({ window: 0 })], ['kernel', () => importance({ kernel: 2 })], ['near', () => redundancy({ near: 2 })], ['window', () => defensive({ window: 0 })], ['kernel', () => defensive({ kernel: 0 })], ['window', () => scissorhands({ window: 0 })], ['recent', () => scissorhands({ recent: -1 })], ['question', () => finch({ question: 0 })]])('%s', (option, make) => { expect(make).toThrow(new RegExp(`^\\w+: ${option} must be `)); });
});
