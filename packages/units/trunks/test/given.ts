import type { AnySignal, Tokens } from '@kv/core';
import type { LawOptions } from '@kv/laws';
import type { CoAttention } from '../src/index.ts';
import type { Edge } from './trunks.oracle.ts';

/** Random numbers in [0, 1) without the ties that fast-check looks for. */
export const noise =
  (seed: number) =>
  (i: number): number => {
    const x = Math.sin(seed * 12.9898 + i * 78.233) * 43758.5453;
    return Math.fround(x - Math.floor(x));
  };

/** Edges in both directions between random near neighbours. */
export function randomEdges(n: number, seed: number): Edge[] {
  const next = noise(seed),
    seen = new Set<string>();
  return Array.from({ length: n * 2 }, (_, e) => ({
    i: Math.floor(next(3 * e) * n),
    j: Math.floor(next(3 * e + 1) * n),
    w: next(3 * e + 2),
  }))
    .filter(({ i, j }) => i !== j && !seen.has(`${i},${j}`) && seen.add(`${i},${j}`))
    .sort((a, b) => a.i - b.i);
}
export const asSignal = (edges: readonly Edge[], n: number, seed = 1): CoAttention => ({
  saliency: Float32Array.from({ length: n }, (_, i) => noise(seed)(i) * 30),
  from: Uint32Array.from(edges, (e) => e.i),
  to: Uint32Array.from(edges, (e) => e.j),
  weight: Float32Array.from(edges, (e) => e.w),
});
/** For the laws: co-attention of a scene. */
export const signals: LawOptions['signals'] = (signal: AnySignal, { at, seed }) =>
  signal.id === 'crystalcache.co-attention' ? asSignal(randomEdges(at.length, seed), at.length, seed) : undefined;

const WORDS = ['one', ' two', '.', '\n', ' three', '!', ' four'];
/** `n` tokens, a few of which end a sentence. */
export function randomTokens(n: number, seed: number): Tokens {
  const words = Array.from({ length: n }, (_, i) => WORDS[Math.floor(noise(seed)(i) * WORDS.length)]);
  let end = 0;
  return {
    ids: words.map((w) => WORDS.indexOf(w)),
    text: words.join(''),
    offsets: words.map((w) => [end, (end += w.length)] as const),
  };
}
export function sentencesOf({ text, offsets }: Tokens): number[][] {
  const out: number[][] = [[]];
  offsets.forEach(([a, b], i) => {
    out.at(-1)!.push(i);
    if (['.', '!', '\n'].includes(text.slice(a, b)) && i < offsets.length - 1) out.push([]);
  });
  return out;
}
