import fc from 'fast-check';
import type { Tensor } from '@kv/core';
import type { Gpu } from '@kv/gpu';
import { numbers, random } from '@kv/gpu-testing';
import type { Angles, Instruction, Program, RowsValue } from '@kv/engine';
import type { Matrix } from '@kv/checkpoints';
import { expect } from 'vitest';
import { gpuEngine } from '../src/engine.ts';
import type { DeviceRunnable } from '../src/engine.ts';
import { everywhere, gpuTests } from './device.ts';
import { storedBytes } from './weights.oracle.ts';
import { referenceEngine } from '@kv/engine';

const gpuTest = await gpuTests();
const headDim = 4;

/** A weight of values of about 1 / 8: of f32 numbers, or of blocks where rows allow it. */
function weightOf(seed: number, outputs: number, inputs: number): Matrix {
  if (inputs % 32 !== 0)
    return {
      outputs,
      inputs,
      parts: [
        { type: 'F32', rows: outputs, bytes: new Uint8Array(numbers(seed, outputs * inputs).map((x) => x / 8).buffer) },
      ],
    };
  return {
    outputs,
    inputs,
    parts: [
      {
        type: 'Q8_0',
        rows: outputs,
        bytes: storedBytes('Q8_0', outputs, inputs, random(seed)).map((byte, i) => (i % 34 === 1 ? 0x14 : byte)),
      },
    ],
  };
}

/**
 * Programs of any instructions in any order that their widths allow, with every value an output or not, including
 * programs that no decoder has yet.
 */
const programs = fc
  .record({
    widths: fc.array(fc.constantFrom(8, 16, 32), { minLength: 1, maxLength: 2 }),
    picks: fc.array(
      fc.record({
        op: fc.constantFrom(
          'rmsNorm',
          'linear',
          'linear',
          'columns',
          'rope',
          'gated',
          'gatedBy',
          'add',
          'add',
          'scale',
          'softcap',
          'heads',
        ),
        x: fc.nat(),
        y: fc.nat(),
        way: fc.nat({ max: 1000 }),
        shown: fc.boolean(),
      }),
      { minLength: 1, maxLength: 10 },
    ),
    m: fc.constantFrom(1, 2, 9),
    rotary: fc.constantFrom(2, 4),
  })
  .map(({ widths, picks, m, rotary }) => {
    const inputs: RowsValue[] = widths.map((width, id) => ({ id, width })),
      values = [...inputs],
      instructions: Instruction[] = [],
      outputs: RowsValue[] = [];
    for (const { op, way, shown, ...pick } of picks) {
      const newest = way % 2 === 0 ? values.length - 1 : pick.x % values.length,
        x = values[newest],
        out = (width: number): RowsValue => ({ id: 100 + instructions.length, width });
      const like = values.filter(({ width }) => width === x.width),
        y = like[pick.y % like.length],
        outputsOf = 8 * 2 ** (way % 3);
      const made: Instruction | undefined =
        op === 'rmsNorm'
          ? { op, x, gain: numbers(way, way % 3 ? x.width : headDim), eps: 1e-5, out: out(x.width) }
          : op === 'linear'
            ? {
                op,
                name: 'w',
                x,
                weight: weightOf(way, outputsOf, x.width),
                ...(way % 3 === 0 && { bias: numbers(way + 1, outputsOf) }),
                out: out(outputsOf),
              }
            : op === 'columns' && x.width >= 16
              ? { op, x, from: 4 * (way % 3), out: out(8) }
              : op === 'rope'
                ? { op, x, headDim, rotary, out: out(x.width) }
                : op === 'gated' && x.width >= 16
                  ? { op, x, activation: way % 2 ? 'silu' : 'gelu', out: out(x.width / 2) }
                  : op === 'gatedBy'
                    ? { op, x, y, activation: way % 2 ? 'silu' : 'gelu', out: out(x.width) }
                    : op === 'scale'
                      ? { op, x, by: (1 + (way % 7)) / 3, out: out(x.width) }
                      : op === 'softcap'
                        ? { op, x, cap: 1 + (way % 5), out: out(x.width) }
                        : op === 'add'
                          ? { op, x, y, out: out(x.width) }
                          : op === 'heads'
                            ? { op, x, headDim, out: out(x.width) }
                            : undefined;
      if (made === undefined) continue;
      instructions.push(made);
      if (made.op !== 'heads') values.push(made.out);
      if (made.op === 'heads' || shown) outputs.push(made.out);
    }
    if (outputs.length === 0) outputs.push(values.at(-1)!);
    const program: Program = { name: 'any', inputs, instructions, outputs },
      turns = Float32Array.from({ length: (m * rotary) / 2 }, (_, i) => i * 0.7);
    const angles: Angles = { rotary, cos: turns.map(Math.cos), sin: turns.map(Math.sin) };
    return { program, m, angles, given: inputs.map(({ width }, i) => numbers(i + 5, m * width)) };
  });

