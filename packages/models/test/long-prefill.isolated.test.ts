import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { compose } from '@kv/core';
import { snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import { expect, test } from 'vitest';
import { loadModel, Sequence } from '../src/index.ts';
import { matrixOf, onlyAttention } from '@kv/checkpoints';
import type { Model, Weights } from '../src/index.ts';
import { wasmRuntime } from '@kv/engine-wasm';
import { modules } from './modules.ts';

/** SmolLM2-135M's layers: 9 query and 3 KV heads of 64. */
const [D, H, G, d, FFN] = [576, 9, 3, 64, 1536];
const MB = 1e6;

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Returns deterministic noise of some spread. */
function noise(count: number, scale: number): Float32Array {
  const out = new Float32Array(count);
  let state = 0x9e3779b9;
  for (let i = 0; i < count; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    out[i] = (state / 2 ** 31 - 1) * scale;
  }
  return out;
}

/**
 * Makes a model of these layers with random weights, and the embedded model's small vocabulary instead of SmolLM2's
 * 49,152 words. Memory is measured above the weights, which this engine holds once.
 */
async function randomModel(layers: number, window: number): Promise<{ model: Model; bytes: number }> {
  const { tokenizer, config: base } = await loadModel('embedded'),
    vocab = base.vocab,
    matrix = (outputs: number, inputs: number) =>
      matrixOf(noise(outputs * inputs, Math.sqrt(3 / inputs)), outputs, inputs);
  const ones = new Float32Array(D).fill(1),
    embed = matrix(vocab, D);
  const weights: Weights = {
    embed: async () => embed,
    head: async () => embed,
    norm: async () => ones,
    project: async () => ({ norm: ones, qkv: matrix((H + 2 * G) * d, D) }),
    finish: async () => ({ norm: ones, output: matrix(D, H * d), gateUp: matrix(2 * FFN, D), down: matrix(D, FFN) }),
  };
  const config = {
    ...base,
    layers,
    mixers: onlyAttention(layers, { kvHeads: G, headDim: d }),
    queryHeads: H,
    hidden: D,
    ffn: FFN,
    maxPositions: window,
    tied: true,
    ropes: Array<(typeof base.ropes)[0]>(layers).fill({ ...base.ropes[0], rotary: d }),
  };
  const runtime = wasmRuntime(modules.at(-1)![1], { exact: true }),
    parts = { config, tokenizer, sidecar: async () => undefined },
    running = await runtime.start({ ...parts, weights });
  return {
    model: { ...running, ...parts, name: 'random', engine: runtime.name, fingerprint: 'random' },
    bytes: 4 * (layers * ((H + 2 * G) * d * D + D * H * d + 3 * FFN * D) + vocab * D),
  };
}

/** Feeds a long prompt in blocks; returns the process's memory above its earlier memory and the weights. */
async function measure(
  layers: number,
  tokens: number,
  budget: number,
  block: number,
  window: number,
): Promise<{ ledger: number; above: number; growth: number; text: string }> {
  const before = process.memoryUsage().rss,
    { model, bytes } = await randomModel(layers, window),
    sequence = new Sequence(model);
  collect();
  let most = 0,
    first = 0;
  const ids = Array.from({ length: tokens }, (_, i) => 3 + ((i * 7919) % (model.config.vocab - 3)));
  const started = performance.now();
  for (let at = 0; at < tokens; at += 16 * block) {
    await sequence.prefill(ids.slice(at, at + 16 * block), {
      policy: compose(snapkv({ window: 32 }), topK()),
      budget,
      block,
    });
    most = Math.max(most, process.memoryUsage().rss);
    first ||= most;
  }
  expect(
    sequence
      .kept()
      .flat()
      .every((row) => row.length === budget && row.at(-1) === tokens - 1),
  ).toBe(true);
  expect(sequence.progress.length).toBe(tokens);
  const { peakAllocated: ledger } = sequence.memory.ledger,
    above = most - before - bytes,
    peak = 1024 * process.resourceUsage().maxRSS - before - bytes;
  sequence.destroy();
  model.destroy();
  return {
    ledger,
    growth: most - first,
    above: tokens > 10_000 ? peak : above,
    text: `${tokens} tokens, ${layers} layers, ${budget} slots, blocks of ${block}: weights ${(bytes / MB).toFixed(0)} MB; above them ledger ${(ledger / MB).toFixed(0)} MB, process ${(above / MB).toFixed(0)} MB (${((most - first) / MB).toFixed(0)} MB of them after the first 16 blocks), its own peak ${(peak / MB).toFixed(0)} MB; ${(tokens / ((performance.now() - started) / 1000)).toFixed(0)} tokens/s`,
  };
}

test('memory of a long prompt is that of its budget and one block, whatever its length', async () => {
  const { ledger, above, growth, text } = await measure(3, 2048, 128, 64, 1024);
  console.log(text);
  // Slots with their rotations, twice in one layer while its storage is replaced; rings of 32 queries.
  expect(ledger).toBeLessThan(3 * G * (128 + 64) * 4 * (2 * d + 2) * 1.25 * (4 / 3) + 3 * 32 * H * 4 * (d + 2));
  // Uncollected garbage does not depend on the number of layers; the rest is a tenth of the long run's.
  expect(growth).toBeLessThan(60 * MB);
  expect(above).toBeLessThan(250 * MB);
});

test.runIf(process.env.KV_LONG === '1')(
  '32,768 tokens through 30 layers with 1,024 slots stay within 600 MB above the weights',
  async () => {
    const { ledger, above, text } = await measure(30, 32_768, 1024, 512, 40_960);
    console.log(text);
    expect(ledger).toBeLessThan(150 * MB);
    expect(above).toBeLessThan(600 * MB);
  },
  7_200_000,
);
