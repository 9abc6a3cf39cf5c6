import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { onnxEngine } from '../src/engine.ts';
import { dense, matrixOf, tensorTypes } from '@kv/checkpoints';
import type { Matrix, TensorType } from '@kv/checkpoints';
import type { Angles, Engine, Instruction, Program, RowsValue } from '@kv/engine';
import { mulberry } from '@kv/core/shared';
import { ort } from '@kv/model-testing/ort';
import { runProgram } from '@kv/engine-testing/program.oracle';
import { referenceEngine } from '@kv/engine';

const headDim = 8;
type Op = Instruction['op'];
const ops: readonly Op[] = ['rmsNorm', 'linear', 'columns', 'rope', 'gated', 'gatedBy', 'add', 'scale', 'softcap'];

interface Case {
  readonly program: Program;
  readonly inputs: Float32Array[];
  readonly m: number;
  readonly angles: Angles;
}

/** Straight lines of any instructions on whole heads, from one or two inputs to two values and the last one's heads. */
const cases = fc
  .record({
    seed: fc.integer(),
    m: fc.integer({ min: 1, max: 9 }),
    rotary: fc.constantFrom(2, 4, 8),
    line: fc.array(fc.constantFrom(...ops), { minLength: 1, maxLength: 9 }),
  })
  .map(({ seed, m, rotary, line }): Case => {
    const random = mulberry(seed),
      pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!;
    const numbers = (count: number): Float32Array => Float32Array.from({ length: count }, () => 3 * random() - 1.5);
    const rows = (id: number, heads: number): RowsValue => ({ id, width: heads * headDim });
    const values = [rows(0, 2), rows(1, 4)],
      inputs = values.slice();
    const instructions = line.map((op): Instruction => {
      const x = pick(values),
        id = values.length,
        same = rows(id, x.width / headDim);
      const make = (): Instruction => {
        switch (op) {
          case 'rmsNorm':
            return { op, x, gain: numbers(pick([headDim, x.width])), eps: 1e-5, out: same };
          case 'linear': {
            const out = rows(id, pick([1, 2, 4])),
              bias = random() < 0.5 ? { bias: numbers(out.width) } : {};
            return {
              op,
              name: 'w',
              x,
              weight: matrixOf(numbers(out.width * x.width), out.width, x.width),
              ...bias,
              out,
            };
          }
          case 'columns': {
            const heads = 1 + Math.floor((random() * x.width) / headDim),
              from = headDim * Math.floor(random() * (x.width / headDim - heads + 1));
            return { op, x, from, out: rows(id, heads) };
          }
          case 'gated':
            return x.width % (2 * headDim) === 0
              ? { op, x, activation: pick(['silu', 'gelu'] as const), out: rows(id, x.width / headDim / 2) }
              : { op: 'softcap', x, cap: 2, out: same };
          case 'gatedBy': {
            const y = pick(values.filter(({ width }) => width === x.width));
            return { op, x, y, activation: pick(['silu', 'gelu'] as const), out: same };
          }
          case 'add':
            return { op, x, y: pick(values.filter(({ width }) => width === x.width)), out: same };
          case 'scale':
            return { op, x, by: 0.1 + 3 * random(), out: same };
          case 'softcap':
            return { op, x, cap: 0.5 + 3 * random(), out: same };
          default:
            return { op: 'rope', x, headDim, rotary, out: same };
        }
      };
      const instruction = make();
      values.push(instruction.out);
      return instruction;
    });
    const last = values.at(-1)!,
      heads: Instruction = { op: 'heads', x: last, headDim, out: rows(values.length, last.width / headDim) };
    const angle = numbers((m * rotary) / 2);
    return {
      program: {
        name: 'random',
        inputs,
        instructions: [...instructions, heads],
        outputs: [heads.out, last, pick(values)],
      },
      inputs: inputs.map(({ width }) => numbers(m * width)),
      m,
      angles: { rotary, cos: angle.map(Math.cos), sin: angle.map(Math.sin) },
    };
  });

/** Largest difference, over the largest number wanted. */
function difference(got: Float32Array, want: readonly number[]): number {
  expect(got.length).toBe(want.length);
  const size = want.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-3);
  return want.reduce(
    (most, x, i) => Math.max(most, Number.isFinite(got[i]) ? Math.abs(got[i] - x) / size : Infinity),
    0,
  );
}

async function runOnce(engine: Engine, { program, inputs, m, angles }: Case): Promise<readonly Float32Array[]> {
  const runnable = await engine.prepare(program);
  const out = await runnable.run(inputs, m, angles);
  runnable.destroy();
  return out;
}

