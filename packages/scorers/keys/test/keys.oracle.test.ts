import fc from 'fast-check';
import ndarray from 'ndarray';
import ops from 'ndarray-ops';
import { expect, test } from 'vitest';
import { apply, cpu } from '@kv/cpu';
import { scene, sceneSpecs } from '@kv/laws';
import { cur, keydiff, lagkv, lagSpread } from '../src/index.ts';
import { anchorOf, curOracle, keydiffOracle, lagkvOracle } from './keys.oracle.ts';
import type { Row, Vectors } from './keys.oracle.ts';

interface Case {
  readonly keys: Vectors[];
  readonly values: Vectors[];
  readonly positions: number[][];
  got(piece: Parameters<typeof apply>[0]): Float32Array;
  readonly slots: number;
}
const onCases = (check: (c: Case) => void, slots: number): void =>
  fc.assert(
    fc.property(sceneSpecs({ ragged: false, layers: 1, slots }), (spec) => {
      const { at, keys, values, positions } = scene(spec).layers[0],
        shape = [at.kvHeads, at.slots, at.headDim];
      const heads = (data: Float32Array): Vectors[] =>
        at.kvHeads === 0
          ? []
          : Array.from({ length: at.kvHeads }, (_, g) => ndarray(Float64Array.from(data), shape).pick(g, null, null));
      const placed = Array.from({ length: at.kvHeads }, (_, g) =>
        Array.from(positions.subarray(g * at.slots, (g + 1) * at.slots)),
      );
      check({
        keys: heads(keys),
        values: heads(values),
        positions: placed,
        slots: at.slots,
        got: (piece) =>
          apply(piece, {
            keys: { data: keys, shape },
            values: { data: values, shape },
            positions: placed,
            at: { headDim: at.headDim },
          }).scores!.data as Float32Array,
      });
    }),
    { numRuns: 40 },
  );
function near(got: Float32Array, want: readonly Row[], tolerance: number): void {
  want.forEach((row, g) => {
    for (let i = 0; i < row.shape[0]; i++)
      expect(Math.abs(got[g * row.shape[0] + i] - row.get(i))).toBeLessThanOrEqual(tolerance);
  });
}

test('KeyDiff agrees with its oracle, where unit keys do not cancel out', () =>
  onCases(({ keys, slots, got }) => {
    const all = got(keydiff());
    keys.forEach((k, g) => {
      if (ops.norm2(anchorOf(k)) > 1e-2) near(all.subarray(g * slots, (g + 1) * slots), [keydiffOracle(k)], 1e-4);
    });
  }, 20));
test.each([255, 256, 257, 600])('KeyDiff of %i slots, within and beyond what a workgroup adds up', (n) => {
  const data = Float32Array.from({ length: 2 * n * 3 }, (_, i) => Math.sin(i * i) + 0.2),
    got = apply(keydiff(), { keys: { data, shape: [2, n, 3] } }).scores!.data as Float32Array;
  [0, 1].forEach((g) =>
    near(
      got.subarray(g * n, (g + 1) * n),
      [keydiffOracle(ndarray(Float64Array.from(data.subarray(g * n * 3, (g + 1) * n * 3)), [n, 3]))],
      1e-6,
    ),
  );
});
test('keys all alike score -1, and a key of length 0 scores 0', () => {
  const keys = { data: Float32Array.of(1, 2, 2, 4, 0, 0), shape: [1, 3, 2] };
  Array.from(apply(keydiff(), { keys }).scores!.data).forEach((s, i) => expect(s).toBeCloseTo([-1, -1, 0][i], 6));
});

const curOptions = [
  { sinks: 4, window: 16, of: 'product' },
  { sinks: 0, window: 3, of: 'mean' },
  { sinks: 1, window: 5, of: 'key' },
  { sinks: 2, window: 1, of: 'value' },
] as const;
test.each(curOptions)('CUR agrees with its oracle: %o', (options) =>
  onCases(
    ({ keys, values, positions, got }) =>
      near(
        got(cur(options)),
        keys.map((k, g) => curOracle(k, values[g], positions[g], options)),
        1e-6,
      ),
    20,
  ),
);

test.each([
  { sinks: 4, lag: 128, cross: false },
  { sinks: 1, lag: 3, cross: true },
  { sinks: 0, lag: 4, cross: true },
])('LagKV agrees with its oracle: %o', (options) =>
  onCases(
    ({ keys, values, got }) =>
      near(
        got(lagkv(options)),
        keys.map((k, g) => lagkvOracle(k, values[g], options)),
        1e-5,
      ),
    20,
  ),
);

test('LagKV ranks within partitions what it compares across them with `cross`, ties to the lower slot', () =>
  onCases(({ keys, values, slots, got }) => {
    const soft = got(lagkv({ sinks: 1, lag: 3, cross: true })),
      ranked = got(lagkv({ sinks: 1, lag: 3 }));
    keys.forEach((_, g) => {
      for (let from = 1; from + 6 <= slots; from += 3) {
        const part = [0, 1, 2].map((i) => soft[g * slots + from + i]),
          beats = (i: number): number => part.filter((s, j) => s < part[i] || (s === part[i] && j > i)).length;
        [0, 1, 2].forEach((i) => expect(ranked[g * slots + from + i]).toBeCloseTo(beats(i) / 3, 6));
      }
    });
    expect(values.length).toBe(keys.length);
  }, 20));

test('the spread of LagKV divides by d - 1', () => {
  // partitions of one sink, of 2 slots and 1; then of 1 each
  const x = cpu.ops.from({ data: Float32Array.of(0, 1, 0, 0, 0, 0, 1, 1, 1), shape: [1, 3, 3] });
  expect(
    Array.from((cpu.ops.kernel(lagSpread, { x }, { lag: 2, sinks: 0 }) as unknown as { data: Float32Array }).data),
  ).toEqual([0, 0]);
  const next = cpu.ops.from({ data: Float32Array.of(9, 9, 9, 0, 1, 0, 0, 1, 0, 0, 0, 0, 1, 1, 1), shape: [1, 5, 3] });
  Array.from(
    (cpu.ops.kernel(lagSpread, { x: next }, { lag: 2, sinks: 1 }) as unknown as { data: Float32Array }).data,
  ).forEach((spread) => expect(spread).toBeCloseTo(Math.sqrt(1 / 3), 6)); // 0 1 0: mean 1/3, squares 2/3 over 2
});
