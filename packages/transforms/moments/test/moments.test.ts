import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compile, emptyDraft, isState, runAttend, traceOps } from '@kv/core/engine';
import { mulberry } from '@kv/core/shared';
import type { Tensor } from '@kv/core';
import { cpu, readCpu } from '@kv/cpu';
import { each, foldLaws, kernelLaws } from '@kv/laws';
import { momentsOracle, type Left } from './moments.oracle.ts';
import { foldedMeans, foldedMoments, moments, recordSize, stretchLogits, stretchValues } from '../src/index.ts';

const numbers = (count: number, by: number): Float32Array =>
  Float32Array.from({ length: count }, (_, i) => Math.sin(i * by));
const fields = { stretches: 2, cross: 1, spread: 1 },
  width = 1 + 2 * recordSize(2, fields);
const make = ({ rows, slots, lengths }: { rows: number; slots: number; lengths?: readonly number[] | undefined }) => {
  const s = numbers(rows * width, 3).map(Math.abs);
  for (let g = 0; g < rows; g++) s[g * width] = 4;
  return {
    s: { data: s, shape: [rows, width] },
    m: { data: numbers(rows * 10, 5).map(Math.abs), shape: [rows, 10] },
    k: { data: numbers(rows * slots * 2, 7), shape: [rows, slots, 2], lengths },
    v: { data: numbers(rows * slots * 2, 11), shape: [rows, slots, 2], lengths },
    p: { data: Uint32Array.from({ length: rows * slots }, (_, i) => i % slots), shape: [rows, slots], lengths },
    w: { data: numbers(rows * slots, 2).map((x) => Math.max(0, x)), shape: [rows, slots], lengths },
    q: { data: numbers(rows * 4, 13), shape: [rows, 2, 2] },
    at: { data: Uint32Array.of(20, 21), shape: [1, 2] },
    share: { data: numbers(rows * 4, 17).map(Math.abs), shape: [rows * 2, 2] },
  };
};
describe.each([foldedMeans, foldedMoments, stretchLogits, stretchValues])('$id', (kernel) => {
  each(
    kernelLaws(kernel, {
      runs: 15,
      make: (size) => {
        const given = make(size),
          of = (name: string) => given[(name === 'p' && kernel.id === stretchLogits.id ? 'at' : name) as 'k'];
        return {
          inputs: Object.fromEntries(Object.keys(kernel.inputs).map((name) => [name, of(name)])),
          params: { ...fields, width: 8, scale: 0.5, cap: 4, window: 13 },
        };
      },
    }),
    test,
  );
});

describe.each([moments(), moments({ cross: false, stretches: 2 }), moments({ spread: true, stretches: 1 })])(
  '$label',
  (piece) => each(foldLaws(piece, { runs: 60 }), test),
);

test.each([
  [{ stretches: 0 }, 'moments: stretches must be a positive whole number of stretches from 1 to 64, got 0'],
  [{ stretches: 65 }, 'moments: stretches must be a positive whole number of stretches from 1 to 64, got 65'],
])('%j is an error', (options, message) => expect(() => moments(options)).toThrow(message));