describe('programs on ONNX Runtime', () => {
  const engine = onnxEngine(ort),
    stored = onnxEngine(ort, { weights: 'stored', threads: 2 });

  test('in f32 any program is its float64 interpretation, within 1e-5; so is the JavaScript engine', async () => {
    await fc.assert(
      fc.asyncProperty(cases, async (one) => {
        const want = runProgram(dense, one.program, one.inputs, one.m, one.angles);
        for (const other of [engine, stored, referenceEngine()])
          for (const [i, got] of (await runOnce(other, one)).entries())
            expect(difference(got, want[i]), `${other.name}, output ${i}`).toBeLessThan(1e-5);
      }),
      { numRuns: 80 },
    );
  });

  test('no rows, wrong angles and a destroyed program', async () => {
    const [x, out] = [
      { id: 0, width: 8 },
      { id: 1, width: 8 },
    ];
    const runnable = await engine.prepare({
      name: 'turn',
      inputs: [x],
      instructions: [{ op: 'rope', x, headDim: 8, rotary: 4, out }],
      outputs: [out],
    });
    expect(await runnable.run([new Float32Array(0)], 0)).toEqual([new Float32Array(0)]);
    await expect(runnable.run([new Float32Array(8)], 1)).rejects.toThrowErrorMatchingInlineSnapshot(
      `[KvError: turn: expected angles for 4 numbers of a head, got none]`,
    );
    runnable.destroy();
    runnable.destroy();
    await expect(
      runnable.run([new Float32Array(8)], 1, { rotary: 4, cos: new Float32Array(2), sin: new Float32Array(2) }),
    ).rejects.toThrow('was destroyed');
  });

  describe.each(['Q4_0', 'Q4_1', 'Q5_0', 'Q5_1', 'Q8_0', 'Q4_K', 'Q5_K', 'Q6_K', 'IQ4_NL', 'MXFP4'] as const)(
    'stored %s',
    (type) => {
      const product = async (
        weight: Matrix,
        x: Float32Array,
        m: number,
      ): Promise<{ got: Float32Array; want: number[] }> => {
        const input = { id: 0, width: weight.inputs },
          out = { id: 1, width: weight.outputs };
        const program: Program = {
          name: type,
          inputs: [input],
          instructions: [{ op: 'linear', name: 'w', x: input, weight, out }],
          outputs: [out],
        };
        const [got] = await runOnce(stored, {
          program,
          inputs: [x],
          m,
          angles: { rotary: 2, cos: new Float32Array(0), sin: new Float32Array(0) },
        });
        return { got: got, want: runProgram(dense, program, [x], m)[0] };
      };

      test('weights are exact: activations that 8 bits hold give the product in f32', async () => {
        for (const m of [1, 5]) {
          const random = mulberry(m),
            weight = blocks([type], 24, 512, random);
          const x = Float32Array.from({ length: m * 512 }, (_, i) =>
            i % 16 === 0 ? 127 : Math.floor(random() * 255) - 127,
          );
          const { got, want } = await product(weight, x, m);
          expect(difference(got, want)).toBeLessThan(4e-6); // 512 sums in f32, in an order of the processor's own
        }
      });

      test('any activations give it within 1 % of the largest, also with another type in the same model', async () => {
        const random = mulberry(7),
          weight = blocks([type, 'Q4_1', 'Q8_0'], 40, 256, random);
        const { got, want } = await product(
          weight,
          Float32Array.from({ length: 6 * 256 }, () => random() - 0.5),
          6,
        );
        expect(difference(got, want)).toBeLessThan(0.01);
      });
    },
  );
});

/** A third of the rows in each of these types: random blocks whose scales are halves of usual size. */
function blocks(types: readonly TensorType[], rows: number, inputs: number, random: () => number): Matrix {
  const parts = types.map((type) => {
    const { numbers, bytes: size } = tensorTypes[type],
      bytes = Uint8Array.from({ length: (rows * inputs * size) / numbers }, () => Math.floor(random() * 256));
    const halves = type === 'Q6_K' ? [208] : /_1|4_K|5_K/.test(type) ? [0, 2] : [0];
    for (let at = 0; at < bytes.length; at += size)
      if (type === 'MXFP4') bytes[at] = 118 + Math.floor(random() * 6);
      else
        for (const half of halves)
          bytes[at + half + 1] = (0x20 + Math.floor(random() * 8)) | (half === 2 && !type.endsWith('K') ? 0x80 : 0);
    return { type, rows, bytes };
  });
  return { outputs: rows * types.length, inputs, parts };
}
