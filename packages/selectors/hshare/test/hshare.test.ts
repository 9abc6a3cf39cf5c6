import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compose, mandatory, scorer, view } from '@kv/core';
import { cpu, readCpu } from '@kv/cpu';
import { compile, isState } from '@kv/core/engine';
import { sumOf } from '@kv/core/shared';
import type { Piece, Signal, Tensor, ViewHook } from '@kv/core';
import { each, kernelLaws, sharingLaws, viewLoopLaws } from '@kv/laws';
import { queryKeyProducts } from '@kv/selectors-cis';
import { topK } from '@kv/selectors-top-k';
import { layerOverlaps, leaders, listKernel, ofLayer, overlaps, rowsOfLeaders, sharedSets } from '../src/index.ts';
import { hshareOracle } from './hshare.oracle.ts';

describe('sharedSets', () => {
  each(
    sharingLaws(
      (threshold) =>
        threshold > 1
          ? sharedSets({ query: 1, heads: 0, layers: 0 })
          : sharedSets({ query: 2, heads: 0.7, layers: 0.7, measure: 1, sinks: 1, local: 1 }),
      { runs: 30 },
    ),
    test,
  );
});
describe.each([
  { query: 3, heads: 0.6, layers: 0.7, measure: 1, local: 7 }, // beyond what is forced: sets differ in size
  { query: 2, heads: 1, layers: 0, measure: 2 },
  { query: 3, heads: 0, layers: 0 },
])('loop of sharedSets, %j', (options) => {
  const inner = compose(queryKeyProducts(), mandatory({ sinks: 2, recent: 4 }), topK());
  const policy = view(compose(inner, sharedSets({ sinks: 2, local: 4, ...options })), { budget: 30 });
  each(viewLoopLaws(policy, { runs: 5, slots: 60 }), test);
});
/** 1 or 0. */
const flag = (seed: number) => ({ data: Float32Array.of(seed % 2), shape: [1, 1] });
const square = ({ rows, seed }: { readonly rows: number; readonly seed: number }) => ({
  data: Float32Array.from({ length: rows * rows }, (_, i) => (i * 7 + seed) % 5),
  shape: [rows, rows],
});
describe('overlaps', () => {
  each(
    kernelLaws(overlaps, {
      make: ({ rows, slots, seed }) => ({
        inputs: {
          sets: {
            data: Float32Array.from({ length: rows * slots }, (_, i) => (i * 5 + seed) % 2),
            shape: [rows, slots],
          },
          before: square({ rows, seed }),
          wanted: flag(seed),
        },
      }),
    }),
    test,
  );
});
describe('leaders', () => {
  each(
    kernelLaws(leaders, {
      make: (size) => ({
        inputs: {
          overlap: square(size),
          before: { data: Float32Array.from({ length: size.rows }, (_, h) => -h), shape: [size.rows, 1] },
          wanted: flag(size.seed),
        },
        params: { share: 2 },
      }),
    }),
    test,
  );
});
describe('rows', () => {
  each(
    kernelLaws(rowsOfLeaders, {
      make: ({ rows, slots, seed }) => ({
        inputs: {
          sets: { data: Float32Array.from({ length: rows * slots }, (_, i) => (i + seed) % 3), shape: [rows, slots] },
          leader: { data: Float32Array.from({ length: rows }, (_, r) => Math.floor(r / 2)), shape: [rows, 1] },
        },
      }),
    }),
    test,
  );
});

/** Lists of up to three entries a head, of two layers. */
const lists = ({ rows, slots, seed }: { readonly rows: number; readonly slots: number; readonly seed: number }) => ({
  data: Float32Array.from({ length: 6 * rows }, (_, i) => {
    const k = i % 3,
      at = 1 + 2 * k;
    return k < (seed + Math.floor(i / 3)) % 4 && at <= slots ? at : 0;
  }),
  shape: [1, 6 * rows],
});
const marks = ({ rows, slots, seed }: { readonly rows: number; readonly slots: number; readonly seed: number }) => ({
  data: Float32Array.from({ length: rows * slots }, (_, i) => (i * 5 + seed) % 2),
  shape: [rows, slots],
});
describe('listed', () => {
  each(
    kernelLaws(listKernel, {
      make: (size) => ({
        inputs: {
          list: {
            data: Uint32Array.from({ length: size.rows * size.slots }, (_, i) => i % Math.max(1, size.slots)),
            shape: [size.rows, size.slots],
          },
          count: {
            data: Float32Array.from({ length: size.rows }, (_, h) => Math.min(size.slots, (h + size.seed) % 4)),
            shape: [size.rows, 1],
          },
          before: lists(size),
          wanted: flag(size.seed),
        },
        params: { layer: 1, width: 3 },
      }),
    }),
    test,
  );
});
describe('layerOverlaps', () => {
  each(
    kernelLaws(layerOverlaps, {
      make: (size) => ({
        inputs: {
          sets: marks(size),
          lists: lists(size),
          before: { data: Float32Array.of(0, 1, 2, 3), shape: [1, 4] },
          wanted: flag(size.seed),
        },
        params: { layer: 1, layers: 2, width: 3 },
      }),
    }),
    test,
  );
});
describe('ofLayer', () => {
  each(
    kernelLaws(ofLayer, {
      make: (size) => ({
        inputs: {
          lists: lists(size),
          offset: { data: Float32Array.of(-(size.seed % 2)), shape: [1, 1] },
          sets: marks(size),
        },
        params: { layer: 1, width: 3 },
      }),
    }),
    test,
  );
});