/** What a program gives of m rows, read. */
const runOn = (
  gpu: Gpu,
  program: DeviceRunnable,
  given: readonly Float32Array[],
  m: number,
  angles?: Angles,
): Promise<readonly Float32Array[]> =>
  gpu.scope(async ({ commands, read }) => {
    const rows = (data: Float32Array): Tensor => commands.upload(data, [m, m === 0 ? data.length : data.length / m]),
      turned = angles && { rotary: angles.rotary, cos: rows(angles.cos), sin: rows(angles.sin) };
    const results = await read(program.encode(commands, given.map(rows), m, turned));
    return results.map(({ data }) => data as Float32Array);
  });

const close = (got: readonly Float32Array[], want: readonly Float32Array[], what: string): void => {
  expect(got.map((x) => x.length)).toEqual(want.map((x) => x.length));
  for (const [i, w] of want.entries()) {
    const size = w.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-3);
    for (const [j, v] of w.entries())
      if (!(Math.abs(got[i][j] - v) <= 2e-4 * size)) expect.fail(`${what}, output ${i} at ${j}: ${got[i][j]} for ${v}`);
  }
};

gpuTest('any program gives what the plain loops give, twice, and leaves nothing but its weights', (gpu) =>
  everywhere(
    programs,
    async ({ program, m, angles, given }) => {
      const engine = gpuEngine(gpu),
        device = await engine.prepare(program),
        host = await referenceEngine().prepare(program);
      const want = await host.run(given, m, angles),
        before = given.map((x) => x.slice()),
        { live } = gpu.ledger;
      for (let turn = 0; turn < 2; turn++) {
        const { submits, readbacks } = { ...gpu.counters };
        close(await runOn(gpu, device, given, m, angles), want, `turn ${turn}`);
        expect(gpu.counters.readbacks - readbacks).toBe(1);
        expect(gpu.counters.submits - submits).toBeLessThanOrEqual(1);
      }
      expect(given).toEqual(before);
      expect(gpu.ledger.live).toBeLessThanOrEqual(live + 65_536); // the scalars, at the first run of all
      device.destroy();
      await expect(runOn(gpu, device, given, m, angles)).rejects.toThrow('any: the program was destroyed');
    },
    16,
  ),
);

gpuTest('programs recorded one after another go up in one submit', async (gpu) => {
  const x: RowsValue = { id: 0, width: 8 },
    out: RowsValue = { id: 1, width: 8 },
    weight = weightOf(3, 8, 8),
    program: Program = {
      name: 'step',
      inputs: [x],
      instructions: [{ op: 'linear', name: 'w', x, weight, out }],
      outputs: [out],
    };
  const step = await gpuEngine(gpu).prepare(program),
    host = await referenceEngine().prepare(program),
    given = numbers(1, 16);
  const before = { ...gpu.counters };
  const got = await gpu.scope(async ({ commands, ops, read }) => {
    const [once] = step.encode(commands, [commands.upload(given, [2, 8])], 2),
      [again] = step.encode(commands, [ops.mul(once, 2)], 2);
    return (await read([again]))[0].data as Float32Array;
  });
  expect({ ...gpu.counters }).toMatchObject({
    dispatches: before.dispatches + 3,
    submits: before.submits + 1,
    readbacks: before.readbacks + 1,
  });
  const [first] = await host.run([given], 2);
  close([got], await host.run([first.map((v) => 2 * v)], 2), 'two steps');
  step.destroy();
});

gpuTest('what does not fit is said in one sentence, and nothing is left', async (gpu) => {
  const x: RowsValue = { id: 0, width: 4 },
    out: RowsValue = { id: 1, width: 4 },
    turning = await gpuEngine(gpu).prepare({
      name: 'turning',
      inputs: [x],
      instructions: [{ op: 'rope', x, headDim: 4, rotary: 4, out }],
      outputs: [out],
    });
  const live = gpu.ledger.live,
    angles = { rotary: 2, cos: new Float32Array(1), sin: new Float32Array(1) };
  await expect(runOn(gpu, turning, [new Float32Array(4)], 1)).rejects.toThrowErrorMatchingInlineSnapshot(
    `[KvError: turning: expected the angles of its rows, got none]`,
  );
  await expect(runOn(gpu, turning, [new Float32Array(4)], 1, angles)).rejects.toThrowErrorMatchingInlineSnapshot(
    `[KvError: turning: expected angles for 4 numbers of a head, got 2]`,
  );
  expect(gpu.ledger.live).toBe(live);
  expect(
    await runOn(gpu, turning, [new Float32Array(0)], 0, {
      rotary: 4,
      cos: new Float32Array(0),
      sin: new Float32Array(0),
    }),
  ).toEqual([new Float32Array(0)]);
  turning.destroy();
});
