/** Routed experts against the formulas in float64, in plain loops and in the module. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { dense, matrixOf, type Matrix, type Routing } from '@kv/checkpoints';
import { referenceEngine, routeRows, type Engine, type Instruction, type Program, type Runnable } from '@kv/engine';
import { runProgram } from '@kv/engine-testing/program.oracle';
import { wasmEngine } from '../src/engine.ts';
import { modules } from './modules.ts';

const engines: readonly (readonly [name: string, engine: Engine])[] = [
  ['plain loops', referenceEngine()],
  ...[1, 2].map(
    (threads) => [`the module, threads: ${threads}`, wasmEngine(modules[0][1], { exact: true, threads })] as const,
  ),
];

type Experts = Extract<Instruction, { readonly op: 'experts' }>;
interface Case {
  readonly program: Program;
  readonly x: Float32Array;
  readonly scores: Float32Array;
  readonly gate: Float32Array;
  readonly rows: number;
}

const cases: fc.Arbitrary<Case> = fc
  .record({
    count: fc.integer({ min: 1, max: 7 }),
    hidden: fc.integer({ min: 1, max: 40 }),
    width: fc.integer({ min: 1, max: 24 }),
    rows: fc.constantFrom(1, 2, 3, 5, 17, 40),
    activation: fc.constantFrom('silu', 'gelu', 'clamped'),
    biased: fc.boolean(),
    selects: fc.boolean(),
    scales: fc.boolean(),
    seed: fc.integer(),
  })
  .chain((shape) =>
    fc.record({
      shape: fc.constant(shape),
      active: fc.integer({ min: 1, max: shape.count }),
      scores: fc.constantFrom('softmax', 'sigmoid'),
      normalised: fc.boolean(),
      scale: fc.constantFrom(1, 0.6),
    }),
  )
  .map(({ shape: { count, hidden, width, rows, activation, biased, selects, scales, seed }, ...routing }) => {
    let state = seed >>> 0;
    const numbers = (n: number, size: number): Float32Array =>
      Float32Array.from({ length: n }, () => {
        state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
        return Math.fround((state / 2 ** 31 - 1) * size);
      });
    const value = (id: number, of: number) => ({ id, width: of }),
      [x, scores, gate, chosen, out] = [
        value(0, hidden),
        value(1, count),
        value(2, 1),
        value(3, hidden),
        value(4, hidden),
      ];
    const experts: Experts = {
      op: 'experts',
      ...{ x, scores, routing: routing as Routing, activation, out: chosen },
      gateUp: matrixOf(numbers(count * 2 * width * hidden, 2), count * 2 * width, hidden),
      down: matrixOf(numbers(count * hidden * width, 1), count * hidden, width),
      ...(biased && { gateUpBias: numbers(count * 2 * width, 3), downBias: numbers(count * hidden, 3) }),
      ...(selects && { selectionBias: numbers(count, 0.5) }),
      ...(scales && { weightScale: numbers(count, 2) }),
    };
    return {
      program: {
        name: 'experts',
        inputs: [x, scores, gate],
        instructions: [experts, { op: 'gateRows', x: chosen, gate, out }],
        outputs: [out, chosen],
      },
      ...{ x: numbers(rows * hidden, 4), scores: numbers(rows * count, 4), gate: numbers(rows, 3), rows },
    };
  });

const of = (all: Float32Array, rows: number, from: number, count: number): Float32Array =>
  all.slice((from * all.length) / rows, ((from + count) * all.length) / rows);

describe.each(engines)('%s', (name, engine) => {
  test('give the float64 sum of the chosen experts; a row the same whatever rows are around it', async () => {
    await fc.assert(
      fc.asyncProperty(cases, fc.nat(), async ({ program, x, scores, gate, rows }, cut) => {
        const runnable: Runnable = await engine.prepare(program),
          run = (from: number, count: number): Promise<readonly Float32Array[]> =>
            runnable.run(
              [x, scores, gate].map((all) => of(all, rows, from, count)),
              count,
            ),
          whole = await run(0, rows),
          wanted = runProgram(dense, program, [x, scores, gate], rows);
        for (const [i, want] of wanted.entries()) {
          const most = Math.max(...want.map(Math.abs), 1);
          for (const [j, y] of whole[i].entries()) expect(Math.abs(y - want[j]) / most).toBeLessThan(2e-5);
        }
        // blocks of several rows
        const at = 2 + (cut % Math.max(1, rows - 3));
        if (rows >= 4 && rows - at >= 2)
          for (const [i, all] of whole.entries())
            expect([...(await run(0, at))[i], ...(await run(at, rows - at))[i]]).toEqual([...all]);
        runnable.destroy();
      }),
      { numRuns: name.endsWith('2') ? 4 : 30 },
    );
  });
});

test('of equal scores the lower number is chosen, and a bias for choosing is no part of the weights', () => {
  const routing = { active: 2, scores: 'softmax', normalised: true, scale: 1 } as const;
  expect(routeRows(Float32Array.of(0, 0, 0, 0), 1, routing)).toEqual({
    experts: Uint32Array.of(0, 1),
    weights: Float32Array.of(0.5, 0.5),
  });
  expect(routeRows(Float32Array.of(0, 0, 0, 0), 1, routing, { selectionBias: Float32Array.of(0, -1, 0, 1) })).toEqual({
    experts: Uint32Array.of(0, 3),
    weights: Float32Array.of(0.5, 0.5),
  });
  // nor is a factor of an expert's weight part of the choice
  expect(routeRows(Float32Array.of(0, 0, 0, 0), 1, routing, { weightScale: Float32Array.of(2, -1, 9, 9) })).toEqual({
    experts: Uint32Array.of(0, 1),
    weights: Float32Array.of(1, -0.5),
  });
  // hostile weights may give products that are no numbers
  expect([...routeRows(Float32Array.of(NaN, NaN, NaN), 1, routing).experts]).toEqual([0, 1]);
});

test('only the chosen experts are multiplied: the others may be of no number at all', async () => {
  const [hidden, width, count] = [32, 16, 4],
    fill = (rows: number, inputs: number): Matrix =>
      matrixOf(
        Float32Array.from({ length: count * rows * inputs }, (_, i) => (i < rows * inputs ? 0.25 : NaN)),
        count * rows,
        inputs,
      );
  const [x, scores, out] = [0, 1, 2].map((id) => ({ id, width: id === 1 ? count : hidden }));
  const routing = { active: 1, scores: 'softmax', normalised: true, scale: 1 } as const;
  const instruction = { op: 'experts', x, scores, routing, activation: 'silu', out } as const,
    weights = { gateUp: fill(2 * width, hidden), down: fill(hidden, width) };
  const program: Program = {
    name: 'one',
    inputs: [x, scores],
    instructions: [{ ...instruction, ...weights }],
    outputs: [out],
  };
  for (const [, engine] of engines) {
    const runnable = await engine.prepare(program);
    const [y] = await runnable.run([new Float32Array(2 * hidden).fill(1), Float32Array.of(1, 0, 0, 0, 1, 0, 0, 0)], 2);
    expect(y.every(Number.isFinite)).toBe(true);
    runnable.destroy();
  }
});
