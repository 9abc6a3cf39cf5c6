import type { BytecodeWriter } from './bytecode-writer.ts';
import type { Sizes } from './code-stream.ts';
import type { Layout } from './layout.ts';
import { activationBytes } from './kernels.ts';
import type { WeightArena } from './weight-arena.ts';
import type { ThreadPool } from './thread-pool.ts';

/** Code in a pool's memory, and the scratch that it needs. */
export interface LoadedCode {
  readonly code: number;
  readonly end: number;
  readonly layout: Layout;
}

/** Returns what code needs to know of a pool. */
export const sizesOf = ({ kernels, threads, fast }: ThreadPool): Sizes => ({
  threads,
  activation: activationBytes(fast.form),
  ownBytes: kernels.ownBytes(),
  partBytes: kernels.partBytes,
  tokenScratch: kernels.tokenScratch,
  rowsScratch: kernels.rowsScratch,
  packScratch: kernels.packScratch,
  memoryScratch: kernels.memoryScratch,
});

/** Copies code into a pool's memory. */
export function install({ heap }: ThreadPool, arena: WeightArena, { stream }: BytecodeWriter): LoadedCode {
  const { words, length, layout } = stream,
    code = arena.take(length + 64);
  heap.words(code, words.length).set(words);
  return { code, end: code + length, layout };
}
