import fc from 'fast-check';
import ndarray from 'ndarray';
import { describe, expect, test } from 'vitest';
import { compose, selector } from '@kv/core';
import { apply } from '@kv/cpu';
import { compile } from '@kv/core/engine';
import type { Piece, Tokens } from '@kv/core';
import { each, kernelLaws, scene, sceneSpecs, scorerLaws } from '@kv/laws';
import {
  worstCaseAttention,
  questionAttention,
  groupMaxAttention,
  lastNear,
  redundancy,
  scissorhands,
} from '../src/index.ts';
import {
  attentionOracle,
  average,
  defensiveOracle,
  finchOracle,
  importanceOracle,
  redundancyOracle,
  scissorhandsOracle,
} from './window.oracle.ts';
import type { Vector } from './window.oracle.ts';

const topK = selector('topK', {}, ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks));
// the window counts slots; of equal keys the last counts
const pieces = [
  groupMaxAttention({ window: 2, kernel: 3 }),
  redundancy(),
  worstCaseAttention({ window: 2, kernel: 3 }),
  scissorhands({ window: 3, recent: 1 }),
  questionAttention({ question: 2 }),
];
describe.each(pieces.map((piece) => [piece.label, piece] as const))('%s', (_, piece) => {
  each(scorerLaws(piece, { positional: true, runs: 30 }), test);
});
describe('last-near', () => {
  each(
    kernelLaws(lastNear, {
      runs: 15,
      make: ({ rows, slots, lengths }) => ({
        inputs: {
          x: {
            data: Float32Array.from(
              { length: rows * slots * 2 },
              (_, i) => (1 + ((i >> 1) % 3)) * (i % 2 ? Math.sin : Math.cos)((i >> 1) * 2),
            ),
            shape: [rows, slots, 2],
            lengths,
          },
          inverse: {
            data: Float32Array.from({ length: rows * slots }, (_, i) => 1 / (1 + (i % 3))),
            shape: [rows, slots],
          },
        },
        params: { near: 0.4 },
      }),
    }),
    test,
  );
});

interface Case {
  readonly keys: Vector[];
  readonly heads: Vector[][];
  readonly positions: number[];
  readonly length: number;
  /** Scores of one KV head's row. */
  row(piece: Piece): number[];
}
const W = 3;
const onHeads = (
  check: (c: Case) => void,
  specs = sceneSpecs({ ragged: false, layers: 1 }).filter((s) => s.vectors !== 'long'),
): void =>
  fc.assert(
    fc.property(specs, (spec) => {
      const { at, keys, positions } = scene(spec).layers[0],
        { kvHeads: G, queryHeads: H, slots: n, headDim: d, length } = at,
        q = Float32Array.from({ length: H * W * d }, (_, i) => Math.sin(i * 1.7));
      const vectors = (x: Float32Array, r: number, m: number): Vector[] =>
        Array.from({ length: m }, (_, i) =>
          ndarray(Float64Array.from(x.subarray((r * m + i) * d, (r * m + i + 1) * d)), [d]),
        );
      for (let g = 0; g < G; g++)
        check({
          keys: vectors(keys, g, n),
          heads: Array.from({ length: H / G }, (_, r) => vectors(q, (g * H) / G + r, W)),
          positions: Array.from(positions.subarray(g * n, (g + 1) * n)),
          length,
          row: (piece) => {
            const { data } = apply(piece, {
              queries: { data: q, shape: [H, W, d] },
              keys: { data: keys, shape: [G, n, d] },
              positions: { data: positions, shape: [G, n] },
              at: { length, queryHeads: H, headDim: d },
            }).scores!;
            return Array.from(data.subarray(g * n, (g + 1) * n));
          },
        });
    }),
    { numRuns: 40 },
  );
const near = (got: readonly number[], want: readonly number[]): void =>
  want.forEach((x, i) => expect(Math.abs(got[i] - x)).toBeLessThan(1e-5));
const rowsOf = ({ heads, keys, positions, length }: Case): number[][][] =>
  heads.map((qs) => qs.map((q, i) => attentionOracle(q, keys, positions, length - W + i)));

