import fc from 'fast-check';
import ndarray from 'ndarray';
import { describe, expect, test } from 'vitest';
import { apply } from '@kv/cpu';
import { each, scene, sceneSpecs, scorerLaws } from '@kv/laws';
import type { Layer } from '@kv/laws';
import { qFilters, qFiltersFile, qfilter, queryDirections, readQFilters } from '../src/index.ts';
import type { QFilters } from '../src/index.ts';
import { qfilterOracle, stretch } from './keys.oracle.ts';

const own = ({ kvHeads, headDim }: Layer['at']): QFilters => ({
  kvHeads,
  headDim,
  filters: Float32Array.from({ length: kvHeads * headDim }, (_, i) => Math.sin(i + 1)),
});
describe('qfilter', () => {
  each(
    scorerLaws(qfilter(), { signals: (signal, { at }) => (signal.id === qFilters.id ? own(at) : undefined), runs: 40 }),
    test,
  );
});

test('agrees with the oracle', () => {
  fc.assert(
    fc.property(
      sceneSpecs({ layers: 1, ragged: false }).filter((s) => s.vectors !== 'long'),
      (spec) => {
        const { at, keys } = scene(spec).layers[0],
          { kvHeads: G, slots: n, headDim: d } = at,
          { filters } = own(at),
          got = apply(qfilter(), { keys: { data: keys, shape: [G, n, d] }, qFilters: own(at), at: { headDim: d } })
            .scores!.data;
        for (let g = 0; g < G; g++)
          qfilterOracle(
            ndarray(Float64Array.from(keys.subarray(g * n * d, (g + 1) * n * d)), [n, d]),
            ndarray(Float64Array.from(filters.subarray(g * d, (g + 1) * d)), [d]),
          ).forEach((x, i) => expect(got[g * n + i]).toBeCloseTo(x, 4));
      },
    ),
    { numRuns: 40 },
  );
});

describe('filters from queries', () => {
  const queries = fc
    .integer({ min: 1, max: 4 })
    .chain((d) =>
      fc.array(fc.array(fc.integer({ min: -9, max: 9 }), { minLength: d, maxLength: d }), {
        minLength: 1,
        maxLength: 6,
      }),
    )
    .filter((q) => q.flat().some((x) => x !== 0));
  test('no direction carries more of the queries, and their mean lies against it; blocks add up', () => {
    fc.assert(
      fc.property(
        queries,
        fc.array(fc.double({ min: -1, max: 1, noNaN: true }), { minLength: 4, maxLength: 4 }),
        fc.integer({ min: 1, max: 6 }),
        (q, other, cut) => {
          const d = q[0].length,
            each = queryDirections(1, 1, d);
          for (let from = 0; from < q.length; from += cut)
            each.add(Float32Array.from(q.slice(from, from + cut).flat()));
          const { filters } = each.take(),
            length = Math.hypot(...filters),
            along = q.reduce((sum, row) => sum + row.reduce((s, x, c) => s + x * filters[c], 0), 0);
          if (length === 0) {
            expect(Math.abs(along)).toBe(0);
            return;
          } // queries that cancel out have no direction
          expect(length).toBeCloseTo(1, 5);
          expect(along).toBeLessThanOrEqual(1e-5);
          const most = stretch(q, Array.from(filters)),
            else_ = Math.hypot(...other.slice(0, d));
          if (else_ > 1e-3)
            expect(
              stretch(
                q,
                other.slice(0, d).map((x) => x / else_),
              ),
            ).toBeLessThanOrEqual(most * (1 + 1e-5));
          const next = Array.from({ length: d }, (_, c) =>
              q.reduce((sum, row) => sum + row[c] * row.reduce((s, x, i) => s + x * filters[i], 0), 0),
            ),
            far = Math.hypot(...next);
          expect(
            stretch(
              q,
              next.map((x) => x / far),
            ),
          ).toBeLessThanOrEqual(most * (1 + 1e-6)); // a step of the power method gains nothing
          expect(most).toBeGreaterThanOrEqual(
            Math.max(
              ...Array.from({ length: d }, (_, c) =>
                stretch(
                  q,
                  Array.from({ length: d }, (__, i) => Number(i === c)),
                ),
              ),
            ) *
              (1 - 1e-5),
          );
        },
      ),
      { numRuns: 200 },
    );
  });
  test('a group has the mean of its heads', () => {
    const both = queryDirections(2, 1, 2);
    both.add(Float32Array.of(3, 0, 0, -2)); // one query a head
    expect(Array.from(both.take().filters)).toEqual([-0.5, 0.5]);
  });
  test('queries of nothing have no direction', () => {
    const none = queryDirections(1, 1, 2);
    none.add(new Float32Array(4));
    expect(Array.from(none.take().filters).map(Math.abs)).toEqual([0, 0]);
  });
});

describe('the file next to the model', () => {
  const row = (l: number): QFilters => ({ kvHeads: 2, headDim: 2, filters: Float32Array.of(l, 1, 2, 3) });
  test('is read back, a row a layer', async () => {
    const file = qFiltersFile([row(0), row(5)], { tokens: '9' });
    expect(readQFilters(file)).toEqual([row(0), row(5)]);
    expect(
      await qFilters.provide!(
        { artifact: async (name: string) => (name === 'q-filters.safetensors' ? file : undefined) } as never,
        1,
      ),
    ).toEqual(row(5));
    await expect(qFilters.provide!({ artifact: async () => undefined } as never, 0)).rejects.toThrow(
      "qfilter: expected q-filters.safetensors next to the model, got none: make it with 'node tools/calibrate.mjs MODEL'",
    );
    await expect(qFilters.provide!({ artifact: async () => file } as never, 2)).rejects.toThrow(
      'expected filters of layer 2, got 2 layers',
    );
  });
  test('of other shapes, or of another model, is refused', () => {
    const text = Buffer.from(qFiltersFile([row(0)]))
      .toString('latin1')
      .replace('[1,2,2]', '[4,1]  ');
    expect(() => readQFilters(Uint8Array.from(text, (c) => c.charCodeAt(0)))).toThrow(
      'expected filters [layers, KV heads, channels], got [4, 1]',
    );
    expect(() =>
      apply(qfilter(), { keys: { data: new Float32Array(3), shape: [1, 1, 3] }, qFilters: row(0), at: { headDim: 3 } }),
    ).toThrow('qfilter: expected filters of 1 KV heads with 3 channels, got 2 heads with 2');
  });
});
