import { describe, expect, test } from 'vitest';
import { cpuRuntime, generate, hostRuntime, loadModel } from '../src/index.ts';
import type { HostModel, RunningHostModel, Runtime } from '../src/index.ts';
import { onnxEngine } from '@kv/engine-onnx';
import { inTurn } from '@kv/model-testing/in-turn';
import { familyFiles, fixture, goldenOutputs, hasExperts } from '@kv/model-testing/fixture';
import { ort } from '@kv/model-testing/ort';
import { overQuantised } from '@kv/engine-testing/quantised';
import { referenceEngine } from '@kv/engine';

/**
 * Bounds on the error's root mean square relative to the logits', about twice the observed values; silu instead of gelu
 * gives six times as much.
 */
const bounds: Readonly<Record<string, number>> = {
  llama: 0.04,
  llama32: 0.06,
  mistral: 0.05,
  nemo: 0.05,
  ministral3: 0.1,
  'ministral3-untied': 0.1,
  qwen2: 0.06,
  qwen3: 0.04,
  'qwen3-yarn': 0.04,
  phi3: 0.05,
  phi4: 0.06,
  gemma2: 0.015,
  gemma3: 0.015,
  gemma4: 0.04,
  'gemma4-experts': 0.05,
  'gemma4-experts-shared': 0.05,
  'gemma4-keys': 0.04,
  'gemma4-unshared': 0.05,
  smollm3: 0.1,
  olmo2: 0.025,
  olmo3: 0.05,
  'olmo3-biased': 0.05,
  granite: 0.025,
  granite_swa: 0.09,
  'granite_swa-thetas': 0.08,
  granitemoe: 0.05,
  granitemoehybrid: 0.03,
  'granitemoehybrid-attention': 0.02,
  'granitemoehybrid-biased': 0.035,
  'granitemoehybrid-experts': 0.08,
  'granitemoehybrid-experts-untied': 0.05,
  'granitemoehybrid-untied': 0.035,
  lfm2: 0.06,
  'lfm2-biased': 0.06,
  'lfm2-untied': 0.1,
  lfm3: 0.1,
  'lfm3-plain': 0.1,
  qwen3_5: 0.2,
  'qwen3_5-biased': 0.11,
  'qwen3_5-untied': 0.13,
  gpt_oss: 0.2,
  qwen3_moe: 0.2,
  'qwen3_moe-tied': 0.2,
  lfm2_moe: 0.2,
  'lfm2_moe-untied': 0.2,
  qwen3_5_moe: 0.3,
  'qwen3_5_moe-untied': 0.3,
};
const squares = (rows: readonly Float32Array[]): number =>
  rows.reduce((sum, row) => sum + row.reduce((all, x) => all + x * x, 0), 0);

/** Runtimes that compute with weights as stored: ONNX Runtime, and this package's module. */
const runtimes: readonly (readonly [name: string, runtime: Runtime<RunningHostModel>])[] = [
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
const exact = hostRuntime({ engine: referenceEngine() });

/** Rows of 40 and 24 numbers are no whole blocks. */
const files = familyFiles.filter(([name]) => name !== 'gpt_oss-tied');

describe.each(inTurn(files, 6))('%s/%s', (name, file) => {
  // ONNX Runtime runs no routed experts
  test.each(runtimes.filter(([of]) => of !== 'ONNX Runtime' || !hasExperts(name)))(
    'on %s: logits near those of the same weights in f32',
    async (_, runtime) => {
      const types: string[] = [],
        open = (by: Runtime<RunningHostModel>): Promise<HostModel> =>
          loadModel(fixture(`${name}/${file}`), { runtime: overQuantised(by, types) });
      const [one, other] = [await open(exact), await open(runtime)],
        { ids } = goldenOutputs(name, file)[0];
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
    },
  );
});
