import fc from 'fast-check';
import ndarray from 'ndarray';
import { expect, test } from 'vitest';
import { apply } from '@kv/cpu';
import { scene, sceneSpecs } from '@kv/laws';
import type { Layer } from '@kv/laws';
import { h2o, meanAttention, snapkv, streaming, tova } from '../src/index.ts';
import { groupMeanOracle, observedOracle, snapkvOracle, tovaOracle } from './attention.oracle.ts';
import type { Row } from './attention.oracle.ts';
import { onLayer, rows } from './on-layer.ts';

/** f32 storage of f64 sums: half an ulp, relative. */
const TOLERANCE = 1e-7;
const near = (got: readonly (readonly number[])[], want: readonly Row[]): void => {
  expect(got.map((r) => r.length)).toEqual(want.map((r) => r.shape[0]));
  got.forEach((row, r) =>
    row.forEach((x, i) =>
      expect(Math.abs(x - want[r].get(i))).toBeLessThanOrEqual(TOLERANCE * Math.abs(want[r].get(i)) + 1e-37),
    ),
  );
};
const onLayers = (check: (layer: Layer, attention: readonly Row[], positions: readonly Row[]) => void): void =>
  fc.assert(
    fc.property(sceneSpecs({ layers: 1 }), (spec) => {
      const layer = scene(spec).layers[0],
        { at, lengths } = layer;
      const split = (data: ArrayLike<number>, count: number): Row[] =>
        Array.from({ length: count }, (_, r) => {
          const n = lengths[Math.floor((r * lengths.length) / count)];
          return ndarray(
            Float64Array.from({ length: n }, (_, i) => data[r * at.slots + i]),
            [n],
          );
        });
      check(layer, split(layer.attention, at.queryHeads), split(layer.positions, at.kvHeads));
    }),
  );
/** Slots that a mask forces, row by row. */
const forced = (layer: Layer, piece: Parameters<typeof onLayer>[0]): number[][] =>
  rows(onLayer(piece, layer).forced!).map((row) => row.flatMap((on, i) => (on ? [i] : [])));

test('SnapKV agrees with its oracle, and its window is forced', () => {
  const options = fc.record({
    window: fc.integer({ min: 1, max: 14 }),
    kernel: fc.constantFrom(1, 3, 5, 7),
    pooling: fc.constantFrom('mean', 'max'),
  });
  fc.assert(
    fc.property(options, (given) => {
      onLayers((layer, attention) => {
        near(
          rows(onLayer(snapkv(given), layer).scores!),
          attention.map((row) => snapkvOracle(row, given)),
        );
        forced(layer, snapkv(given)).forEach((set, h) => {
          const n = attention[h].shape[0];
          expect(set).toEqual(
            Array.from({ length: Math.min(n, given.window) }, (_, i) => Math.max(0, n - given.window) + i),
          );
        });
      });
    }),
    { numRuns: 12 },
  );
});

test('SnapKV divides by the whole kernel at the ends: [4, 0, 0, 0, 4] pooled over 5', () => {
  const pooled = apply(snapkv({ window: 1 }), { attention: [[4, 0, 0, 0, 4, 9]] }).scores!.data;
  [0.8, 0.8, 1.6, 0.8, 0.8, 9].forEach((want, i) => expect(pooled[i]).toBeCloseTo(want, 6));
});

test('TOVA agrees with its oracle: one mean a position, whichever head holds it', () => {
  onLayers((layer, attention, positions) => {
    const got = rows(onLayer(tova(), layer).scores!),
      want = tovaOracle(attention, positions);
    near(got, got.length === 1 ? want.slice(0, 1) : want);
  });
});

test('observed attention agrees with its oracle', () => {
  onLayers((layer, attention, positions) =>
    near(
      rows(onLayer(meanAttention(), layer).scores!),
      attention.map((row, h) =>
        observedOracle(row, positions[Math.floor((h * positions.length) / attention.length)], layer.at.length),
      ),
    ),
  );
});

test('H2O is the accumulated attention, with its recent slots forced', () => {
  onLayers((layer, attention) => {
    near(rows(onLayer(h2o(), layer).scores!), attention);
    forced(layer, h2o({ recent: 0.5 })).forEach((set, h) =>
      expect(set.length).toBe(Math.min(attention[h].shape[0], Math.floor(layer.at.budget / 2))),
    );
    forced(layer, h2o({ recent: 2 })).forEach((set, h) => {
      const n = attention[h].shape[0];
      expect(set).toEqual(n > 1 ? [n - 2, n - 1] : [0]);
    });
  });
});

test('of sums by KV head both are the mean over the group', () => {
  onLayers((layer, attention, positions) => {
    const close = (got: readonly (readonly number[])[], want: readonly Row[]): void => {
      expect(got.map((r) => r.length)).toEqual(want.map((r) => r.shape[0]));
      got.forEach((row, r) =>
        row.forEach((x, i) =>
          expect(Math.abs(x - want[r].get(i))).toBeLessThanOrEqual(4 * TOLERANCE * Math.abs(want[r].get(i)) + 1e-37),
        ),
      );
    };
    const group = attention.length / positions.length,
      kvHeads = positions.length;
    close(rows(onLayer(h2o({ rows: 'kv' }), layer).scores!), groupMeanOracle(attention, kvHeads));
    close(
      rows(onLayer(meanAttention({ rows: 'kv' }), layer).scores!),
      groupMeanOracle(
        attention.map((row, h) => observedOracle(row, positions[Math.floor(h / group)], layer.at.length)),
        kvHeads,
      ),
    );
    expect(forced(layer, h2o({ recent: 2, rows: 'kv' }))).toEqual(
      forced(layer, h2o({ recent: 2 })).filter((_, h) => h % group === 0),
    );
  });
});

test('StreamingLLM scores by position and forces the sinks that are left', () => {
  onLayers((layer, _, positions) => {
    near(rows(onLayer(streaming({ sinks: 2 }), layer).scores!), positions);
    forced(layer, streaming({ sinks: 2 })).forEach((set, g) =>
      expect(set).toEqual(Array.from(positions[g].data).flatMap((p, i) => (p < 2 ? [i] : []))),
    );
  });
});
