import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { exportOnnx, decoderGraph } from '@kv/engine-onnx';
import { loadModel } from '../src/index.ts';
import type { ModelConfig, Weights } from '../src/index.ts';
import { createDecoder, hostDecoder, referenceEngine, commonHeads } from '@kv/engine';
import {
  createTokenizer,
  dense,
  matrixOf,
  openCheckpoint,
  parseConfig,
  readGguf,
  configJson,
  fileSource,
  ggufTokenizer,
  ggufTokenizerJson,
  embeddedFolder,
} from '@kv/checkpoints';
import type { Matrix } from '@kv/checkpoints';
import {
  familyFiles,
  fixture,
  goldenOutputs,
  hasExperts,
  hasOnlyAttention,
  hasScaledQueries,
  hasSinks,
} from '@kv/model-testing/fixture';
import { logitsOf } from './exported.ts';
import { emptyCaches, relative, run } from '@kv/engine-testing/run';
import { reference } from '@kv/model-testing/reference';
import { inTurn } from '@kv/model-testing/in-turn';

const folder = mkdtempSync(join(tmpdir(), 'kv-export-'));
afterAll(() => rmSync(folder, { recursive: true }));
let next = 0;
const empty = (): string => join(folder, String(next++));

/** Divisors without a type of their own are written as LongRoPE's, with the same divisors for long sequences. */
function meant({ ropes, ...config }: ModelConfig): ModelConfig {
  return {
    ...config,
    ropes: ropes.map(({ long, reach: _, ...rope }) => {
      const same = long?.divisors.every((d, i) => d === rope.divisors?.[i]) ?? true;
      return same ? rope : { ...rope, ...(long && { long }) };
    }),
  };
}

test('a model with short convolutions, learned sinks, scaled queries, experts or layers that differ is refused in one sentence, and nothing is written', async () => {
  const to = empty();
  await expect(exportOnnx(fixture('lfm2'), to)).rejects.toThrow(
    'a graph is written of plain attention in every layer, got short convolutions in 3 of 5: ',
  );
  await expect(exportOnnx(fixture('granite_swa'), to)).rejects.toThrow(
    'a graph is written of plain attention in every layer, got learned sinks: ',
  );
  await expect(exportOnnx(fixture('ministral3'), to)).rejects.toThrow(
    'a graph is written of plain attention in every layer, got queries that are scaled by their position: ',
  );
  await expect(exportOnnx(fixture('qwen3_moe'), to)).rejects.toThrow(
    'a graph is written of plain attention in every layer, got routed experts: ',
  );
  await expect(exportOnnx(fixture('gemma4'), to)).rejects.toThrow(
    'a graph is written of plain attention in every layer, got inputs of layers: ',
  );
  await expect(exportOnnx(fixture('gemma4-keys'), to)).rejects.toThrow(
    'a graph is written of plain attention in every layer, got heads that differ by layer: ',
  );
  expect(existsSync(to)).toBe(false);
});

const plain = (name: string): boolean =>
  hasOnlyAttention(name) &&
  !hasSinks(name) &&
  !hasScaledQueries(name) &&
  !hasExperts(name) &&
  !name.startsWith('gemma4');