test("R-KV's importance agrees with its oracle", () =>
  onHeads((c) => near(c.row(groupMaxAttention({ window: W, kernel: 3 })), importanceOracle(c.heads, c.keys, W, 3))));
test("R-KV's redundancy agrees with the whole matrix of cosines", () =>
  onHeads((c) => {
    // a cosine within rounding of the threshold may fall on either side
    near(c.row(redundancy({ near: 0.4999 })), redundancyOracle(c.keys, 0.4999));
  }));
test('of keys alike the last is the least redundant', () => {
  const { data } = apply(redundancy(), { keys: { data: Float32Array.of(0, 1, 1, 0, 1, 0, 1, 0), shape: [1, 4, 2] } })
    .scores!;
  expect(data[3]).toBeLessThan(data[1]);
  expect(data[1]).toBeCloseTo(data[2] * Math.exp(1 / 4), 5); // the last one's own row leaves out slot 2
});
test('DefensiveKV agrees with its oracle', () =>
  onHeads((c) => near(c.row(worstCaseAttention({ window: W, kernel: 3 })), defensiveOracle(rowsOf(c), W, 3))));

/**
 * A piece over one head's rows of weights, of the question's queries: it gets the statistic that it names, as an engine
 * gives it.
 */
const scored = (piece: Piece, rows: readonly (readonly number[])[], seen: readonly number[]): number[] => {
  const { args } = compile(piece).needs[0],
    weight = (a: number, i: number): number =>
      args!['of'] === 'votes' ? Number(a > 1 / seen[i]) : args!['of'] === 'normalized' ? a * (seen[i] - 1) : NaN;
  expect(args!['w']).toBe(rows.length);
  return Array.from(
    apply(piece, {
      attention: {
        data: Float32Array.from(rows[0], (_, j) => average(rows.map((row, i) => weight(row[j], i)))),
        shape: [1, rows[0].length],
      },
    }).scores!.data,
  );
};
const seenBy = ({ positions, length }: Case): number[] =>
  Array.from({ length: W }, (_, i) => positions.filter((p) => p <= length - W + i).length);
/** Every query of the window has its own slot, and all before it. */
const whole = sceneSpecs({ ragged: false, layers: 1 })
  .filter((s) => s.vectors !== 'long' && s.slots >= W)
  .map((s) => ({ ...s, evicted: 0 }));

test('Scissorhands agrees with its oracle', () =>
  onHeads(
    (c) =>
      near(
        scored(scissorhands({ window: W, recent: 1 }), rowsOf(c)[0], seenBy(c)),
        scissorhandsOracle(rowsOf(c)[0], seenBy(c)),
      ),
    whole,
  ));
test('Finch agrees with its oracle', () =>
  onHeads((c) => {
    const want = finchOracle(rowsOf(c)[0], c.positions, c.length),
      largest = Math.max(1, ...want);
    near(
      scored(questionAttention({ question: W }), rowsOf(c)[0], seenBy(c)).map((x) => x / largest),
      want.map((x) => x / largest),
    );
  }, whole));
test('Finch: weights that are spread evenly count alike, whichever query gave them; the question stays', () => {
  const rows = [6, 7, 8].map((n) => Array.from({ length: 8 }, (_, j) => (j < n ? 1 / n : 0))),
    scores = scored(questionAttention({ question: 3 }), rows, [6, 7, 8]);
  expect(scores.slice(0, 5).map((x) => +x.toFixed(5))).toEqual(
    new Array(5).fill(+((5 / 6 + 6 / 7 + 7 / 8) / 3).toFixed(5)),
  ); // slots before a query over slots that it sees
  expect(
    apply(compose(questionAttention({ question: 3 }), topK()), {
      attention: { data: Float32Array.from(scores), shape: [1, 8] },
      budget: 4,
    }).kept,
  ).toEqual([[0, 5, 6, 7]]);
});

