import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { KvError } from '@kv/core';
import { apply, cpu } from '@kv/cpu';
import { runInputSignal } from '@kv/core/engine';
import type { LayerContext } from '@kv/core';
import { each, inputSignalLaws, kernelLaws, scene, scorerLaws, sceneSpecs } from '@kv/laws';
import { gate, GATE_FILE, gateFile, gateScores, gelu, layerGate, readGate } from '../src/index.ts';
import type { Affine, LayerGate } from '../src/index.ts';
import { gateOracle, geluOracle } from './gate.oracle.ts';

const KINDS = ['linear', 'with a hidden map', 'competing'] as const;
type Kind = (typeof KINDS)[number];
/** Returns a gate of made-up numbers. */
function made(kind: Kind, width: number, kvHeads: number, seed = 1): LayerGate {
  const sines = (count: number, by: number): Float32Array =>
      Float32Array.from({ length: count }, (_, i) => Math.sin(by * (i + seed))),
    affine = (outputs: number, inputs: number, by: number): Affine => ({
      weight: sines(outputs * inputs, by).map((x) => x / Math.sqrt(inputs)),
      bias: sines(outputs, by / 3),
    });
  if (kind === 'linear') return { width, kvHeads, output: affine(kvHeads, width, 2.3) };
  if (kind === 'with a hidden map')
    return { width, kvHeads, hidden: affine(9, width, 1.7), output: affine(kvHeads, 9, 2.3) };
  const [R, S, c] = [1 + (seed % 3), 3, 4];
  return {
    width,
    kvHeads,
    query: affine(kvHeads * R * c, width, 1.1),
    key: affine(kvHeads * c, width, 0.7).weight,
    gains: { query: sines(c, 0.4), key: sines(c, 0.5) },
    base: sines(kvHeads * S * c, 1.9),
    bias: sines(kvHeads * R, 2.9),
  };
}

describe.each(KINDS)('the signal, %s', (kind) => {
  each(
    inputSignalLaws(gateScores, {
      files: (_, { kvHeads }, width) => made(kind, width, kvHeads),
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

test.each(KINDS)('agrees with the oracle in f64, %s', async (kind) => {
  const finite = fc.double({ min: -20, max: 20, noNaN: true });
  await fc.assert(
    fc.asyncProperty(
      fc.record({ width: fc.integer({ min: 1, max: 24 }), kvHeads: fc.integer({ min: 1, max: 3 }), seed: fc.nat(99) }),
      fc.array(fc.array(finite, { minLength: 24, maxLength: 24 }), { minLength: 1, maxLength: 9 }),
      async ({ width, kvHeads, seed }, tokens) => {
        const own = made(kind, width, kvHeads, seed),
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
            expect(Math.abs(data[g * x.length + i] - want)).toBeLessThanOrEqual(1e-4 * Math.max(1, Math.abs(want))),
          ),
        );
      },
    ),
    { numRuns: 40 },
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
  const rows = (kind: Kind): LayerGate[] => [made(kind, 3, 2), made(kind, 3, 1, 5)]; // layers of other heads
  test.each(KINDS)('is read back, a gate a layer, %s', async (kind) => {
    const file = gateFile(rows(kind), { fingerprint: 'f' });
    expect(readGate(file)).toEqual(rows(kind));
    const artifact = async (name: string) => (name === GATE_FILE ? file : undefined);
    expect(await layerGate.provide!({ artifact } as never, 1)).toEqual(rows(kind)[1]);
  });
  test('that is missing, of another model, or no such file is one sentence', async () => {
    const asked = (file: Uint8Array | undefined, layer: number) =>
      layerGate.provide!({ artifact: async () => file } as never, layer);
    await expect(asked(undefined, 0)).rejects.toThrow(
      "gate: expected gate.safetensors next to the model, got none: make it with 'kv gate --model MODEL --text FILES'",
    );
    await expect(asked(gateFile(rows('linear')), 2)).rejects.toThrow(
      'expected gates of layer 2, got 2 layers: they are of another model',
    );
    const run = (own: LayerGate) => () =>
      runInputSignal(gateScores, {
        at: context(2),
        ops: cpu.ops,
        input: cpu.ops.from({ data: new Float32Array(3), shape: [1, 1, 3] }),
        read: () => own,
      });
    for (const kind of KINDS) {
      expect(run(made(kind, 4, 2))).toThrow(
        'gate: expected a gate of 3 channels and 2 KV heads in layer 0, got 4 and 2',
      );
      expect(run(made(kind, 3, 1))).toThrow('got 3 and 1: it is of another model');
    }
    const text = (kind: Kind, from: string, to: string): Uint8Array =>
      Uint8Array.from(
        Buffer.from(gateFile(rows(kind)))
          .toString('latin1')
          .replace(from, to),
        (c) => c.charCodeAt(0),
      );
    for (const [kind, from, to, says] of [
      [
        'linear',
        '"layers.0.weight"',
        '"layers.0.weighs"',
        'expected the weights of a gate for each of 1 to 4095 layers, such as layers.0.weight, got 4 other tensors',
      ],
      ['linear', '"shape":[2]', '"shape":[ ]', "expected 'layers.0.bias' as f32, f16 or bf16 inside the file"],
      ['linear', '"layers.1.bias"', '"layers.2.bias"', "expected 'layers.1.bias' as f32, f16 or bf16 inside the file"],
      ['with a hidden map', '"shape":[2,9]', '"shape":[9,2]', "expected 'layers.0.2.weight' as [any, 9], got [9, 2]"],
      [
        'competing',
        '"shape":[2,1,3,4]',
        '"shape":[2,3,1,4]',
        "expected 'layers.0.k_base' as [any, 1, any, any], got [2, 3, 1, 4]",
      ],
      ['competing', '"shape":[16,3]', '"shape":[3,16]', "expected 'layers.0.q_proj.weight' as [16, any], got [3, 16]"],
    ] as const)
      expect(() => readGate(text(kind, from, to)), from).toThrow(says);
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        expect(() => readGate(bytes)).toThrow(KvError);
      }),
      { numRuns: 50 },
    );
  });
});
