import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { attend, lastAttention, LayerCache, Ledger, plainEngine, windowAttention, hostStore } from '@kv/engine';
import type { SlotVisibility, Store, RowEngine } from '@kv/engine';
import { biasedCases, cases, close, query } from '@kv/engine-testing/attention-cases';
import { outputs, probabilities, isUndecided, windowOracle } from '@kv/engine-testing/attention-oracle';
import type { Sees } from '@kv/engine-testing/attention-oracle';
import { heapRowEngine } from '../src/row-engine.ts';
import { heapStore } from '../src/store.ts';
import { modules } from './modules.ts';
import { drawSinks } from './sinks.ts';
import { ThreadPool } from '../src/thread-pool.ts';

const rowEngines: readonly (readonly [name: string, engine: RowEngine, store: Store])[] = [
  ...(await Promise.all(
    modules.map(async ([name, fast]) => {
      const pool = await ThreadPool.start(fast, 1, () => {});
      return [`module, ${name}`, heapRowEngine(pool), heapStore(pool)] as const;
    }),
  )),
  ['plain loops', plainEngine(), hostStore],
];

describe.each(rowEngines)('attention on the %s', (_, engine, store) => {
  test('of a cache in the memory of the module it is that of the same cache outside', () => {
    fc.assert(
      fc.property(biasedCases, ({ cache, q, queryPositions, H, n }) => {
        const inside = new LayerCache(cache.heads, cache.headDim, new Ledger(), { store });
        inside.restore([...cache.lengths], cache.slots());
        const of = (over: LayerCache): readonly Float32Array[] => {
          const stats = { stride: n, columnSum: new Float32Array(H * n), columnMax: new Float32Array(H * n) };
          return [attend({ q, queryPositions, cache: over, stats, engine }), stats.columnSum, stats.columnMax];
        };
        expect(of(inside)).toEqual(of(cache));
        inside.destroy();
      }),
      { numRuns: 60 },
    );
  });

  test('attend is the float64 softmax, with any mask, bound, sinks and biases', () => {
    fc.assert(
      fc.property(
        biasedCases,
        fc.constantFrom('none', 'one', 'kv', 'query'),
        fc.option(fc.integer({ min: 0, max: 250 })),
        fc.integer({ min: 0, max: 20 }),
        fc.infiniteStream(fc.boolean()),
        (one, kind, bound, sinks, bits) => {
          const { cache, heads, q, queryPositions, H, n } = one;
          const rows = { none: 0, one: 1, kv: cache.heads, query: H }[kind];
          const mask = Uint8Array.from({ length: rows * n }, () => (bits.next().value === true ? 1 : 0));
          const lower = (p: number): number => Math.floor((p * (bound ?? 0)) / 250);
          const sees: Sees = (slot, position, p, h, g) =>
            (rows === 0 || mask[(rows === 1 ? 0 : rows === H ? h : g) * n + slot] === 1) &&
            (bound === null || position < sinks || position >= lower(p));
          const visible: SlotVisibility = {
            sinks,
            ...(rows === 0 ? {} : { mask }),
            ...(bound === null ? {} : { lower }),
          };
          const want = probabilities(query(one), [...queryPositions], heads, sees);
          close(attend({ q, queryPositions, cache, visible, engine }), outputs(want, heads, cache.headDim).data);
        },
      ),
      { numRuns: 75 },
    );
  });

  test('scale, soft cap, learned sinks, biases and a view hold for the outputs, the statistics and the windows alike', () => {
    const option = (min: number, max: number) => fc.option(fc.double({ min, max, noNaN: true }), { nil: undefined });
    fc.assert(
      fc.property(
        biasedCases,
        option(0.05, 2),
        option(0.5, 50),
        fc.infiniteStream(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })),
        fc.integer({ min: 1, max: 100 }),
        (one, scale, softcap, random, window) => {
          const { cache, heads, q, queryPositions, H, n } = one,
            sinks = drawSinks(H, () => random.next().value as number),
            how = {
              ...(scale !== undefined && { scale }),
              ...(softcap !== undefined && { softcap }),
              ...(sinks && { sinks }),
            };
          const common = {
            queryPositions,
            cache,
            engine,
            ...how,
            visible: { lower: (p: number) => Math.max(0, p - window + 1) },
          };
          const want = probabilities(
            query(one),
            [...queryPositions],
            heads,
            (_, position, p) => position > p - window,
            how,
          );
          const mean = want.flatMap((rows) =>
            Array.from({ length: n }, (_, j) =>
              j < rows[0].shape[0] ? rows.reduce((sum, row) => sum + row.get(j), 0) / rows.length : 0,
            ),
          );
          const stats = { stride: n, columnSum: new Float32Array(H * n) };
          close(attend({ q, ...common, stats }), outputs(want, heads, cache.headDim).data);
          close(
            stats.columnSum.map((sum) => sum / queryPositions.length),
            mean,
          );
          close(windowAttention({ queries: q, ...common }), mean);
        },
      ),
      { numRuns: 60 },
    );
  });

  test('column sums and maxima are those of the float64 probabilities, and are added to', () => {
    fc.assert(
      fc.property(cases, fc.integer({ min: 0, max: 3 }), (one, slack) => {
        const { cache, heads, q, queryPositions, H, n } = one;
        const stride = n + slack;
        const stats = {
          stride,
          columnSum: new Float32Array(H * stride).fill(2),
          columnMax: new Float32Array(H * stride),
        };
        const counters = { fused: 0, statistics: 0 };
        attend({ q, queryPositions, cache, stats, engine, counters });
        expect(counters).toEqual({ fused: 1, statistics: 1 });
        const want = probabilities(query(one), [...queryPositions], heads);
        const column = (combine: (a: number, b: number) => number, start: number): number[] =>
          want.flatMap((rows) =>
            Array.from({ length: stride }, (_, j) =>
              rows.reduce((a, row) => (j < row.shape[0] ? combine(a, row.get(j)) : a), start),
            ),
          );
        close(
          stats.columnSum,
          column((a, b) => a + b, 2),
        );
        close(stats.columnMax, column(Math.max, 0));
      }),
      { numRuns: 60 },
    );
  });

  test('windowAttention is the mean of the rows, lastAttention the last one', () => {
    fc.assert(
      fc.property(cases, (one) => {
        const { cache, heads, q, queryPositions, n } = one;
        const counters = { fused: 0, statistics: 0 };
        const want = probabilities(query(one), [...queryPositions], heads);
        const per = (f: (rows: (typeof want)[number], j: number) => number): number[] =>
          want.flatMap((rows) => Array.from({ length: n }, (_, j) => (j < rows[0].shape[0] ? f(rows, j) : 0)));
        const common = { queries: q, queryPositions, cache, engine, counters };
        close(
          windowAttention(common),
          per((rows, j) => rows.reduce((sum, row) => sum + row.get(j), 0) / rows.length),
        );
        close(
          lastAttention(common),
          per((rows, j) => rows.at(-1)!.get(j)),
        );
        expect(counters).toEqual({ fused: 0, statistics: 2 });
      }),
      { numRuns: 60 },
    );
  });

  test('statistics of a window are those of the float64 probabilities, whatever hides slots', () => {
    const option = (min: number, max: number) => fc.option(fc.double({ min, max, noNaN: true }), { nil: undefined });
    fc.assert(
      fc.property(
        cases,
        option(0.5, 5),
        fc.integer({ min: 1, max: 100 }),
        fc.option(fc.infiniteStream(fc.boolean())),
        fc.constantFrom('squares', 'votes', 'normalized', 'entropy'),
        (one, softcap, window, bits, of) => {
          const { cache, heads, q, queryPositions, H, n } = one,
            how = {
              scale: 0.6,
              ...(softcap !== undefined && { softcap }),
              // sinks that leave some slots votes, and others none
              ...(bits === null && { sinks: Float32Array.from({ length: H }, (_, h) => [-3e38, -1, 2, 3e38][h % 4]) }),
            };
          const mask = bits === null ? undefined : Uint8Array.from({ length: H * n }, () => Number(bits.next().value));
          const sees: Sees = (slot, position, p, h) => position > p - window && mask?.[h * n + slot] !== 0;
          const got = windowAttention({
            queries: q,
            queryPositions,
            cache,
            engine,
            ...how,
            visible: [{ lower: (p) => Math.max(0, p - window + 1) }, ...(mask ? [{ mask }] : [])],
            of,
          });
          const want = probabilities(query(one), [...queryPositions], heads, sees, how).flatMap((all, h) => {
            const rows = all.map((row) => [...row.data]),
              g = Math.floor((h * heads.length) / H),
              { positions } = heads[g];
            const seen = Array.from(
              queryPositions,
              (p) =>
                positions.filter((position, j) => position === p || (position < p && sees(j, position, p, h, g)))
                  .length,
            );
            return Array.from({ length: n }, (_, j) =>
              j >= positions.length
                ? 0
                : of === 'votes' && isUndecided(rows, j, seen)
                  ? got[h * n + j]
                  : windowOracle[of](rows, j, seen),
            );
          });
          close(got, want);
        },
      ),
      { numRuns: 50 },
    );
  });

  test('keys alike get no votes, however many there are', () => {
    for (let n = 1; n <= 70; n++) {
      const cache = new LayerCache(1, 4, new Ledger()),
        at = Uint32Array.from({ length: n }, (_, i) => i);
      cache.append(new Float32Array(4 * n).fill(1), new Float32Array(4 * n), at);
      close(
        windowAttention({
          queries: new Float32Array(4 * n).fill(0.37),
          queryPositions: at,
          cache,
          engine,
          of: 'votes',
        }),
        new Float32Array(n),
      );
    }
  });

  test('scores of hundreds neither overflow nor drown the rest', () => {
    const cache = new LayerCache(1, 4, new Ledger());
    cache.append(
      Float32Array.of(100, 0, 0, 0, 99.9, 0, 0, 0, -100, 0, 0, 0),
      Float32Array.of(1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0),
      Uint32Array.of(0, 1, 2),
    );
    const out = attend({ q: Float32Array.of(20, 0, 0, 0), queryPositions: Uint32Array.of(2), cache, engine });
    close(out, [1 / (1 + Math.exp(-1)), 1 / (1 + Math.E), 0, 0]);
  });

  test('a query whose slots are all gone gets zeros, and a small cache after a large one sees nothing of it', () => {
    const large = new LayerCache(1, 8, new Ledger());
    large.append(
      new Float32Array(800).fill(NaN),
      new Float32Array(800).fill(NaN),
      Uint32Array.from({ length: 100 }, (_, i) => i),
    );
    attend({
      q: new Float32Array(800),
      queryPositions: Uint32Array.from({ length: 100 }, (_, i) => i),
      cache: large,
      engine,
    });
    const cache = new LayerCache(1, 8, new Ledger());
    cache.append(new Float32Array(24).fill(1), new Float32Array(24).fill(3), Uint32Array.of(5, 6, 7));
    const queryPositions = Uint32Array.of(4, 5, 6, 7, 8);
    const out = attend({ q: new Float32Array(40), queryPositions, cache, engine });
    close(out, [...Array<number>(8).fill(0), ...Array<number>(32).fill(3)]);
    close(
      attend({ q: new Float32Array(16), queryPositions: queryPositions.subarray(0, 2).map(() => 4), cache, engine }),
      Array<number>(16).fill(0),
    );
    cache.clear();
    close(
      attend({ q: new Float32Array(40), queryPositions, cache, engine, visible: { mask: new Uint8Array(0) } }),
      Array<number>(40).fill(0),
    );
  });
});

test('the fused path counts no statistics; misfits are one sentence', () => {
  const cache = new LayerCache(2, 4, new Ledger());
  cache.append(new Float32Array(8), new Float32Array(8), Uint32Array.of(0));
  const counters = { fused: 0, statistics: 0 };
  attend({ q: new Float32Array(16), queryPositions: Uint32Array.of(0), cache, counters });
  expect(counters).toEqual({ fused: 1, statistics: 0 });
  expect(() =>
    attend({ q: new Float32Array(12), queryPositions: Uint32Array.of(0), cache }),
  ).toThrowErrorMatchingInlineSnapshot(
    `[KvError: attend: queries must be [H, 1, 4] with H a multiple of 2, got 12 numbers]`,
  );
  expect(() =>
    attend({ q: new Float32Array(16), queryPositions: Uint32Array.of(0), cache, visible: { mask: new Uint8Array(3) } }),
  ).toThrowErrorMatchingInlineSnapshot(`[KvError: attend: a mask must have 1, 2 or 4 rows of 1 slots, got 3 numbers]`);
});
