import fc from 'fast-check';
import ndarray from 'ndarray';
import { expect, test } from 'vitest';
import { attentionLast, keys, KvError, positions, scorer, tokens } from '@kv/core';
import { apply } from '@kv/cpu';
import { eachChunk } from '../src/index.ts';

/** Distance of every key from the mean key, less where it stands: what both keys and places of a chunk change. */
const fromMean = scorer('fromMean', { needs: [keys, positions] }, ({ ops, keys: k, positions: p }) => {
  const one = ops.fill(ops.norm(k), 1),
    mean = ops.matmul(ops.simplex(one), k);
  return { scores: ops.sub(ops.distance(mean, k), ops.float(p)), forced: ops.less(p, 1) };
});
/** The same for keys in float64. */
const oracle = (vectors: readonly (readonly number[])[]): number[] => {
  const mean = vectors[0].map((_, c) => vectors.reduce((sum, v) => sum + v[c], 0) / vectors.length);
  return vectors.map((v, i) => Math.hypot(...v.map((x, c) => x - mean[c])) - i);
};

test('a sequence has at most 256 chunks, however short they are to be', () => {
  const lengths: number[] = [],
    first = scorer('first', { needs: [keys] }, ({ ops, at, keys: k }) => {
      lengths.push(at.length);
      return ops.norm(k);
    }),
    n = 1000;
  const data = Float32Array.from({ length: n }, (_, i) => i);
  apply(eachChunk(first(), { size: 1 }), { keys: ndarray(data, [1, n, 1]) });
  expect(lengths).toEqual([...new Array<number>(n / 4).fill(4)]);
});

const cases = fc
  .record({
    heads: fc.integer({ min: 1, max: 3 }),
    length: fc.integer({ min: 1, max: 17 }),
    size: fc.integer({ min: 1, max: 20 }),
  })
  .chain(({ heads, length, size }) =>
    fc.record({
      size: fc.constant(size),
      vectors: fc.array(
        fc.array(fc.tuple(fc.integer({ min: -9, max: 9 }), fc.integer({ min: -9, max: 9 })), {
          minLength: length,
          maxLength: length,
        }),
        { minLength: heads, maxLength: heads },
      ),
      gone: fc.array(fc.nat(length), { maxLength: 6 }),
    }),
  );
test('scores are those of each chunk by itself, of what is left of it too', () => {
  fc.assert(
    fc.property(cases, ({ size, vectors, gone }) => {
      const length = vectors[0].length,
        left = Array.from({ length }, (_, p) => p).filter((p) => !gone.includes(p)),
        [G, n] = [vectors.length, left.length];
      fc.pre(n > 0);
      const { data } = apply(eachChunk(fromMean(), { size }), {
        keys: ndarray(Float32Array.from(vectors.flatMap((head) => left.flatMap((p) => head[p]))), [G, n, 2]),
        positions: Array.from({ length: G }, () => left),
        at: { length, aligned: true },
      }).scores!;
      vectors.forEach((head, g) => {
        for (let start = 0; start < length; start += size) {
          const own = left.filter((p) => p >= start && p < start + size);
          if (own.length === 0) continue;
          const scores = oracle(own.map((p) => head[p])).map((x, i) => x + i - (own[i] - start)); // by positions
          scores.forEach((x, i) => {
            const want = own[i] === start ? Math.max(...scores) + 1 : x;
            expect(data[g * n + left.indexOf(own[i])]).toBeCloseTo(want, 4);
          });
        }
      });
    }),
  );
});
test('a chunk as long as the sequence is the scorer itself, what it forces first', () => {
  const k = ndarray(Float32Array.of(0, 1, 1, 0, 2, 2, 3, 1, 0, 5), [1, 5, 2]),
    plain = oracle([
      [0, 1],
      [1, 0],
      [2, 2],
      [3, 1],
      [0, 5],
    ]);
  plain[0] = Math.max(...plain) + 1;
  const of = (size: number): number[] => [...apply(eachChunk(fromMean(), { size }), { keys: k }).scores!.data];
  of(5).forEach((x, i) => expect(x).toBeCloseTo(plain[i], 5));
  expect(of(2)).not.toEqual(of(5));
});
test("a chunk's tokens are its own: ids, text and offsets", () => {
  const seen: unknown[] = [];
  const look = scorer('look', { needs: [tokens] }, ({ ops, at, tokens: t }) => {
    seen.push([[...t.ids], t.text, [...t.offsets], at.length, at.promptLength]);
    return ops.from({ data: new Float32Array(at.slots), shape: [1, at.slots] });
  });
  apply(eachChunk(look(), { size: 2 }), {
    tokens: {
      ids: [5, 6, 7],
      text: 'ab cd',
      offsets: [
        [0, 1],
        [1, 3],
        [3, 5],
      ],
    },
    at: { promptLength: 1 },
  });
  expect(seen).toEqual([
    [
      [5, 6],
      'ab ',
      [
        [0, 1],
        [1, 3],
      ],
      2,
      1,
    ],
    [[7], 'cd', [[0, 2]], 1, 0],
  ]);
});
test('what a chunk has not by itself is refused', () => {
  const attended = scorer('attended', { needs: [attentionLast] }, ({ attention }) => attention);
  expect(() => eachChunk(attended())).toThrow(
    new KvError(
      'eachChunk',
      "'attended' reads attention.last, expected a scorer of keys, values, positions and tokens, which a chunk has by itself",
    ),
  );
});
