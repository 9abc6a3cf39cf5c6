import fc from 'fast-check';
import ndarray from 'ndarray';
import { expect, test } from 'vitest';
import { cpu, readCpu } from '@kv/cpu';
import { blockAttention, overWindow } from '@kv/core/shared';
import type { WindowBlock } from '@kv/core/shared';
import { lengthsOf } from '../ops/agree.ts';
import { numbers } from '../ops/arrays.ts';
import { at } from './engine.ts';
import { attentionRow } from './window-blocks.oracle.ts';

const { ops } = cpu;
const size = (max: number): fc.Arbitrary<number> => fc.integer({ min: 1, max });
const cases = fc.record({
  G: size(3),
  R: size(3),
  n: size(9),
  d: size(4),
  w: size(7),
  block: size(8),
  gone: fc.nat(3),
  ragged: fc.boolean(),
  seed: fc.nat(2 ** 30),
});

/** A window of w queries over heads that hold different tokens, and its rows computed by the oracle. */
function windowOf({
  G,
  R,
  n,
  d,
  w,
  gone,
  ragged,
  seed,
}: {
  G: number;
  R: number;
  n: number;
  d: number;
  w: number;
  gone: number;
  ragged: boolean;
  seed: number;
}) {
  const next = numbers(seed),
    length = n + gone,
    lengths = Array.from({ length: G }, () => (ragged ? 1 + Math.floor(next() * n) : n)),
    H = G * R;
  const held = lengths.map((m) =>
    Array.from({ length }, (_, p) => [next(), p] as const)
      .sort((a, b) => a[0] - b[0])
      .slice(0, m)
      .map(([, p]) => p)
      .sort((a, b) => a - b),
  );
  const positions = Uint32Array.from(held.flatMap((row) => [...row, ...new Array<number>(n - row.length).fill(0)])),
    q = Float32Array.from({ length: H * w * d }, () => next() * 4 - 2),
    k = Float32Array.from({ length: G * n * d }, () => next() * 4 - 2);
  const valid = ragged ? ops.from({ data: Uint32Array.from(lengths), shape: [G] }, 'u32') : undefined;
  const ctx = {
    ops,
    at: at({ length, slots: n, kvHeads: G, queryHeads: H, headDim: d }),
    queries: ops.from({ data: q, shape: [H, w, d] }),
    keys: ops.from({ data: k, shape: [G, n, d] }, 'f32', valid),
    positions: ops.from({ data: positions, shape: [G, n] }, 'u32', valid),
  };
  const rows = Array.from({ length: H }, (_, h) => {
    const g = Math.floor(h / R);
    return Array.from({ length: w }, (_, i) =>
      attentionRow(ndarray(q, [H, w, d]).pick(h), ndarray(k, [G, n, d]).pick(g), held[g], length, i),
    );
  });
  return { ctx, H, lengths, rows };
}
const fold = (kind: 'sum' | 'max', rows: readonly (readonly number[])[]): number[] =>
  rows[0].map((_, j) => rows.map((row) => row[j]).reduce((a, b) => (kind === 'sum' ? a + b : Math.max(a, b))));

test.each([
  ['sum', 'query'],
  ['max', 'query'],
  ['sum', 'kv'],
  ['max', 'kv'],
] as const)('%s over the window on %s rows is that of the rows one by one, whatever the block', (kind, on) => {
  fc.assert(
    fc.property(cases, (c) => {
      const { ctx, H, lengths, rows } = windowOf(c),
        { G, R, n, w, block } = c,
        seen: number[] = [],
        count = on === 'query' ? H : G;
      const each = (b: WindowBlock) => {
        for (let i = 0; i < b.count; i++) seen.push(b.first + i);
        return blockAttention(ctx, b);
      };
      const got = overWindow(ctx, kind, count, each, block * H * n),
        { data, shape } = readCpu(got);
      expect(shape).toEqual([count, n]);
      expect(seen).toEqual(Array.from({ length: w }, (_, i) => ctx.at.length - w + i)); // each once, oldest first
      expect(lengthsOf(got)).toEqual(
        c.ragged ? Array.from({ length: count }, (_, r) => lengths[Math.floor((r * G) / count)]) : undefined,
      );
      for (let r = 0; r < count; r++)
        fold(kind, on === 'query' ? rows[r] : rows.slice(r * R, (r + 1) * R).flat()).forEach((x, j) =>
          expect(Math.abs(data[r * n + j] - x)).toBeLessThan(1e-5),
        );
    }),
    { numRuns: 60 },
  );
});
test("slots' biases multiply their weights before each row sums to 1 again", () => {
  fc.assert(
    fc.property(cases, (c) => {
      const { ctx, lengths, H, rows } = windowOf(c),
        { n, R } = c,
        next = numbers(c.seed + 1),
        own = Float32Array.from({ length: c.G * n }, () => next() * 6 - 3),
        { lengths: valid } = ctx.keys,
        biases = ops.from({ data: own, shape: [c.G, n] }, 'f32', valid),
        got = overWindow(ctx, 'sum', H, (b) => blockAttention({ ...ctx, at: { ...ctx.at, biased: true }, biases }, b));
      for (let h = 0; h < H; h++) {
        const g = Math.floor(h / R),
          weighed = rows[h].map((row) => {
            const by = row.map((x, j) => x * Math.exp(own[g * n + j])),
              total = by.slice(0, lengths[g]).reduce((a, b) => a + b, 0);
            return by.map((x) => x / total);
          });
        // a query that sees nothing has no weights to multiply
        if (rows[h].some((row) => new Set(row.slice(0, lengths[g])).size === 1)) continue;
        fold('sum', weighed).forEach((x, j) => expect(Math.abs(readCpu(got).data[h * n + j] - x)).toBeLessThan(1e-5));
      }
    }),
    { numRuns: 60 },
  );
});
test('without room given a block holds 2^22 numbers', () => {
  const counts: number[] = [],
    ctx = {
      ops,
      at: at(),
      queries: ops.from({ data: new Float32Array(2 * 7), shape: [2, 7, 1] }),
      keys: ops.from({ data: new Float32Array(2 ** 20), shape: [1, 2 ** 20, 1] }),
    };
  overWindow(ctx, 'sum', 2, ({ queries, count }) => {
    counts.push(count);
    return queries;
  });
  expect(counts).toEqual([2, 2, 2, 1]);
});
test('blocks hold as many queries as there is room for, one at least', () => {
  const { ctx, H } = windowOf({ G: 2, R: 2, n: 5, d: 3, w: 7, gone: 2, ragged: false, seed: 1 });
  const blocks = (room: number): number[] => {
    const counts: number[] = [];
    overWindow(
      ctx,
      'sum',
      H,
      (b) => {
        counts.push(b.count);
        return blockAttention(ctx, b);
      },
      room,
    );
    return counts;
  };
  expect([0, 4 * 5 * 3, 4 * 5 * 4 - 1, 4 * 5 * 7].map(blocks)).toEqual([
    [1, 1, 1, 1, 1, 1, 1],
    [3, 3, 1],
    [3, 3, 1],
    [7],
  ]);
});
