import type { BytecodeWriter, Sizes } from './code.ts';
import { activationBytes } from './kernels.ts';
import type { WeightArena } from './placing.ts';
import type { ThreadPool } from './team.ts';

/** Code in a team's memory, and what room it wants. */
export interface LoadedCode {
  readonly code: number;
  readonly end: number;
  readonly layout: BytecodeWriter['layout'];
}

/** What code needs to know of a team. */
export const sizesOf = ({ kernels, threads, fast }: ThreadPool): Sizes => ({
  threads,
  activation: activationBytes(fast.form),
  ownBytes: kernels.ownBytes(),
  partBytes: kernels.partBytes,
  tokenScratch: kernels.tokenScratch,
  rowsScratch: kernels.rowsScratch,
  packScratch: kernels.packScratch,
});

/** Puts code into a team's memory. */
export function install(
  { heap }: ThreadPool,
  placing: WeightArena,
  { words, length, layout }: BytecodeWriter,
): LoadedCode {
  const code = placing.take(length + 64);
  heap.words(code, words.length).set(words);
  return { code, end: code + length, layout };
}
