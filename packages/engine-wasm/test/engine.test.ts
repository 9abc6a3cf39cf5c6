import fc from 'fast-check';
import { expect, test } from 'vitest';
import { dense, matrixOf } from '@kv/checkpoints';
import type { Angles, Engine, Instruction, Program, RowsValue } from '@kv/engine';
import { wasmEngine } from '../src/engine.ts';
import { modules } from './modules.ts';
import { runProgram } from '@kv/engine-testing/program.oracle';
import { referenceEngine } from '@kv/engine';

/**
 * Programs of any instructions in any order that their widths allow, with every value an output or not, including
 * programs that no decoder has yet.
 */
const programs = fc
  .record({
    widths: fc.array(fc.constantFrom(8, 16), { minLength: 1, maxLength: 2 }),
    picks: fc.array(
      fc.record({
        op: fc.constantFrom('rmsNorm', 'linear', 'columns', 'rope', 'gated', 'add', 'scale', 'softcap', 'heads'),
        x: fc.nat(),
        y: fc.nat(),
        way: fc.nat({ max: 1000 }),
      }),
      { minLength: 1, maxLength: 12 },
    ),
    shown: fc.infiniteStream(fc.boolean()),
    m: fc.constantFrom(1, 2, 5),
    headDim: fc.constantFrom(2, 4),
    turned: fc.constantFrom(2, 4),
    scaled: fc.boolean(),
  })
  .map(({ widths, picks, shown, m, headDim, turned, scaled }) => {
    const rotary = Math.min(headDim, turned);
    const inputs: RowsValue[] = widths.map((width, id) => ({ id, width })),
      values = [...inputs],
      instructions: Instruction[] = [],
      outputs: RowsValue[] = [];
    const some = (length: number, seed: number): Float32Array =>
      Float32Array.from({ length }, (_, i) => Math.fround(Math.sin(i * 12.9898 + seed * 78.233)));
    for (const { op, way, ...pick } of picks) {
      const x = values[pick.x % values.length],
        out = (width: number): RowsValue => ({ id: values.length + instructions.length * 100 + 10, width });
      const made: Instruction | undefined =
        op === 'rmsNorm'
          ? { op, x, gain: some(way % 2 ? x.width : headDim, way), eps: 1e-5, out: out(x.width) }
          : op === 'linear'
            ? {
                op,
                name: 'w',
                x,
                weight: matrixOf(some(8 * (1 + (way % 2)) * x.width, way), 8 * (1 + (way % 2)), x.width),
                ...(way % 3 === 0 && { bias: some(8 * (1 + (way % 2)), way + 1) }),
                out: out(8 * (1 + (way % 2))),
              }
            : op === 'columns' && x.width === 16
              ? { op, x, from: 4 * (way % 3), out: out(8) }
              : op === 'rope'
                ? { op, x, headDim, rotary, ...(way % 2 && { scaled: true }), out: out(x.width) }
                : op === 'gated' && x.width === 16
                  ? { op, x, activation: way % 2 ? 'silu' : 'gelu', out: out(8) }
                  : op === 'scale'
                    ? { op, x, by: (1 + (way % 7)) / 3, out: out(x.width) }
                    : op === 'softcap'
                      ? { op, x, cap: 1 + (way % 5), out: out(x.width) }
                      : op === 'add'
                        ? {
                            op,
                            x,
                            y: values.filter(({ width }) => width === x.width)[
                              pick.y % values.filter(({ width }) => width === x.width).length
                            ],
                            out: out(x.width),
                          }
                        : op === 'heads'
                          ? { op, x, headDim, out: out(x.width) }
                          : undefined;
      if (made === undefined) continue;
      instructions.push(made);
      if (made.op !== 'heads') values.push(made.out);
      if (made.op === 'heads' || shown.next().value) outputs.push(made.out);
    }
    const program: Program = { name: 'any', inputs, instructions, outputs };
    const turns = Float32Array.from({ length: (m * rotary) / 2 }, (_, i) => i * 0.7),
      angles: Angles = {
        ...{ rotary, cos: turns.map(Math.cos), sin: turns.map(Math.sin) },
        ...(scaled && { scales: some(m, 3) }),
      };
    return { program, m, angles, given: inputs.map(({ width }, i) => some(m * width, i + 5)) };
  });

test.each<readonly [string, Engine]>([
  ['plain loops', referenceEngine()],
  ...modules.flatMap(([name, fast]) =>
    [1, 2].map((threads) => [`module, ${name}, ${threads} threads`, wasmEngine(fast, { threads })] as const),
  ),
])('any program on the %s is its float64 self, run twice, inputs unwritten', async (_, engine) => {
  const held = await engine.prepare({ name: 'none', inputs: [], instructions: [], outputs: [] }); // threads stay
  await fc.assert(
    fc.asyncProperty(programs, async ({ program, m, angles, given }) => {
      const runnable = await engine.prepare(program),
        before = given.map((x) => x.slice()),
        want = runProgram(dense, program, given, m, angles);
      for (let turn = 0; turn < 2; turn++) {
        const got = await runnable.run(given, m, angles);
        expect(given).toEqual(before);
        for (const [i, output] of want.entries()) {
          expect(got[i].length).toBe(output.length);
          for (const [j, x] of output.entries())
            if (!(Math.abs(got[i][j] - x) <= 1e-4 * (1 + Math.max(...output.map(Math.abs)))))
              expect.fail(`output ${i} at ${j}: ${got[i][j]} for ${x}`);
        }
      }
      runnable.destroy();
    }),
    { numRuns: 150 },
  );
  held.destroy();
});

test('a program that turns heads says that it lacks angles', async () => {
  const x: RowsValue = { id: 0, width: 4 },
    out: RowsValue = { id: 1, width: 4 };
  const runnable = await referenceEngine().prepare({
    name: 'turning',
    inputs: [x],
    instructions: [{ op: 'rope', x, headDim: 4, out }],
    outputs: [out],
  });
  await expect(runnable.run([new Float32Array(4)], 1)).rejects.toThrowErrorMatchingInlineSnapshot(
    `[KvError: turning: expected the angles of its rows, got none]`,
  );
});
