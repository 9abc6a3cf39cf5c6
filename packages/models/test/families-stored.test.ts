import { describe, expect, test } from 'vitest';
import {
  dense,
  hostRuntime,
  linearEngine,
  loadModel,
  onnxEngine,
  referenceLinear,
  tensorTypes,
  type HostEngine,
  type HostModel,
  type HostRunning,
  type Matrix,
  type Runtime,
  type Weights,
} from '../src/index.ts';
import { familyFiles, fixture, wanted } from './fixture.ts';
import { ort } from './ort.ts';
import { emptyCaches, run } from './run.ts';

/** Blocks of Q8_0 hold 32 numbers: a scale of f16, here a power of two, and 32 bytes. */
const { numbers: BLOCK, bytes: SIZE } = tensorTypes.Q8_0;

/** A matrix in Q8_0, or as it is where its rows are no whole blocks. */
function quantised(matrix: Matrix): Matrix {
  const { inputs, outputs } = matrix;
  if (inputs % BLOCK !== 0) return matrix;
  const values = dense(matrix),
    bytes = new Uint8Array((values.length / BLOCK) * SIZE),
    view = new DataView(bytes.buffer);
  for (let b = 0; b < values.length / BLOCK; b++) {
    const block = values.subarray(b * BLOCK, (b + 1) * BLOCK),
      largest = block.reduce((most, x) => Math.max(most, Math.abs(x)), 2 ** -7),
      exponent = Math.ceil(Math.log2(largest / 127));
    view.setUint16(b * SIZE, (exponent + 15) << 10, true);
    for (const [i, x] of block.entries()) view.setInt8(b * SIZE + 2 + i, Math.round(x / 2 ** exponent));
  }
  return { inputs, outputs, parts: [{ type: 'Q8_0', rows: outputs, bytes }] };
}

/** A runtime over an engine that finds every product quantised; `types` gets those of all parts. */
const overQuantised = (engine: HostEngine, types: string[]): Runtime<HostRunning> => ({
  name: engine.name,
  start: ({ weights, ...source }) => {
    const note = (matrix: Matrix): Matrix => {
      types.push(...matrix.parts.map(({ type }) => type));
      return matrix;
    };
    const all: Weights = {
      ...weights,
      embed: async () => quantised(await weights.embed()),
      head: async () => quantised(await weights.head()),
      async project(layer) {
        const { qkv, ...rest } = await weights.project(layer);
        return { ...rest, qkv: note(quantised(qkv)) };
      },
      async finish(layer) {
        const { output, gateUp, down, ...rest } = await weights.finish(layer);
        return {
          ...rest,
          output: note(quantised(output)),
          gateUp: note(quantised(gateUp)),
          down: note(quantised(down)),
        };
      },
    };
    return hostRuntime({ engine }).start({ ...source, weights: all });
  },
});

/** Root mean squares over those of the logits, about twice what was seen: silu in the place of gelu gives six times as much. */
const bounds: Readonly<Record<string, number>> = {
  llama: 0.04,
  llama32: 0.06,
  mistral: 0.05,
  nemo: 0.05,
  qwen2: 0.06,
  qwen3: 0.04,
  'qwen3-yarn': 0.04,
  phi3: 0.05,
  phi4: 0.06,
  gemma2: 0.015,
  gemma3: 0.015,
  smollm3: 0.1,
  olmo2: 0.025,
  granite: 0.025,
};
const squares = (rows: readonly Float32Array[]): number =>
  rows.reduce((sum, row) => sum + row.reduce((all, x) => all + x * x, 0), 0);

describe.each(familyFiles)('%s/%s', (name, file) => {
  test('quantised weights as stored, activations in 8 bits: logits near those of the same weights in f32', async () => {
    const types: string[] = [],
      open = (engine: HostEngine): Promise<HostModel> =>
        loadModel(fixture(`${name}/${file}`), { runtime: overQuantised(engine, types) });
    const exact = await open(linearEngine(referenceLinear)),
      fast = await open(onnxEngine(ort, { weights: 'stored' }));
    expect(types.filter((type) => type === 'Q8_0').length).toBeGreaterThanOrEqual(types.length / 2);
    const { ids } = wanted(name, file)[0],
      want = ids.map((_, i) => i);
    for (const block of [ids.length, 5]) {
      const [a, b] = await Promise.all(
        [exact, fast].map(({ decoder }) => run(decoder, emptyCaches(decoder), ids, { want, block })),
      );
      const off = b.map((row, i) => row.map((x, j) => x - a[i][j]));
      expect(Math.sqrt(squares(off) / squares(a))).toBeLessThan(bounds[name]);
    }
    exact.destroy();
    fast.destroy();
  });
});
