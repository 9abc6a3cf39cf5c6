import { relative } from '@kv/engine-testing/run';
import { BytecodeWriter } from '../src/bytecode-writer.ts';
import { install, sizesOf } from '../src/install.ts';
import type { BufferSlice } from '../src/layout.ts';
import { PassBuffers } from '../src/pass-buffers.ts';
import { nowhere } from '../src/pass-run.ts';
import { copyRows, rowsAt } from '../src/rows.ts';
import { heapStore } from '../src/store.ts';
import type { ThreadPool } from '../src/thread-pool.ts';
import { WeightArena } from '../src/weight-arena.ts';

interface Options {
  readonly block: number;
  /** Whether rows are tokens of sequences of their own. */
  readonly apart: boolean;
  /** Numbers of a row of the result. */
  readonly given: number;
  /** Numbers of a state. */
  readonly numbers: number;
}

/** Runs rows through a mixer's code in the module, from a state of zeros; returns the result and the states after it. */
export function mixerInModule(
  pool: ThreadPool,
  rows: Float32Array,
  width: number,
  write: (code: BytecodeWriter, arena: WeightArena, x: BufferSlice) => BufferSlice,
  { block, apart, given, numbers }: Options,
): { readonly out: Float32Array; readonly states: readonly Float32Array[] } {
  const tokens = rows.length / width,
    arena = new WeightArena(pool, true),
    store = heapStore(pool),
    buffers = new PassBuffers(pool, false),
    code = new BytecodeWriter(sizesOf(pool), apart ? tokens : Math.min(block, tokens), apart),
    x = code.stream.value(width, true),
    out = write(code, arena, x),
    loaded = install(pool, arena, code),
    states = Array.from({ length: apart ? tokens : 1 }, () => store.createNumbers(numbers)),
    none = { rotary: 0, cos: new Float32Array(0), sin: new Float32Array(0) },
    all = new Float32Array(tokens * given);
  for (let at = 0, m: number; at < tokens; at += m) {
    m = Math.min(code.stream.rows === 1 ? 1 : block, tokens - at);
    const keep = states.map((state) => ({ caches: [], states: [state] })),
      command = buffers.command(loaded, m, none, keep[0]),
      rooms = buffers.work.for(loaded.layout);
    copyRows(rows.subarray(at * width), width, rowsAt(pool.heap, rooms, x, m), m);
    pool.call({
      ...{ ...command, ...nowhere, position: 0 },
      ...(apart && buffers.rows(keep, new Uint32Array(m))),
    });
    const { data, stride } = rowsAt(pool.heap, rooms, out, m);
    for (let r = 0; r < m; r++) all.set(data.subarray(r * stride, r * stride + given), (at + r) * given);
  }
  const copies = states.map((state) => state.slice());
  for (const state of states) store.releaseNumbers(state);
  buffers.free();
  arena.free();
  return { out: all, states: copies };
}

/** Numbers as text, which compares faster than long lists. */
export const bits = (...lists: readonly Float32Array[]): readonly string[] =>
  lists.map(({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength).toString('base64'));

/** Whether numbers differ by rounding alone. */
export const near = (a: Float32Array, b: Float32Array): boolean =>
  !b.some((x) => Math.abs(x) > 1e-3) || relative(a, b) < 1e-4;

/** Returns rows of numbers. */
export const chunk = (x: Float32Array, size: number): number[][] =>
  Array.from({ length: x.length / size }, (_, i) => [...x.subarray(i * size, (i + 1) * size)]);
