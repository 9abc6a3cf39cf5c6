/**
 * What this machine can do at most, with as many threads as an engine has: bytes that it reads from memory, and multiply-adds
 * of the inner loop alone.
 */
import { Worker } from 'node:worker_threads';
import { fastModule, wasmEngine } from '@kv/engine-wasm';
import { types } from './random-gguf.mjs';

/** Bytes that a thread reads, more than any cache holds, and how often. */
const bytes = 2 ** 28,
  times = 4;

const reader = `
const { parentPort } = require('node:worker_threads');
const twos = Buffer.alloc(${bytes}, 2); // untouched pages of zeros may all be one page
parentPort.on('message', () => {
  const from = performance.now();
  for (let i = 0; i < ${times}; i++) twos.indexOf(1); // the C library's memchr, which only reads
  parentPort.postMessage([performance.timeOrigin + from, performance.timeOrigin + performance.now()]);
});
parentPort.postMessage('ready');`;

/** Returns the bytes a second that threads read together, the best of some rounds. */
export async function readBandwidth(threads, rounds = 5) {
  const workers = Array.from({ length: threads }, () => new Worker(reader, { eval: true })),
    answers = () => Promise.all(workers.map((worker) => new Promise((done) => worker.once('message', done))));
  await answers();
  let best = 0;
  for (let round = 0; round < rounds; round++) {
    const all = answers();
    for (const worker of workers) worker.postMessage('go');
    const spans = await all,
      ms = Math.max(...spans.map(([, to]) => to)) - Math.min(...spans.map(([from]) => from));
    best = Math.max(best, (1000 * bytes * times * threads) / ms);
  }
  await Promise.all(workers.map((worker) => worker.terminate()));
  return best;
}

/**
 * Returns the multiply-adds a second of one product of 256 rows alone, with a weight of a type of `random-gguf.mjs`: the best
 * of rounds, which end when ten more of them were no faster, since V8 optimises the module meanwhile.
 */
export async function multiplyAdds(type, threads) {
  const [inputs, outputs, rows] = [2048, 4096, 256],
    { numbers, bytes: size, set } = types[type],
    weight = new Uint8Array((inputs * outputs * size) / numbers),
    x = { id: 0, width: inputs },
    out = { id: 1, width: outputs };
  for (let i = 0; i < weight.length; i++) weight[i] = (i * 7919) >> 3;
  const view = new DataView(weight.buffer);
  for (let at = 0; at < weight.length; at += size) set(view, at, inputs ** -0.5);
  const program = await wasmEngine(await fastModule(), { threads }).prepare({
    name: 'one product',
    inputs: [x],
    instructions: [
      {
        ...{ op: 'linear', name: 'weight', x, out },
        weight: { outputs, inputs, parts: [{ type, rows: outputs, bytes: weight }] },
      },
    ],
    outputs: [out],
  });
  const given = Float32Array.from({ length: rows * inputs }, (_, i) => Math.sin(i));
  let best = Infinity;
  for (let calm = 0; calm < 10; calm++) {
    const from = performance.now();
    await program.run([given], rows);
    const took = performance.now() - from;
    if (took < 0.99 * best) calm = 0;
    best = Math.min(best, took);
  }
  program.destroy();
  return (1000 * rows * inputs * outputs) / best;
}