const cases = fc.record({
  seed: fc.integer(),
  G: fc.integer({ min: 1, max: 2 }),
  group: fc.integer({ min: 1, max: 2 }),
  n: fc.integer({ min: 1, max: 40 }),
  m: fc.integer({ min: 1, max: 3 }),
  d: fc.integer({ min: 1, max: 4 }),
  stretches: fc.integer({ min: 1, max: 4 }),
  cross: fc.boolean(),
  spread: fc.boolean(),
  capped: fc.boolean(),
  windowed: fc.boolean(),
});
test('two events agree with MomentKV in float64, and record only', () => {
  fc.assert(
    fc.property(cases, ({ seed, G, group, n, m, d, stretches, cross, spread, capped, windowed }) => {
      const draw = mulberry(seed),
        of = (count: number): Float32Array => Float32Array.from({ length: count }, () => 2 * draw() - 1),
        [H, apart] = [G * group, 1 + Math.floor(20 * draw())],
        [k, v, b, q] = [of(G * n * d), of(G * n * d), of(G * n), of(H * m * d)],
        piece = compile(moments({ stretches, cross, spread })),
        [fold] = piece.hooks('evict'),
        [adds] = piece.hooks('attend'),
        cap = capped ? 1.5 : undefined,
        window = windowed ? Math.ceil((n * apart) / 2) : undefined,
        at = (length: number) => ({
          ...{ layer: 0, layers: 1, queryHeads: H, kvHeads: G, headDim: d, step: 0, promptLength: length, length },
          ...{ slots: n, aligned: true, budget: n, selectRows: G, biased: true },
          ...(cap !== undefined && { softcap: cap }),
          ...(window !== undefined && { window }),
        }),
        lengths = [Math.ceil((n * apart) / 3), n * apart],
        // in which event each slot leaves: 2 stays
        when = Array.from({ length: G * n }, (_, i) =>
          Math.max(Number((i % n) * apart >= lengths[0]), Math.floor(3 * draw())),
        );
      const run = (ops: typeof cpu.ops) => {
        let folded: Tensor | undefined;
        const spec = fold.needs.find(isState)!,
          zeros = ops.from({
            data: new Float32Array(G * (1 + stretches * recordSize(d, { cross: +cross, spread: +spread }))),
            shape: [G, 1 + stretches * recordSize(d, { cross: +cross, spread: +spread })],
          }),
          read = ({ id }: { readonly id: string }): Tensor =>
            id === spec.id
              ? (folded ?? zeros)
              : id === 'positions'
                ? ops.from(
                    { data: Uint32Array.from({ length: G * n }, (_, i) => (i % n) * apart), shape: [G, n] },
                    'u32',
                  )
                : id === 'biases'
                  ? ops.from({ data: b, shape: [G, n] })
                  : ops.from({ data: id === 'keys' ? k : v, shape: [G, n, d] });
        for (const event of [0, 1]) {
          const marks = Float32Array.from(when, (w) => Number(w !== event)),
            counts = Float32Array.from({ length: G }, (_, g) =>
              marks.subarray(g * n, (g + 1) * n).reduce((a, x) => a + x, 0),
            ),
            layer = { at: at(lengths[event]), budgets: Array.from(counts), read };
          folded = fold
            .run({
              ...{ at: layer.at, ops, draft: emptyDraft(layer, ops), read: read as never },
              kept: ops.select(ops.from({ data: marks, shape: [G, n] }), ops.from({ data: counts, shape: [G, 1] })),
            })
            .get(spec.id)!;
        }
        return runAttend(
          adds,
          { at: at(lengths[1] + m), ops, read },
          {
            queries: ops.from({ data: q, shape: [H, m, d] }),
            positions: ops.from(
              { data: Uint32Array.from({ length: m }, (_, i) => lengths[1] + i), shape: [1, m] },
              'u32',
            ),
          },
        );
      };
      const made = run(cpu.ops),
        [masses, values] = [readCpu(made.masses).data, readCpu(made.values).data],
        trace = traceOps(cpu);
      expect(readCpu(trace.reveal(run(trace.ops).values)).data).toEqual(values);
      const wide = 64 * 2 ** Math.max(0, Math.ceil(Math.log2(lengths[1] / (stretches * 64))));
      for (let h = 0; h < H; h++) {
        const g = Math.floor(h / group),
          left = when.flatMap((w, i): Left[] =>
            w === 2 || Math.floor(i / n) !== g
              ? []
              : [
                  {
                    position: (i % n) * apart,
                    count: Math.exp(b[i]),
                    key: [...k.subarray(i * d, (i + 1) * d)],
                    value: [...v.subarray(i * d, (i + 1) * d)],
                  },
                ],
          );
        for (let i = 0; i < m; i++) {
          const z = [...q.subarray((h * m + i) * d, (h * m + i + 1) * d)].map((x) => x / Math.sqrt(d)),
            want = momentsOracle(
              left,
              { z, position: lengths[1] + i },
              {
                ...{ width: wide, cross, spread },
                ...(cap !== undefined && { cap }),
                ...(window !== undefined && { window }),
              },
            );
          if (want.mass === 0) expect(masses[h * m + i]).toBeLessThan(-1e29);
          else {
            expect(Math.abs(masses[h * m + i] - Math.log(want.mass))).toBeLessThan(1e-4);
            want.value.forEach((x, c) => expect(Math.abs(values[(h * m + i) * d + c] - x)).toBeLessThan(1e-4));
          }
        }
      }
    }),
    { numRuns: 150 },
  );
});
