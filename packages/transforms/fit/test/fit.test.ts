import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { LayerContext, PlacedQueries, Rope } from '@kv/core';
import { compile, emptyDraft, traceOps } from '@kv/core/engine';
import { mulberry, range } from '@kv/core/shared';
import { cpu, readCpu } from '@kv/cpu';
import { each, kernelLaws, refitLaws } from '@kv/laws';
import type { RefitReference } from '@kv/laws';
import { fitOracle } from './fit.oracle.ts';
import { dualEquations, fit, intoSlots, referenceLogits, repeatedQueries, solved, spread } from '../src/index.ts';

const numbers = (count: number, by: number): Float32Array =>
  Float32Array.from({ length: count }, (_, i) => Math.sin(i * by));
const params: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  [referenceLogits.id]: { scale: 0.5, cap: 4, window: 3 },
  [solved.id]: { ridge: 0.01 },
};
/** Two queries of each row's KV head, and equations that can be solved. */
const make = ({ rows, slots, lengths }: { rows: number; slots: number; lengths?: readonly number[] | undefined }) => {
  const [m, c] = [2, 3],
    equations = numbers(rows * m * (m + c), 3),
    counts = Array.from({ length: rows }, (_, g) => Math.ceil((lengths?.[g] ?? slots) / 2));
  for (let g = 0; g < rows; g++) {
    const at = g * m * (m + c);
    [equations[at], equations[at + m + c + 1], equations[at + m + c]] = [2, 2, equations[at + 1]];
  }
  return {
    q: { data: numbers(rows * m * 2, 5), shape: [rows, m, 2] },
    t: { data: Uint32Array.of(2, 3), shape: [1, m] },
    k: { data: numbers(rows * slots * 2, 7), shape: [rows, slots, 2], lengths },
    p: { data: Uint32Array.from({ length: rows * slots }, (_, i) => i % slots), shape: [rows, slots], lengths },
    b: { data: numbers(rows * slots, 2), shape: [rows, slots], lengths },
    x: { data: numbers(rows * slots, 5), shape: [rows, slots], lengths },
    r: { data: numbers(rows * c, 11), shape: [rows, c] },
    a: { data: equations, shape: [rows, m, m + c] },
    alpha: { data: numbers(rows * (1 + c), 13), shape: [rows, 1, 1 + c] },
    like: { data: new Float32Array(rows * slots), shape: [rows, slots], lengths },
    kept: { data: Uint32Array.from({ length: rows * slots }, (_, i) => 2 * (i % slots)), shape: [rows, slots] },
    counts: { data: Float32Array.from(counts), shape: [rows, 1] },
  };
};
describe.each([referenceLogits, dualEquations, solved, spread, intoSlots])('$id', (kernel) => {
  each(
    kernelLaws(kernel, {
      runs: 15,
      make: (size) => ({
        inputs: Object.fromEntries(Object.keys(kernel.inputs).map((name) => [name, make(size)[name as 'x']])),
        params: { heads: size.rows, ...params[kernel.id] },
      }),
    }),
    test,
  );
});

describe.each([
  fit({ queries: 4 }),
  fit({ queries: 1, ridge: 1e-6 }),
  fit({ queries: 6, values: false, bound: 0.5 }),
  fit({ queries: 3, mass: false }),
])('$label', (piece) => each(refitLaws(piece, { runs: 100 }), test));

/** Rotary frequencies of channels: those of the scenes of @kv/laws. */
const frequency = (i: number, half: number): number => 10 ** (-i / half);
/** Turns queries `[H w, d]` by `positions` positions, pair by pair, in float64. */
function turnedBy(q: Float32Array, d: number, positions: number): Float32Array {
  const half = Math.floor(d / 2),
    to = q.slice();
  for (let row = 0; row < q.length; row += d)
    for (let c = 0; c < half; c++) {
      const angle = positions * frequency(c, half),
        [a, b] = [q[row + c], q[row + c + half]];
      to[row + c] = a * Math.cos(angle) - b * Math.sin(angle);
      to[row + c + half] = a * Math.sin(angle) + b * Math.cos(angle);
    }
  return to;
}
describe("queries at the answer's positions", () =>
  each(
    refitLaws(fit({ queries: 4, from: 'future' }), {
      runs: 80,
      at: ({ slots }) => (slots % 2 === 0 ? { window: 7 } : {}),
      reference(last, { headDim: d, queryHeads: H, length }) {
        const w = last.length / (d * H);
        return { queries: turnedBy(last, d, w), positions: Array.from({ length: w }, (_, i) => length + i) };
      },
    }),
    test,
  ));
