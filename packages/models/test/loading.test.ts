import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readSafetensors, fileSource, checkpointWeights, parseConfig } from '@kv/checkpoints';
import type { CheckpointTensors } from '@kv/checkpoints';
import { createDecoder, referenceEngine } from '@kv/engine';
import type { Engine } from '@kv/engine';
import { loadModel } from '../src/index.ts';
import type { Runtime } from '../src/index.ts';
import { families, fixture, fixtureJson } from '@kv/model-testing/fixture';

test('weights are read a layer at a time, each once, and dropped before the next is read', async () => {
  const config = parseConfig(fixtureJson('gemma2/config.json'), 'gemma2'),
    file = await readSafetensors(await fileSource(fixture('gemma2/model.safetensors')));
  const events: string[] = [],
    inner = referenceEngine();
  let [waiting, most] = [0, 0];
  const watched: CheckpointTensors = {
    ...file,
    bytes: async (name) => {
      const bytes = await file.bytes(name);
      events.push(name);
      most = Math.max(most, (waiting += bytes.length));
      return bytes;
    },
  };
  const engine: Engine = {
    name: 'watched',
    prepare: async (program) => {
      const runnable = await inner.prepare(program);
      events.push(program.name);
      waiting = 0;
      return runnable;
    },
  };
  const decoder = await createDecoder(config, checkpointWeights(watched, config), engine);
  await file.close();
  expect(events.filter((name) => file.tensors.has(name)).toSorted()).toEqual([...file.tensors.keys()].toSorted());
  expect(events.filter((name) => !file.tensors.has(name))).toEqual([
    'project 0',
    'finish 0',
    'project 1',
    'finish 1',
    'project 2',
    'finish 2',
    'head',
  ]);
  // the weights between one layer's attention and the next one's: four norms, the output product,
  // gate|up, down, q|k|v, f16
  expect(most).toBe(2 * (4 * 32 + 32 * 32 + 3 * 48 * 32 + 64 * 32));
  decoder.destroy();
});

describe.each(families)('%s: an option that is not computed is named, and nothing is loaded', (name) => {
  const { text_config: text, ...whole } = fixtureJson<Record<string, unknown>>(`${name}/config.json`),
    config = { ...whole, ...(text as Record<string, unknown> | undefined) },
    scaling = { rope_type: 'dynamic', factor: 2, rope_theta: 1e4 };
  test.each<[string, Record<string, unknown>, string]>([
    [
      'another activation',
      'hidden_activation' in config ? { hidden_activation: 'relu' } : { hidden_act: 'relu' },
      /^(?:qwen3_5|granitemoehybrid)/.test(String(config.model_type))
        ? 'hidden_act must be "silu", got "relu"'
        : 'must be "silu" or "gelu_pytorch_tanh", got "relu"',
    ],
    [
      'another scaling',
      { rope_parameters: name === 'gemma3' ? { full_attention: scaling, sliding_attention: scaling } : scaling },
      'got "dynamic"',
    ],
    ['quantised safetensors', { quantization_config: { quant_method: 'awq', bits: 4 } }, 'quantization_config must be'],
    [
      'another family',
      { model_type: `${String(config.model_type)}_next` },
      'model_type must be one of llama, mistral,',
    ],
  ])('%s', async (_, change, sentence) => {
    const folder = mkdtempSync(join(tmpdir(), 'kv-refused-'));
    try {
      cpSync(fixture(`${name}/tokenizer.json`), join(folder, 'tokenizer.json'));
      writeFileSync(join(folder, 'config.json'), JSON.stringify({ ...config, ...change }));
      writeFileSync(join(folder, 'model.safetensors'), 'no weights: reading them would fail');
      let started = 0;
      const runtime: Runtime<never> = {
        name: 'counting',
        start: () => {
          started++;
          throw new Error('started');
        },
      };
      const refusal = await loadModel(folder, { runtime }).catch((error: Error) => error.message);
      expect(refusal).toContain(join(folder, 'config.json'));
      expect(refusal).toContain(sentence);
      expect(started).toBe(0);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

test('what was prepared is destroyed when a later weight is broken', async () => {
  const config = parseConfig(fixtureJson('llama/config.json'), 'llama'),
    file = await readSafetensors(await fileSource(fixture('llama/model.safetensors')));
  const spoilt: CheckpointTensors = {
    ...file,
    bytes: async (name) =>
      name.includes('layers.1.mlp.down_proj.weight') ? (await file.bytes(name)).fill(0x7c) : file.bytes(name),
  };
  let alive = 0;
  const engine: Engine = {
    name: 'counting',
    prepare: async () => {
      alive++;
      return { run: async () => [], destroy: () => void alive-- };
    },
  };
  await expect(createDecoder(config, checkpointWeights(spoilt, config), engine)).rejects.toThrow(
    'model.layers.1.mlp.down_proj.weight must hold finite numbers, got NaN or an infinity at index 0',
  );
  expect(alive).toBe(0);
  await file.close();
});