const given: Signal<'given'> = { id: 'given', as: 'given', cost: 'free' };
const noise =
  (seed: number) =>
  (i: number): number => {
    const x = Math.sin(seed * 12.9898 + i * 78.233) * 43758.5453;
    return Math.fround(x - Math.floor(x));
  };
const cases = fc.record({
  L: fc.integer({ min: 1, max: 4 }),
  H: fc.integer({ min: 1, max: 4 }),
  query: fc.integer({ min: 1, max: 4 }),
  heads: fc.constantFrom(0, 0.4, 0.8, 1),
  layers: fc.constantFrom(0, 0.4, 0.8, 1),
  measure: fc.nat(4),
  sinks: fc.nat(2),
  local: fc.integer({ min: 1, max: 3 }),
  middle: fc.nat(5),
  size: fc.integer({ min: 3, max: 15 }),
  steps: fc.integer({ min: 1, max: 9 }),
  gaps: fc.array(fc.constantFrom(0, 0, 0, 1, 4), { minLength: 9, maxLength: 9 }), // tokens of others before a step
  first: fc.integer({ min: 1, max: 20 }), // tokens generated at the first step
  seed: fc.integer({ min: 1, max: 9999 }),
});
interface Decoded {
  readonly L: number;
  readonly H: number;
  readonly sizes: readonly number[];
  readonly scores: readonly (readonly (readonly (readonly number[])[])[])[];
  readonly budget: number;
  readonly first?: number;
}
/**
 * Decodes with the policy in a view, layer after layer: what each step sees, `[step][layer][head]`, and all retrievals.
 */
function decode(inner: Piece<'start', 'kept'>, { L, H, sizes, scores, budget, first = 1 }: Decoded) {
  const hook = compile(view(inner, { budget })).hooks('view')[0] as ViewHook,
    states = new Map<string, Tensor>(),
    { ops } = cpu;
  const seen = sizes.map((n, i) =>
    Array.from({ length: L }, (_, layer) => {
      const at = {
        layer,
        layers: L,
        queryHeads: H,
        kvHeads: 1,
        headDim: 1,
        step: first + i,
        promptLength: sizes[0] - 1,
        length: n,
        slots: n,
        aligned: true,
        budget,
        selectRows: H,
      };
      const key = (signal: { id: string }): string =>
        (signal as { state?: { rows: string } }).state?.rows === 'model' ? signal.id : `${signal.id}/${layer}`;
      const { mask, state } = hook.run({
        at,
        ops,
        draft: { budgets: ops.from({ data: [budget], shape: [1, 1] }), state: new Map(), checks: [] },
        read: <V>(signal: { id: string }): V => {
          if (isState(signal as never)) {
            const { rows, kind } = (signal as never as { state: { rows: string; kind: string } }).state,
              R = rows === 'query' ? H : 1,
              old = states.get(key(signal)),
              wide = kind === 'position' ? n : (old?.shape[1] ?? 1),
              data = new Float32Array(R * wide);
            if (old) {
              const from = readCpu(old);
              for (let h = 0; h < R; h++)
                data.set(from.data.subarray(h * from.shape[1], (h + 1) * from.shape[1]), h * wide);
            }
            return ops.from({ data, shape: [R, wide] }) as V;
          }
          if (signal.id === 'given')
            return ops.from({ data: Float32Array.from(scores[i][layer].flat()), shape: [H, n] }) as V;
          return ops.from({ data: Uint32Array.from({ length: n }, (_p, p) => p), shape: [1, n] }, 'u32') as V;
        },
      });
      for (const [id, tensor] of state ?? []) states.set(key(hook.needs.find((s) => s.id === id)!), tensor);
      const bits = readCpu(mask!).data;
      return Array.from({ length: H }, (_h, h) =>
        Array.from({ length: n }, (_p, p) => p).filter((p) => bits[h * n + p] !== 0),
      );
    }),
  );
  const retrievals = [...states]
    .filter(([id]) => id.startsWith('state.hshare.retrievals'))
    .flatMap(([, t]) => Array.from(readCpu(t).data))
    .reduce((a, b) => a + b, 0);
  return { seen, retrievals };
}
/** Scores that wander from head to head, layer to layer and step to step, so that some overlap more than others. */
const wandering = ({
  L,
  H,
  sizes,
  seed,
}: Pick<Decoded, 'L' | 'H' | 'sizes'> & { readonly seed: number }): Decoded['scores'] =>
  sizes.map((n, i) =>
    Array.from({ length: L }, (_, l) =>
      Array.from({ length: H }, (_h, h) =>
        Array.from({ length: n }, (_p, p) =>
          Math.fround(
            noise(seed)(p) +
              0.4 * noise(seed + h + 7 * i)(p) +
              0.4 * noise(seed + 31 * (l % 2))(p) +
              0.2 * noise(seed + 53 * l + i)(p),
          ),
        ),
      ),
    ),
  );
