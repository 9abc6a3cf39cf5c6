import { KvError } from '@kv/core';
import { builtin } from '@kv/checkpoints';
import { Heap } from './heap.ts';
import { instantiate, loopFunctions, type FastModule, type Kernels } from './kernels.ts';
import { ops } from './instructions.ts';
import { nothing } from './nothing.ts';
import { GrowableBuffer, ScratchSpace } from './workspace.ts';

/** A command's words, as kernel/run.ts reads them. Addresses are bytes. */
export interface Command {
  readonly code: number;
  readonly end: number;
  /** The bases of the code's addresses: of kind 1, and of kind 2 in the first thread; then the bytes per thread. */
  readonly shared: number;
  readonly own: number;
  readonly ownBytes: number;
  readonly rows: number;
  readonly caches: number;
  readonly cos: number;
  readonly sin: number;
  readonly position: number;
  readonly packed: number;
  /** Where to store the last queries of each layer, `[layer][rows][H * d]`, and at most how many; 0 for none. */
  readonly queries: number;
  readonly window: number;
  /** Where to store sums of weights, `[layer][H][stride]`; 0 for none. */
  readonly shares: number;
  readonly stride: number;
  /** Bytes from a row's caches to the next row's, where each row has its own; their last word is its position. */
  readonly apart: number;
  /** What sums of weights of blocks count: how many there are, then each one's first row and kind. */
  readonly sums: number;
  /** What the rows' queries are multiplied by, a number each; 0 for nothing. */
  readonly scales: number;
}

/** The program of the workers, in Node and in browsers. */
const thread = `
const run = ({ module, memory, wide, control, me, threads, spins }, up) => {
  const load = (at, bytes) => {
    const copy = new Uint8Array(memory.buffer, at, bytes).slice(),
      { exports } = new WebAssembly.Instance(new WebAssembly.Module(copy), { env: { memory, keys: kernels.viewKeys } });
    for (const name of ${JSON.stringify(loopFunctions)}) {
      const place = kernels.table.grow(1);
      if (typeof exports[name] === 'function') kernels.table.set(place, exports[name]);
    }
  };
  const kernels = new WebAssembly.Instance(module, { env: { memory, load } }).exports;
  kernels.setWide(wide);
  kernels.join(control, me, threads, spins);
  up();
  kernels.serve();
};`;
const inNode = `${thread}
const { parentPort, workerData } = require('node:worker_threads');
run(workerData, () => parentPort.postMessage('up'));`;
const inBrowser = `${thread}
onmessage = ({ data }) => {
  run(data, () => postMessage('up'));
  close();
};`;

/** Milliseconds that a thread spins for work before it sleeps. */
const spinMs = 1;

/** A pool of threads over one memory: the caller's and the workers. */
export class ThreadPool {
  readonly heap: Heap = new Heap();
  readonly fast: FastModule;
  readonly kernels: Kernels;
  readonly threads: number;
  /** Scratch of programs that run by themselves, one after the other, and their angles or a row of a weight. */
  readonly bench: ScratchSpace = new ScratchSpace(this);
  readonly angles: GrowableBuffer = new GrowableBuffer(this);
  readonly #control: number;
  /** Where the words of `pack` lie. */
  readonly #packing: number;
  #ended = false;

