import { describe, expect, test } from 'vitest';
import {
  cpuRuntime,
  generate,
  hostRuntime,
  loadModel,
  onnxEngine,
  type HostModel,
  type HostRunning,
  type Runtime,
  type Weights,
} from '../src/index.ts';
import { dense, linearEngine, referenceLinear, tensorTypes, type Matrix } from '../src/engine.ts';
import { familyFiles, fixture, wanted } from './fixture.ts';
import { ort } from './ort.ts';

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

/** A runtime that finds every product quantised; `types` gets those of all parts. */
const overQuantised = (runtime: Runtime<HostRunning>, types: string[]): Runtime<HostRunning> => ({
  name: runtime.name,
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
    return runtime.start({ ...source, weights: all });
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

/** What runs weights as stored: ONNX Runtime, and this package's module. */
const runtimes: readonly (readonly [name: string, runtime: Runtime<HostRunning>])[] = [
  ['ONNX Runtime', hostRuntime({ engine: onnxEngine(ort, { weights: 'stored' }) })],
  [
    'the module',
    cpuRuntime({
      exact: false,
      threads: 1,
      warn: (sentence) => {
        throw new Error(sentence);
      },
    }),
  ],
];
const exact = hostRuntime({ engine: linearEngine(referenceLinear) });

describe.each(familyFiles)('%s/%s', (name, file) => {
  test.each(runtimes)('on %s: logits near those of the same weights in f32', async (_, runtime) => {
    const types: string[] = [],
      open = (by: Runtime<HostRunning>): Promise<HostModel> =>
        loadModel(fixture(`${name}/${file}`), { runtime: overQuantised(by, types) });
    const [one, other] = [await open(exact), await open(runtime)],
      { ids } = wanted(name, file)[0];
    expect(types.filter((type) => type === 'Q8_0').length).toBeGreaterThanOrEqual(types.length / 2);
    for (const block of [ids.length, 5]) {
      const options = { ids, block, maxNewTokens: 0, logits: ids.length };
      const [a, b] = [(await generate(one, options)).logits!, (await generate(other, options)).logits!],
        off = b.map((row, i) => row.map((x, j) => x - a[i][j]));
      expect(b.length).toBe(ids.length);
      expect(Math.sqrt(squares(off) / squares(a))).toBeLessThan(bounds[name]);
    }
    one.destroy();
    other.destroy();
  });
});
