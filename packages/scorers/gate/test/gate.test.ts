import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { KvError } from '@kv/core';
import { apply, cpu } from '@kv/cpu';
import { runInputSignal } from '@kv/core/engine';
import type { LayerContext } from '@kv/core';
import { each, inputSignalLaws, kernelLaws, scene, scorerLaws, sceneSpecs } from '@kv/laws';
import { gate, GATE_FILE, gateFile, gateScores, gelu, layerGate, readGate } from '../src/index.ts';
import type { LayerGate } from '../src/index.ts';
import { gateOracle, geluOracle } from './gate.oracle.ts';

/** Returns a gate of made-up numbers. @param units of a hidden map, or 0 */
function made(width: number, kvHeads: number, units: number, seed = 1): LayerGate {
  const sines = (count: number, by: number): Float32Array =>
      Float32Array.from({ length: count }, (_, i) => Math.sin(by * (i + seed)) / Math.sqrt(width)),
    inputs = units || width;
  return {
    width,
    kvHeads,
    ...(units > 0 && { hidden: { weight: sines(units * width, 1.7), bias: sines(units, 0.3) } }),
    output: { weight: sines(kvHeads * inputs, 2.3), bias: sines(kvHeads, 0.9) },
  };
}

describe.each([
  ['linear', 0],
  ['with a hidden map', 9],
])('the signal, %s', (_, units) => {
  each(
    inputSignalLaws(gateScores, {
      files: (__, { kvHeads }, width) => made(width, kvHeads, units),
      runs: 40,
    }),
    test,
  );
});

describe('the scorer', () => {
  each(
    scorerLaws(gate({ window: 2 }), {
      signals: (signal, { at: { kvHeads: G, queryHeads: H, slots: n }, lengths, attention }, ops) =>
        signal.id === gateScores.id
          ? ops.from(
              {
                data: Float32Array.from(
                  { length: G * n },
                  (_, i) => 4 * attention[Math.floor(i / n) * (H / G) * n + (i % n)] - 9,
                ),
                shape: [G, n],
              },
              'f32',
              ops.from({ data: Uint32Array.from(lengths), shape: [G] }, 'u32'),
            )
          : undefined,
      runs: 40,
    }),
    test,
  );
});

const context = (kvHeads: number): LayerContext => scene({ ...fc.sample(sceneSpecs(), 1)[0], kvHeads }).layers[0].at;

test('agrees with the oracle in f64', async () => {
  const finite = fc.double({ min: -20, max: 20, noNaN: true });
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        width: fc.integer({ min: 1, max: 24 }),
        kvHeads: fc.integer({ min: 1, max: 3 }),
        units: fc.nat(6),
        seed: fc.nat(99),
      }),
      fc.array(fc.array(finite, { minLength: 24, maxLength: 24 }), { minLength: 1, maxLength: 9 }),
      async ({ width, kvHeads, units, seed }, tokens) => {
        const own = made(width, kvHeads, units, seed),
          x = tokens.map((row) => Array.from(Float32Array.from(row.slice(0, width)))),
          [{ data }] = await cpu.read([
            runInputSignal(gateScores, {
              at: context(kvHeads),
              ops: cpu.ops,
              input: cpu.ops.from({ data: Float32Array.from(x.flat()), shape: [1, x.length, width] }),
              read: () => own,
            }),
          ]);
        x.forEach((row, i) =>
          gateOracle(own, row).forEach((want, g) =>
            expect(Math.abs(data[g * x.length + i] - want)).toBeLessThanOrEqual(2e-5 * Math.max(1, Math.abs(want))),
          ),
        );
      },
    ),
    { numRuns: 60 },
  );
});

describe('GELU', () => {
  each(kernelLaws(gelu, { runs: 20 }), test);
  test('is that of the error function', async () => {
    const x = Float32Array.from({ length: 400 }, (_, i) => (i - 200) / 20),
      [{ data }] = await cpu.read([cpu.ops.kernel(gelu, { x: cpu.ops.from({ data: x, shape: [1, 400] }) })]);
    x.forEach((z, i) => expect(Math.abs(data[i] - geluOracle(z))).toBeLessThanOrEqual(2e-6));
  });
});

test('sinks and the last positions stay; the others by their scores', () => {
  const { scores } = apply(gate({ sinks: 1, window: 1 }), { gateScores: [[-9, -4, -2, -3]] });
  expect(Array.from(scores.data)).toEqual([-9, -4, -2, -3]);
});
test('nothing but an engine makes its numbers', () => {
  expect(() => apply(gate(), { keys: { data: new Float32Array(4), shape: [1, 2, 2] } })).toThrow(
    "gate: needs the signal input.gateScores: pass it as 'gateScores', got keys",
  );
});

describe('the file next to the model', () => {
  const rows = (units: number): LayerGate[] => [made(3, 2, units), made(3, 1, units, 5)]; // layers of other heads
  test.each([0, 4])('is read back, a gate a layer (%i units)', async (units) => {
    const file = gateFile(rows(units), { fingerprint: 'f' });
    expect(readGate(file)).toEqual(rows(units));
    expect(
      await layerGate.provide!(
        { artifact: async (name: string) => (name === GATE_FILE ? file : undefined) } as never,
        1,
      ),
    ).toEqual(rows(units)[1]);
  });
  test('that is missing, of another model, or no such file is one sentence', async () => {
    await expect(layerGate.provide!({ artifact: async () => undefined } as never, 0)).rejects.toThrow(
      "gate: expected gate.safetensors next to the model, got none: make it with 'kv gate --model MODEL --text FILES'",
    );
    await expect(layerGate.provide!({ artifact: async () => gateFile(rows(0)) } as never, 2)).rejects.toThrow(
      'expected gates of layer 2, got 2 layers: they are of another model',
    );
    const run = (own: LayerGate) => () =>
      runInputSignal(gateScores, {
        at: context(2),
        ops: cpu.ops,
        input: cpu.ops.from({ data: new Float32Array(3), shape: [1, 1, 3] }),
        read: () => own,
      });
    expect(run(made(4, 2, 0))).toThrow('gate: expected a gate of 3 channels and 2 KV heads in layer 0, got 4 and 2');
    expect(run(made(3, 1, 0))).toThrow('got 3 and 1: it is of another model');
    const text = (from: string, to: string): Uint8Array =>
      Uint8Array.from(
        Buffer.from(gateFile(rows(0)))
          .toString('latin1')
          .replace(from, to),
        (c) => c.charCodeAt(0),
      );
    for (const [from, to, says] of [
      [
        '"layers":"2"',
        '"layers":"0"',
        "expected 'layers' from 1 to 4096 and 'kind' linear or mlp in its metadata, got 0 and linear",
      ],
      ['"kind":"linear"', '"kind":"other!"', 'got 2 and other!'],
      [
        '"shape":[2,3]',
        '"shape":[6,1]',
        "expected '0.output' as weights [outputs, inputs] and a bias [outputs], got [6, 1] and [2]",
      ],
      ['"0.output.bias"', '"0.other!.bias"', "expected '0.output.bias' as f32, f16 or bf16 inside the file"],
    ] as const)
      expect(() => readGate(text(from, to)), from).toThrow(says);
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        expect(() => readGate(bytes)).toThrow(KvError);
      }),
      { numRuns: 50 },
    );
  });
});
