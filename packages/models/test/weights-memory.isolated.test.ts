import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { inTurn } from '@kv/model-testing/in-turn';
import { expect, test } from 'vitest';
import { createDecoder, hostDecoder } from '@kv/engine';
import { loadModel } from '../src/index.ts';
import type { Weights } from '../src/index.ts';
import { onlyAttention, unreadRows } from '@kv/checkpoints';
import type { Matrix } from '@kv/checkpoints';
import { emptyCaches, run } from '@kv/engine-testing/run';
import { wasmEngine } from '@kv/engine-wasm';
import type { ThreadPool } from '@kv/engine-wasm';
import { modules } from './modules.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/**
 * Returns the bytes outside the JavaScript heap: array buffers and WebAssembly memories. The second collection waits
 * for what the first one frees on its own thread.
 */
function outside(): number {
  collect();
  collect();
  return process.memoryUsage().external;
}

const [layers, D, H, G, d, FFN] = [8, 256, 4, 2, 64, 1024];

/** Returns a matrix of IQ4_NL blocks: 18 bytes for 32 numbers, with a scale of 2^-10; the module holds 34. */
function quantised(outputs: number, inputs: number): Matrix {
  const bytes = blocks(new Uint8Array(18 * ((outputs * inputs) / 32)));
  return { outputs, inputs, parts: [{ type: 'IQ4_NL', rows: outputs, bytes }] };
}

function blocks(bytes: Uint8Array): Uint8Array {
  for (let i = 0; i < bytes.length; i++) bytes[i] = i % 18 === 0 ? 0 : i % 18 === 1 ? 0x14 : (i * 7919) % 256;
  return bytes;
}

/** Returns such a matrix whose rows are read a few at a time; `read` is called with how many. */
const unread = (outputs: number, inputs: number, read: (rows: number) => void): Matrix => {
  const rows = unreadRows('IQ4_NL', outputs, async (_, count, into) => {
    read(count);
    return blocks(into ?? new Uint8Array((18 * count * inputs) / 32));
  });
  return { outputs, inputs, parts: [rows] };
};

const ways = [
  ['whole', 'one tensor', 2048],
  // an embedding of many parts
  ['by rows', 'two parts of one', 80_000],
] as const;
test.each(inTurn(ways, 2))(
  'loading weights %s takes what is held, and %s; running, a tile of rows more',
  async (how, _, vocab) => {
    const embedded = await loadModel('embedded'),
      { config: base } = embedded,
      ones = new Float32Array(D).fill(1),
      counted = { largest: how === 'whole' ? 0 : 2 * 2 ** 22, peak: 0, rows: 0, read: 0 };
    const counting = (outputs: number, inputs: number): Matrix => {
      counted.rows += outputs;
      if (how === 'by rows') return unread(outputs, inputs, (rows) => void (counted.read += rows));
      counted.largest = Math.max(counted.largest, (34 * outputs * inputs) / 32);
      return quantised(outputs, inputs);
    };
    const engine = wasmEngine(modules.at(-1)![1]), // form 0 is available wherever tests run
      held = (34 / 32) * (vocab * D + layers * ((H + 2 * G) * d * D + D * H * d + 3 * FFN * D)),
      before = outside();
    /** Bytes of a tile of 256 rows in a pass: about 16 values of D numbers. */
    const room = 4 * 256 * 16 * D;
    let pool: ThreadPool | undefined;
    /**
     * Returns the bytes outside the JavaScript heap since then, and those of the module's memory, which the process does
     * not count.
     */
    const taken = (): number => outside() - before + (pool?.heap.memory.buffer.byteLength ?? 0);
    const look = (): void => {
      counted.peak = Math.max(counted.peak, taken());
    };
    const all: Weights = {
      embed: async () => counting(vocab, D),
      head: async () => counting(vocab, D),
      norm: async () => ones,
      project: async () => ({ norm: ones, qkv: counting((H + 2 * G) * d, D) }),
      finish: async () => ({
        norm: ones,
        output: counting(D, H * d),
        gateUp: counting(2 * FFN, D),
        down: counting(D, FFN),
      }),
    };
    const never = (): never => {
      throw new Error('expected weights to be read by rows');
    };
    const weights: Weights =
      how === 'whole'
        ? all
        : { ...{ embed: never, head: never, norm: never, project: never, finish: never }, byRows: all };
    const prepared = await createDecoder(
        {
          ...base,
          layers,
          mixers: onlyAttention(layers, { kvHeads: G, headDim: d }),
          queryHeads: H,
          hidden: D,
          ffn: FFN,
          vocab,
          tied: true,
          ropes: Array<(typeof base.ropes)[0]>(layers).fill({ ...base.ropes[0], rotary: d }),
        },
        weights,
        {
          ...engine,
          async prepare(program) {
            const prepared = await engine.prepare(program);
            ({ pool } = prepared);
            look();
            return prepared;
          },
        },
      ),
      decoder = hostDecoder(prepared);
    look();
    const { live } = prepared.head.pool.heap;
    expect(live).toBeGreaterThan(held);
    expect(live).toBeLessThan(1.02 * held);
    expect(counted.peak).toBeGreaterThan(held);
    expect(counted.peak).toBeLessThan((how === 'whole' ? 1.2 : 1.03) * held + counted.largest);
    expect(counted.read).toBe(how === 'whole' ? 0 : counted.rows); // each row once
    for (const rows of [600, 333, 1]) {
      const caches = emptyCaches(decoder);
      await run(
        decoder,
        caches,
        Array.from({ length: rows }, (_, i) => i),
      );
      for (const cache of caches) cache.destroy();
      expect(taken(), `after ${rows} rows`).toBeLessThan(1.2 * held + counted.largest + room);
    }
    for (const each of [decoder, embedded]) each.destroy();
  },
);