const exported = familyFiles.filter(([name]) => plain(name));
describe.each(inTurn(exported, 4))('%s/%s', (name, file) => {
  const kinds = (['ids', 'mask'] as const).flatMap((positions) =>
    (['fused', 'plain'] as const).map((attention) => ({ positions, attention })),
  );
  test.each(kinds)(
    'the exported graph ($attention attention, positions from $positions) gives the logits of transformers',
    async (kind) => {
      const to = empty(),
        { close, config } = await openCheckpoint(fixture(`${name}/${file}`));
      await close();
      await exportOnnx(fixture(`${name}/${file}`), to, kind);
      // The keys of the first blocks of a sequence that turns out to be longer are rotated with the short divisors.
      for (const { ids, logits } of goldenOutputs(name, file))
        for (const block of config.ropes.some(({ long }) => ids.length > (long?.beyond ?? Infinity))
          ? [ids.length]
          : [ids.length, 1, 7]) {
          const rows = await logitsOf(to, 'model.onnx', ids, block);
          for (const at of Object.keys(logits).map(Number))
            expect(relative(rows[at], logits[at]), `position ${at}, blocks of ${block}`).toBeLessThan(1e-5);
        }
    },
  );

  test('the files next to it hold the same configuration and the same tokenizer', async () => {
    const to = empty();
    await exportOnnx(fixture(`${name}/${file}`), to);
    const { config, tokenizer, close } = await openCheckpoint(fixture(`${name}/${file}`)),
      read = (other: string): unknown => JSON.parse(readFileSync(join(to, other), 'utf8'));
    await close();
    expect(meant(parseConfig(read('config.json'), 'config.json'))).toEqual(meant(config));
    expect(meant(parseConfig(JSON.parse(JSON.stringify(configJson(config))), 'made'))).toEqual(meant(config));
    const again = createTokenizer(read('tokenizer.json'), 'tokenizer.json');
    for (const text of ['the cat, a th', ' Two  spaces\n\nand 1234 éß漢', '</s> x'])
      expect(again.encode(text)).toEqual(tokenizer.encode(text));
    expect(read('tokenizer_config.json')).toMatchObject({ eos_token: '</s>' });
    expect(read('generation_config.json')).toMatchObject({ eos_token_id: [2] });
  });
});

/** Rounds to multiples of the largest magnitude in every 32, over -8, as 4 bits do. */
function rounded({ inputs, outputs, ...matrix }: Matrix): Matrix {
  const numbers = dense({ inputs, outputs, ...matrix }).slice();
  for (let row = 0; row < outputs; row++)
    for (let from = 0; from < inputs; from += 32) {
      const part = numbers.subarray(row * inputs + from, row * inputs + Math.min(inputs, from + 32));
      const [furthest = 0] = [...part].sort((a, b) => Math.abs(b) - Math.abs(a));
      const step = Math.fround(furthest / -8);
      for (const [i, x] of part.entries())
        part[i] = step === 0 ? 0 : step * Math.min(7, Math.max(-8, Math.round(x / step)));
    }
  return matrixOf(numbers, outputs, inputs);
}

test.each([
  ['embedded', embeddedFolder()],
  ['gemma2', fixture('gemma2')],
  ['qwen2', fixture('qwen2')],
])('%s in 4 bits gives the logits of its rounded weights', async (_, source) => {
  const to = empty();
  await exportOnnx(source, to, { weights: ['f32', 'q4'] });
  const { config, weights, close } = await openCheckpoint(source);
  const head = rounded(await weights.head());
  const lossy: Weights = {
    ...weights,
    head: async () => head,
    project: async (l) => {
      const part = await weights.project(l);
      return { ...part, qkv: rounded(part.qkv) };
    },
    finish: async (l) => {
      const part = await weights.finish(l);
      return { ...part, output: rounded(part.output), gateUp: rounded(part.gateUp!), down: rounded(part.down!) };
    },
  };
  const decoder = hostDecoder(await createDecoder({ ...config, tied: false }, lossy, referenceEngine()));
  await close();
  const ids = Array.from({ length: 23 }, (__, i) => (i * 7 + 3) % config.vocab),
    want = await run(decoder, emptyCaches(decoder), ids, { want: ids.map((___, i) => i) }),
    got = await logitsOf(to, 'model_q4.onnx', ids, 9);
  for (const [i, row] of want.entries()) expect(relative(got[i], row)).toBeLessThan(2e-5);
});