/** Queries of a model that repeats a random layer's context, `[H, w, d]`, after an instruction of 3 tokens. */
const repeated = ({ queryHeads: H, headDim: d, length: n }: LayerContext, seed: number, w: number): RefitReference => {
  const draw = mulberry(seed);
  return {
    queries: Float32Array.from({ length: H * w * d }, () => 4 * draw() - 2),
    positions: Array.from({ length: w }, (_, i) => n + 3 + i),
  };
};
describe('queries while the model repeats the context', () =>
  each(
    refitLaws(fit({ queries: 4, from: 'repeat' }), {
      runs: 60,
      at: ({ slots }) => (slots % 2 === 0 ? { window: 9 } : {}),
      signals(signal, { at, seed }, ops) {
        if (signal.id !== 'queries.repeated') return undefined;
        const { queries, positions } = repeated(at, seed, 4);
        return {
          queries: ops.from({ data: queries, shape: [at.queryHeads, 4, at.headDim] }),
          positions: Uint32Array.from(positions),
        } satisfies PlacedQueries;
      },
      reference: (_, at, { at: own, seed }) => repeated({ ...at, length: own.length }, seed, 4),
    }),
    test,
  ));
test.each(['mass', 'output'] as const)('the law of the %s tells other queries from its own', (law) =>
  expect(async () =>
    refitLaws(fit({ queries: 3 }), { reference: (last, at) => repeated(at, last.length, 3) })[law](),
  ).rejects.toThrow(law),
);
test('the repetition is read once, and its queries are taken evenly over it', async () => {
  const asked: unknown[] = [];
  for (const w of [4, 30])
    await repeatedQueries(w).provide!(
      {
        ids: Array.from({ length: 10 }, (_, i) => i),
        encode: () => [90, 91, 92],
        queriesOf: async (...all: unknown[]) => asked.push(all),
      } as never,
      2,
    );
  const ids = [90, 91, 92, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
  expect(asked).toEqual([
    [ids, [4, 7, 9, 12], 2],
    [ids, [3, 4, 5, 6, 7, 8, 9, 10, 11, 12], 2],
  ]);
});
describe('under a soft cap, a window and sinks', () =>
  each(
    refitLaws(fit({ queries: 5 }), {
      runs: 60,
      at: ({ queryHeads }) => ({
        softcap: 0.5,
        window: 6,
        scale: 2,
        learnedSinks: Float32Array.from({ length: queryHeads }, (_, h) => h - 1),
      }),
    }),
    test,
  ));

test.each([
  [{ queries: 0 }, 'fit: queries must be a positive whole number of queries, got 0'],
  [{ ridge: 0 }, 'fit: ridge must be a positive number, got 0'],
  [{ bound: 21 }, 'fit: bound must be a number from 0 to 20, got 21'],
])('%j is an error', (options, message) => expect(() => fit(options)).toThrow(message));

const cases = fc.record({
  seed: fc.integer(),
  G: fc.integer({ min: 1, max: 2 }),
  group: fc.integer({ min: 1, max: 3 }),
  w: fc.integer({ min: 1, max: 5 }),
  n: fc.integer({ min: 2, max: 14 }),
  d: fc.integer({ min: 1, max: 4 }),
  ridge: fc.constantFrom(0.01, 0.3),
  sinks: fc.boolean(),
  from: fc.constantFrom('window', 'future', 'repeat'),
});
test('agrees with Attention Matching in float64, and records only', () => {
  fc.assert(
    fc.property(cases, ({ seed, G, group, w, n, d, ridge, sinks, from }) => {
      const draw = mulberry(seed),
        numbers = (count: number): Float32Array => Float32Array.from({ length: count }, () => 4 * draw() - 2),
        H = G * group,
        [last, k, v, b] = [numbers(H * w * d), numbers(G * n * d), numbers(G * n * d), numbers(G * n)],
        q = from === 'future' ? turnedBy(last, d, w) : last,
        half = Math.floor(d / 2),
        own = numbers(H),
        kept = Array.from({ length: G }, () => [
          0,
          ...Array.from({ length: n - 1 }, (_, j) => j + 1).filter(() => draw() < 0.5),
        ]),
        // the queries see all slots
        at = {
          ...{
            layer: 0,
            layers: 1,
            queryHeads: H,
            kvHeads: G,
            headDim: d,
            step: 0,
            promptLength: n + w,
            length: n + w,
          },
          ...{ slots: n, aligned: true, budget: n, selectRows: G },
          ...(sinks && { learnedSinks: own }),
        },
        arrays: Record<string, Float32Array> = { keys: k, values: v, biases: b },
        angles = (of: (x: number) => number, at: Uint32Array): Float32Array =>
          Float32Array.from({ length: at.length * half }, (_, i) =>
            of(at[Math.floor(i / half)] * frequency(i % half, half)),
          ),
        model: Rope = {
          rotary: 2 * half,
          angles: (at) => ({ cos: angles(Math.cos, at), sin: angles(Math.sin, at) }),
        };
      const run = (ops: typeof cpu.ops) => {
        const read = ({ id }: { readonly id: string }) =>
            id === 'queries'
              ? ops.from({ data: last, shape: [H, w, d] })
              : id === 'rope'
                ? model
                : id === 'queries.repeated'
                  ? { queries: ops.from({ data: last, shape: [H, w, d] }), positions: range(n + w, w) }
                  : id === 'positions'
                    ? ops.from({ data: Uint32Array.from({ length: G * n }, (_, i) => i % n), shape: [G, n] }, 'u32')
                    : ops.from({ data: arrays[id], shape: id === 'biases' ? [G, n] : [G, n, d] }),
          marks = Float32Array.from({ length: G * n }, (_, i) => Number(kept[Math.floor(i / n)].includes(i % n))),
          layer = { at, budgets: kept.map(({ length }) => length), read },
          budgets = ops.from({ data: Float32Array.from(kept, ({ length }) => length), shape: [G, 1] });
        return compile(fit({ queries: w, from, ridge }))
          .hooks('compact')[0]
          .run({
            ...{ at, ops, draft: emptyDraft(layer, ops), read: read as never },
            kept: ops.select(ops.from({ data: marks, shape: [G, n] }), budgets),
          });
      };
      const made = run(cpu.ops),
        [biases, values] = [readCpu(made.biases!).data, readCpu(made.values!).data],
        trace = traceOps(cpu);
      expect(readCpu(trace.reveal(run(trace.ops).values!)).data).toEqual(values);
      for (let g = 0; g < G; g++) {
        const rows = Array.from({ length: group * w }, (_, i) => {
            const h = g * group + Math.floor(i / w),
              logits = Array.from({ length: n }, (_, j) => {
                let dot = 0;
                for (let c = 0; c < d; c++) dot += q[(h * w + (i % w)) * d + c] * k[(g * n + j) * d + c];
                return dot / Math.sqrt(d) + b[g * n + j];
              }),
              top = Math.max(...logits, sinks ? own[h] : -Infinity);
            return { e: logits.map((x) => Math.exp(x - top)), sink: sinks ? Math.exp(own[h] - top) : 0 };
          }),
          want = fitOracle(
            {
              e: rows.map(({ e }) => e),
              sink: rows.map(({ sink }) => sink),
              values: Array.from({ length: n }, (_, j) => [...v.subarray((g * n + j) * d, (g * n + j + 1) * d)]),
              kept: kept[g],
            },
            { ridge, bound: 3 },
          );
        // a head whose output would suffer stays as it is: the laws see to it
        if (kept[g].every((j) => biases[g * n + j] === b[g * n + j])) continue;
        kept[g].forEach((j, i) => {
          expect(biases[g * n + j]).toBeCloseTo(b[g * n + j] + Math.log(want.factors[i]), 3);
          for (let c = 0; c < d; c++) expect(values[(g * n + j) * d + c]).toBeCloseTo(want.values[i][c], 2);
        });
      }
    }),
    { numRuns: 60 },
  );
});
