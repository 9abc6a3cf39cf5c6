import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { defaultLinear, createDecoder, hostDecoder, linearEngine } from '@kv/engine';
import { loadModel } from '../src/index.ts';
import type { Weights } from '../src/index.ts';
import type { Matrix } from '@kv/checkpoints';
import { emptyCaches, run } from '@kv/engine-testing/run';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/**
 * Bytes outside the JavaScript heap: array buffers and WebAssembly memories. The second collection waits for what the
 * first one frees on its own thread.
 */
function outside(): number {
  collect();
  collect();
  return process.memoryUsage().external;
}

const [layers, D, H, G, d, FFN, vocab] = [4, 256, 4, 2, 64, 1024, 2048];

/** A matrix of Q8_0 blocks: 34 bytes for 32 numbers, with a scale of 2^-10. */
function quantised(outputs: number, inputs: number): Matrix {
  const bytes = new Uint8Array(34 * ((outputs * inputs) / 32)).map((_, i) =>
    i % 34 === 0 ? 0 : i % 34 === 1 ? 0x14 : (i * 7919) % 256,
  );
  return { outputs, inputs, parts: [{ type: 'Q8_0', rows: outputs, bytes }] };
}

test('loading and running take at most 1.2 times the weights as held, and one tensor', async () => {
  const embedded = await loadModel('embedded'),
    { config: base } = embedded,
    ones = new Float32Array(D).fill(1),
    counted = { held: 0, largest: 0, peak: 0 };
  const weights: Weights = {
    embed: async () => quantised(vocab, D),
    head: async () => quantised(vocab, D),
    norm: async () => ones,
    project: async () => ({ norm: ones, qkv: quantised((H + 2 * G) * d, D) }),
    finish: async () => ({
      norm: ones,
      output: quantised(D, H * d),
      gateUp: quantised(2 * FFN, D),
      down: quantised(D, FFN),
    }),
  };
  const before = outside(),
    linear = defaultLinear();
  const look = (): void => {
    counted.peak = Math.max(counted.peak, outside() - before);
  };
  const engine = linearEngine((weight) => {
    const bytes = 4 * weight.outputs * weight.inputs;
    counted.held += bytes;
    counted.largest = Math.max(counted.largest, bytes);
    const product = linear(weight);
    look();
    return product;
  });
  const decoder = hostDecoder(
    await createDecoder(
      {
        ...base,
        layers,
        queryHeads: H,
        kvHeads: G,
        headDim: d,
        hidden: D,
        ffn: FFN,
        vocab,
        tied: true,
        ropes: Array<(typeof base.ropes)[0]>(layers).fill({ ...base.ropes[0], rotary: d }),
      },
      weights,
      engine,
    ),
  );
  look();
  // as stored: the embedding, and the output products that policies may read
  const kept = (34 / 32) * (vocab * D + layers * D * H * d),
    held = counted.held + kept;
  expect(counted.held).toBe(4 * (vocab * D + layers * ((H + 2 * G) * d * D + D * H * d + 3 * FFN * D)));
  expect(counted.peak).toBeGreaterThan(held);
  expect(counted.peak).toBeLessThan(1.2 * held + counted.largest);
  for (const rows of [600, 333, 1]) {
    const caches = emptyCaches(decoder);
    await run(
      decoder,
      caches,
      Array.from({ length: rows }, (_, i) => i),
    );
    for (const cache of caches) cache.destroy();
    expect(outside() - before, `after ${rows} rows`).toBeLessThan(1.2 * held + counted.largest);
  }
  for (const each of [decoder, embedded]) each.destroy();
});