/** n tokens of one letter, a delimiter before the last `asked`. */
const delimited = (n: number, asked: number): Tokens => {
  const letters = Array.from({ length: n }, (_, i) => (i === n - asked - 1 ? '#' : 'x'));
  return { ids: letters.map(() => 1), text: letters.join(''), offsets: letters.map((_, i) => [i, i + 1]) };
};
test("Finch after a delimiter agrees with its oracle over the question's own queries, with learned sinks and without", () => {
  fc.assert(
    fc.property(whole, fc.integer({ min: 1, max: W - 1 }), fc.boolean(), (spec, asked, sunk) => {
      const { at, keys, positions } = scene(spec).layers[0],
        { kvHeads: G, queryHeads: H, slots: n, headDim: d, length } = at,
        q = Float32Array.from({ length: H * W * d }, (_, i) => Math.sin(i * 1.7)),
        vector = (x: Float32Array, i: number): Vector =>
          ndarray(Float64Array.from(x.subarray(i * d, (i + 1) * d)), [d]);
      const got = apply(questionAttention({ question: W, delimiter: '#' }), {
        queries: { data: q, shape: [H, W, d] },
        keys: { data: keys, shape: [G, n, d] },
        positions: { data: positions, shape: [G, n] },
        tokens: delimited(length, asked),
        at: {
          ...{ length, promptLength: length, queryHeads: H, headDim: d },
          ...(sunk && { scale: 0.4, learnedSinks: Float32Array.from({ length: H }, (_, h) => 3 * Math.sin(h + 1)) }),
        },
      }).scores!.data;
      for (let h = 0; h < H; h++) {
        const g = Math.floor((h * G) / H),
          own = sunk ? { scale: 0.4, sink: 3 * Math.sin(h + 1) } : {},
          placed = Array.from(positions.subarray(g * n, (g + 1) * n)),
          seen = placed.map((_, i) => vector(keys, g * n + i)),
          rows = Array.from({ length: asked }, (_, i) =>
            attentionOracle(vector(q, h * W + W - asked + i), seen, placed, length - asked + i, own),
          );
        const want = finchOracle(rows, placed, length),
          largest = Math.max(1, ...want);
        want.forEach((x, i) => expect(Math.abs(got[h * n + i] - x)).toBeLessThan(1e-5 * largest));
      }
    }),
    { numRuns: 40 },
  );
});
test("Finch after a delimiter keeps the question's tokens, those of the last place of the delimiter", () => {
  const some = { data: new Float32Array(16).fill(0.5), shape: [1, 8, 2] },
    { text, ...rest } = delimited(8, 2),
    kept = (told: string) =>
      apply(compose(questionAttention({ question: 4, delimiter: '#' }), topK()), {
        queries: { data: new Float32Array(8).fill(0.5), shape: [1, 4, 2] },
        keys: some,
        tokens: { ...rest, text: told },
        budget: 3,
      }).kept;
  expect(kept(text)).toEqual([[0, 6, 7]]);
  expect(kept('#xxxx#xx')).toEqual([[0, 6, 7]]);
  for (const [told, got] of [
    ['xxxxxxxx', 'no such text in the 8 tokens that were read'],
    ['xxxxxxx#', '0 tokens'],
    ['xx#xxxxx', '5 tokens'],
  ])
    expect(() => kept(told)).toThrow(
      `questionAttention: expected a question of 1 to 4 tokens after '#' in the prompt, got ${got}`,
    );
});

describe('options are checked', () => {
  test.each([
    ['window', () => groupMaxAttention({ window: 0 })],
    ['kernel', () => groupMaxAttention({ kernel: 2 })],
    ['near', () => redundancy({ near: 2 })],
    ['window', () => worstCaseAttention({ window: 0 })],
    ['kernel', () => worstCaseAttention({ kernel: 0 })],
    ['window', () => scissorhands({ window: 0 })],
    ['recent', () => scissorhands({ recent: -1 })],
    ['question', () => questionAttention({ question: 0 })],
  ])('%s', (option, make) => {
    expect(make).toThrow(new RegExp(`^\\w+: ${option} must be `));
  });
});
