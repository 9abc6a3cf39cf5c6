import type { Code, Sizes } from './code.ts';
import { activationBytes } from './kernels.ts';
import type { Placing } from './placing.ts';
import type { Team } from './team.ts';

/** Code in a team's memory, and what room it wants. */
export interface Installed {
  readonly code: number;
  readonly end: number;
  readonly layout: Code['layout'];
}

/** What code needs to know of a team. */
export const sizesOf = ({ kernels, threads, fast }: Team): Sizes => ({
  threads,
  activation: activationBytes(fast.form),
  ownBytes: kernels.ownBytes(),
  partBytes: kernels.partBytes,
  tokenScratch: kernels.tokenScratch,
  rowsScratch: kernels.rowsScratch,
  packScratch: kernels.packScratch,
});

/** Puts code into a team's memory. */
export function install({ heap }: Team, placing: Placing, { words, length, layout }: Code): Installed {
  const code = placing.take(length + 64);
  heap.words(code, words.length).set(words);
  return { code, end: code + length, layout };
}