test('the embedded model gives the logits of @kv/models, from files next to the graph too', async () => {
  const to = empty(),
    written = await exportOnnx('embedded', to, { inlineBytes: 1000 });
  expect(written).toContain('onnx/model.onnx_data');
  expect(statSync(join(to, 'onnx/model.onnx')).size).toBeLessThan(200_000);
  expect(JSON.parse(readFileSync(join(to, 'config.json'), 'utf8'))).toMatchObject({
    'transformers.js_config': { use_external_data_format: { 'model.onnx': 1 } },
  });
  const { decoder, tokenizer } = await loadModel('embedded'),
    { ids } = tokenizer.encode('The key of Ana is 4821. The key of Bo is 9377. What is the key of Ana?');
  const want = await run(decoder, emptyCaches(decoder), ids, { want: ids.map((_, i) => i) }),
    got = await logitsOf(to, 'model.onnx', ids, ids.length);
  for (const [i, row] of want.entries()) expect(relative(got[i], row)).toBeLessThan(2e-5);
});

test.each(['ids', 'mask'] as const)(
  'layers that turn differently or not at all, positions from %s',
  async (positions) => {
    const to = empty(),
      { weights, close, ...read } = await openCheckpoint(embeddedFolder()),
      config: ModelConfig = {
        ...read.config,
        ropes: read.config.ropes.map((rope, l) => [{ ...rope, theta: 77 }, { theta: 1, rotary: 0 }, rope][l % 3]),
      };
    await exportOnnx('embedded', to);
    const graph = await decoderGraph(config, weights, { form: 'f32', positions, attention: 'fused' });
    writeFileSync(join(to, 'onnx/model.onnx'), graph);
    const decoder = hostDecoder(await createDecoder(config, weights, referenceEngine()));
    await close();
    const ids = Array.from({ length: 23 }, (_, i) => (i * 7 + 3) % config.vocab),
      want = await run(decoder, emptyCaches(decoder), ids, { want: ids.map((_, i) => i) }),
      got = await logitsOf(to, 'model.onnx', ids, 9);
    expect(commonHeads(config).headDim % 16).toBe(0);
    const { decoder: plain } = await loadModel('embedded'),
      other = await run(plain, emptyCaches(plain), ids, { want: ids.map((_, i) => i) });
    // The model was not trained with these angles: scores are larger, and so are rounding errors.
    for (const [i, row] of want.entries()) expect(relative(got[i], row)).toBeLessThan(2e-4);
    expect(Math.max(...want.map((row, i) => relative(other[i], row)))).toBeGreaterThan(0.05);
  },
);

test('a SentencePiece vocabulary becomes a tokenizer.json with the same ids', async () => {
  const { metadata, close } = await readGguf(await fileSource(reference('data/models/vocabulary-spm.gguf')));
  await close();
  const want = ggufTokenizer(metadata, 'spm'),
    got = createTokenizer(JSON.parse(JSON.stringify(ggufTokenizerJson(metadata, 'spm'))), 'tokenizer.json');
  for (const text of ['Hello World', '  two  spaces', 'ied 4 ½ months', '', 'Führer 🦙.cpp\t\n3333', '<s> a'])
    expect(got.encode(text)).toEqual(want.encode(text));
});

test('a folder that holds a checkpoint is refused, and nothing in it changes', async () => {
  for (const name of ['model.safetensors', 'x.gguf', 'config.json']) {
    const to = empty();
    mkdirSync(to, { recursive: true });
    writeFileSync(join(to, name), 'mine');
    await expect(exportOnnx('embedded', to)).rejects.toThrow(
      `expected an empty folder or an earlier export, got "${to}", whose ${name} it would replace or lie next to: name another folder`,
    );
    expect(readdirSync(to)).toEqual([name]);
    expect(readFileSync(join(to, name), 'utf8')).toBe('mine');
  }
});

test('a folder that cannot be written is named', async () => {
  const file = join(folder, 'a-file');
  writeFileSync(file, '');
  await expect(exportOnnx('embedded', file)).rejects.toThrow(`${file}: cannot be written (ENOTDIR)`);
});
