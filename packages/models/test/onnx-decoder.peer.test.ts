import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { compose } from '@kv/core';
import { h2o } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import { describe, expect, test } from 'vitest';
import { generate, loadModel, onnxRuntime } from '../src/index.ts';
import type { GenerateResult, HostModel } from '../src/index.ts';
import { onnxEngine } from '@kv/engine-onnx';
import type { Engine } from '@kv/engine';
import { ort, ortFolder } from '@kv/model-testing/ort';
import { relative } from '@kv/engine-testing/run';
import { fixture, goldenOutputs } from '@kv/model-testing/fixture';
import { reference } from '@kv/model-testing/reference';
import { referenceEngine, commonHeads } from '@kv/engine';

const open = (kind: string, engine: Engine): Promise<HostModel> =>
  loadModel(reference(`data/goldens/${kind}`), { engine });

describe.each(['llama', 'qwen2', 'qwen3'])('%s on ONNX Runtime', (kind) => {
  test('projects and finishes as the plain loops do, in and out of turn', async () => {
    const [want, got] = await Promise.all([open(kind, referenceEngine()), open(kind, onnxEngine(ort, { threads: 2 }))]);
    const close = (a: Float32Array, b: Float32Array): void => {
      const size = b.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
      expect(a.length).toBe(b.length);
      expect(a.reduce((most, x, i) => Math.max(most, Math.abs(x - b[i])), 0)).toBeLessThan(1e-5 * size);
    };
    const {
        config,
        config: { hidden, queryHeads },
      } = want,
      { headDim } = commonHeads(config),
      m = 5,
      attended = Float32Array.from({ length: m * queryHeads * headDim }, (_, i) => Math.sin(i));
    const positions = Uint32Array.of(0, 1, 2, 3, 9),
      later = positions.map((p) => p + 20);
    const compare = async (x: readonly [Float32Array, Float32Array], layer: number, at: Uint32Array): Promise<void> => {
      const [a, b] = [await got.decoder.project(layer, x[0], at), await want.decoder.project(layer, x[1], at)];
      for (const name of ['q', 'k', 'v'] as const) close(a[name], b[name]);
    };
    const x = want.decoder.embed([5, 6, 7, 8, 9]);
    await compare([x, x], 0, positions);
    const one = [await got.decoder.finish(0, x, attended), await want.decoder.finish(0, x, attended)] as const;
    close(...one);
    await compare(one, 1, positions); // computed in advance
    await compare(one, 1, later); // other positions
    await compare([one[0].subarray(hidden), one[1].subarray(hidden)], 1, positions.subarray(1)); // other rows
    const two = [
      await got.decoder.finish(1, one[0], attended),
      await want.decoder.finish(1, one[1], attended),
    ] as const;
    close(...two); // more rows than were rotated last
    close(await got.decoder.logits(two[0]), await want.decoder.logits(two[1]));
    got.destroy();
  });
});

test('a policy keeps the same slots and writes the same tokens on either engine', async () => {
  const ids = Array.from({ length: 120 }, (_, i) => (i * 37) % 500),
    policy = compose(h2o(), topK());
  const run = async (engine: Engine): Promise<GenerateResult> =>
    generate(await open('llama', engine), { ids, policy, budget: 48, block: 32, maxNewTokens: 12 });
  const [want, got] = [await run(referenceEngine()), await run(onnxEngine(ort))];
  expect(got.tokens).toEqual(want.tokens);
  expect(got.report.kept).toEqual(want.report.kept);
});

// shared slots and inputs of layers; values of keys and heads that differ by layer
test.each(['gemma4', 'gemma4-keys'])('%s: logits of transformers; a policy keeps the same slots', async (name) => {
  const [{ ids, logits }] = goldenOutputs(name, '.'),
    run = async (engine: Engine): Promise<readonly [whole: GenerateResult, evicted: GenerateResult]> => {
      const model = await loadModel(fixture(name), { engine }),
        policy = compose(h2o({ recent: 4 }), topK()),
        some = { ids, policy, budget: 12, block: 16, every: 3, maxNewTokens: 8, logits: 1 };
      const both = [await generate(model, { ids, maxNewTokens: 0, logits: 1 }), await generate(model, some)] as const;
      model.destroy();
      return both;
    };
  const [[whole, got], [, want]] = [await run(onnxEngine(ort)), await run(referenceEngine())];
  expect(relative(whole.logits![0], logits[ids.length - 1])).toBeLessThan(1e-5);
  expect(got.tokens).toEqual(want.tokens);
  expect(got.report.kept).toEqual(want.report.kept);
});

test('onnxRuntime takes the ONNX Runtime of a folder, and says so where it does not load', async () => {
  const from = fileURLToPath(ortFolder),
    empty = mkdtempSync(join(tmpdir(), 'kv-onnx-'));
  expect((await onnxRuntime({ from, threads: 1 })).name).toBe('onnxruntime-node, f32, 1 thread');
  mkdirSync(join(empty, 'node_modules/onnxruntime-node'), { recursive: true });
  writeFileSync(join(empty, 'node_modules/onnxruntime-node/index.js'), 'throw new Error("no library here")');
  await expect(onnxRuntime({ from: empty })).rejects.toThrow(
    'onnxruntime-node: is installed but did not load: no library here',
  );
});