  private constructor(fast: FastModule, threads: number) {
    this.fast = fast;
    this.threads = threads;
    this.kernels = instantiate(fast, this.heap.memory);
    this.#control = this.heap.allocate(this.kernels.controlBytes(threads));
    this.heap.bytes(this.#control, this.kernels.controlBytes(threads)).fill(0);
    this.#packing = this.heap.allocate(64);
  }

  /**
   * Starts a pool of `threads` threads, or of one where workers cannot share memory; `warn` is then called with the
   * reason.
   * @throws KvError without shared WebAssembly memory.
   */
  static async start(fast: FastModule, threads: number, warn: (why: string) => void): Promise<ThreadPool> {
    if (threads > 1)
      try {
        const pool = new ThreadPool(fast, threads);
        await pool.#spawn();
        return pool;
      } catch (error) {
        warn(error instanceof Error ? error.message : String(error));
      }
    const pool = new ThreadPool(fast, 1);
    pool.kernels.join(pool.#control, 0, 1, 0);
    return pool;
  }

  async #spawn(): Promise<void> {
    const { kernels, fast, threads, heap } = this;
    kernels.join(this.#control, 0, threads, 0);
    const spins = spinsOf(kernels),
      shared = { ...fast, memory: heap.memory, control: this.#control, threads, spins };
    const up = Array.from({ length: threads - 1 }, (_, i) => spawnWorker({ ...shared, me: i + 1 }));
    try {
      await Promise.all(up);
    } catch (error) {
      this.destroy();
      throw error;
    }
    kernels.join(this.#control, 0, threads, mayWait() ? spins : -1);
  }

  /** Runs code on all threads, and returns when it is done. @throws KvError once the workers have ended */
  call(command: Command): void {
    if (this.#ended) throw new KvError('model', 'was destroyed: load it again');
    const { code, end, shared, own, ownBytes, rows, caches, cos, sin, position, packed } = command,
      { queries, window, shares, stride, apart, sums, scales } = command;
    this.heap
      .words(this.#control + 64, 18)
      .set([
        ...[code, end, shared, own, ownBytes, rows, caches, cos, sin, position, packed],
        ...[queries, window, shares, stride, apart, sums, scales],
      ]);
    this.kernels.call();
  }

  /** Packs stored rows, `rowBytes` apart, into panels of `size` bytes at `to`. */
  pack(kind: number, source: number, rowBytes: number, rows: number, inputs: number, to: number, size: number): void {
    const words = [ops.packRows, kind, source, rowBytes, rows, inputs, to, size],
      code = this.#packing;
    this.heap.words(code, words.length).set(words);
    const none = { shared: 0, own: 0, ownBytes: 0, rows: 0, cos: 0, sin: 0 };
    this.call({ ...nothing, ...none, code, end: code + 4 * words.length });
  }

  /** Ends the workers. */
  destroy(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.heap.words(this.#control + 64, 1)[0] = 0;
    this.kernels.call();
  }
}

/** Returns how many iterations of the spin loop take `spinMs`. */
function spinsOf(kernels: Kernels): number {
  let best = Infinity;
  for (let i = 0; i < 5; i++) {
    const started = performance.now();
    kernels.spin(20_000);
    best = Math.min(best, performance.now() - started);
  }
  return Math.round(20_000 * (spinMs / Math.max(best, 0.001)));
}

/** Returns whether this thread may block: the main thread of a page may not. */
function mayWait(): boolean {
  try {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 0);
    return true;
  } catch {
    return false;
  }
}

/** Starts a worker, and resolves when it is ready. */
async function spawnWorker(data: object): Promise<void> {
  if (typeof process === 'object' && process.versions?.node !== undefined) {
    const { Worker } = builtin<typeof import('node:worker_threads')>('node:worker_threads'),
      worker = new Worker(inNode, { eval: true, workerData: data });
    await new Promise((up, failed) => {
      worker.once('message', up);
      worker.once('error', failed);
      worker.once('exit', (code) => failed(new KvError('wasm', `a worker thread ended with exit code ${code}`)));
    });
    worker.removeAllListeners();
    worker.unref();
    return;
  }
  if (typeof Worker !== 'function')
    throw new KvError('wasm', 'more than one thread needs workers, which are missing here');
  if (globalThis.crossOriginIsolated === false)
    throw new KvError('wasm', 'more than one thread needs a cross-origin isolated page');
  const url = URL.createObjectURL(new Blob([inBrowser], { type: 'text/javascript' }));
  try {
    const worker = new Worker(url);
    await new Promise((up, failed) => {
      worker.onmessage = up;
      worker.onerror = ({ message }) => failed(new KvError('wasm', `a worker did not start: ${message}`));
      worker.postMessage(data);
    });
  } finally {
    URL.revokeObjectURL(url);
  }
}