const whole = (options: { readonly sinks: number; readonly local: number }): Piece<'start', 'kept', 'given'> =>
  compose(
    scorer('given', { needs: [given] }, ({ given: g }) => g)(),
    mandatory({ sinks: options.sinks, recent: options.local }),
    topK(),
  ) as never;

test('agrees with the oracle over generated tokens: what every head of every layer sees, and what it retrieved', () => {
  fc.assert(
    fc.property(cases, ({ L, H, middle, size, steps, gaps, first, seed, ...options }) => {
      const budget = options.sinks + options.local + middle,
        sizes = Array.from({ length: steps }, (_, i) => size + 1 + i + sumOf(gaps.slice(0, i))),
        scores = wandering({ L, H, sizes, seed });
      expect(decode(compose(whole(options), sharedSets(options)), { L, H, sizes, scores, budget, first })).toEqual(
        hshareOracle(scores, sizes, { ...options, budget }),
      );
    }),
    { numRuns: 150 },
  );
});
test('no head or layer shared and one token a retrieval: what the policy inside keeps', () => {
  fc.assert(
    fc.property(cases, ({ L, H, middle, size, steps, seed, sinks, local }) => {
      const run = {
          L,
          H,
          budget: sinks + local + middle,
          sizes: Array.from({ length: steps }, (_, i) => size + 1 + i),
        },
        scores = wandering({ ...run, seed });
      const got = decode(
        compose(whole({ sinks, local }), sharedSets({ query: 1, heads: 0, layers: 0, sinks, local })),
        { ...run, scores },
      );
      expect(got).toEqual({
        seen: decode(whole({ sinks, local }), { ...run, scores }).seen,
        retrievals: L * H * steps,
      });
    }),
    { numRuns: 40 },
  );
});
test('layers alone: of four, two pairs alike, the second of each pair retrieves nothing once overlap is known', () => {
  const L = 4,
    H = 2,
    sizes = Array.from({ length: 6 }, (_, i) => 20 + i),
    like = [0, 1, 0, 1],
    rows = (n: number, i: number) =>
      Array.from({ length: L }, (_, l) =>
        Array.from({ length: H }, (_h, h) =>
          Array.from({ length: n }, (_p, p) => noise(99 + like[l] + 2 * h + 10 * i)(p)),
        ),
      );
  const options = { query: 1, heads: 0, layers: 0.5, measure: 2, sinks: 1, local: 2 },
    { seen, retrievals } = decode(compose(whole(options), sharedSets(options)), {
      L,
      H,
      sizes,
      scores: sizes.map(rows),
      budget: 8,
    });
  expect(retrievals).toBe(2 * L * H + 4 * 2 * H);
  for (const layers of seen) {
    expect(layers[2]).toEqual(layers[0]);
    expect(layers[3]).toEqual(layers[1]);
    expect(layers[1]).not.toEqual(layers[0]);
  }
});
test('greedy sharing by hand: 3 uses 1, then 2 uses 0; a chain ends at its last head', () => {
  const run = (rows: number[][], share: number): number[] =>
    Array.from(
      readCpu(
        cpu.ops.kernel(
          leaders,
          {
            overlap: cpu.ops.from({ data: Float32Array.from(rows.flat()), shape: [rows.length, rows.length] }),
            before: cpu.ops.from({ data: new Float32Array(rows.length), shape: [rows.length, 1] }),
            wanted: cpu.ops.from({ data: [1], shape: [1, 1] }),
          },
          { share },
        ),
      ).data,
      (offset, h) => h + offset,
    );
  const overlap = [
    [0, 0, 0, 0],
    [1, 0, 0, 0],
    [5, 4, 0, 0],
    [2, 9, 3, 0],
  ];
  expect(run(overlap, 1)).toEqual([0, 1, 2, 1]);
  expect(run(overlap, 2)).toEqual([0, 1, 0, 1]);
  expect(run(overlap, 3)).toEqual([0, 0, 0, 0]);
});
test.each([
  ['query', { query: 0 }],
  ['heads', { heads: 1.1 }],
  ['layers', { layers: -0.1 }],
  ['measure', { measure: -1 }],
  ['sinks', { sinks: 0.5 }],
])('%s is checked', (name, options) => {
  expect(() => sharedSets(options)).toThrow(`sharedSets: ${name} must be`);
});
