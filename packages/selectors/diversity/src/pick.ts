import type { WasmMemory } from '@kv/core';
import { inner } from '@kv/core/shared';

/**
 * Writes picks from the slots `open` to `order`: the first `ahead` of them, then one after the other the slot with the
 * largest s_i - λ max(0, max x_i·x_j over the picked j), of equals the first in `open`. x `[n, d]`, s `[n]`.
 */
export type Pick = (
  x: Float32Array,
  d: number,
  s: Float32Array,
  lambda: number,
  open: readonly number[],
  ahead: number,
  order: Uint32Array,
) => void;

/** `Pick` by plain loops. */
export const oneByOne: Pick = (x, d, s, lambda, open, ahead, order) => {
  const left = [...open],
    likeness = new Float32Array(s.length);
  for (let t = 0; t < order.length; t++) {
    const worth = left.map((i) => s[i] - lambda * likeness[i]),
      at = t < ahead ? 0 : Math.max(0, worth.indexOf(worth.reduce((a, b) => Math.max(a, b), -Infinity))),
      [picked = 0] = left.splice(at, 1);
    order[t] = picked;
    for (const i of left) likeness[i] = Math.max(likeness[i], inner(x, i * d, x, picked * d, d));
  }
};
/** The functions of kernel/greedy.ts; pointers are bytes. */
interface GreedyModule extends WasmMemory {
  rank(x: number, n: number, work: number, out: number): void;
  panels(x: number, n: number, d: number, out: number): void;
  pick(
    names: number,
    n: number,
    x: number,
    d: number,
    s: number,
    likeness: number,
    lambda: number,
    picked: number,
    first: number,
    count: number,
    work: number,
    out: number,
  ): void;
}

const upTo = (n: number, of: number): number => of * Math.ceil(n / of);

/** Returns `Pick` that runs the module of kernel/greedy.ts. */
export const pickBy =
  (k: GreedyModule): Pick =>
  (x, d, s, lambda, open, ahead, order) => {
    const count = order.length,
      first = Math.min(ahead, count),
      n = open.length - ahead,
      deep = upTo(d, 2),
      wide = upTo(n, 8),
      [names = 0, vectors = 0, panels = 0, scores = 0, likeness = 0, picked = 0, found = 0, work = 0] = k.place(
        4 * n,
        4 * n * deep,
        4 * wide * deep,
        4 * wide,
        4 * wide,
        4 * count * deep,
        4 * Math.max(n, count),
        8192 + 16 * n,
      ),
      [f32, u32] = [k.f32(), k.u32()];
    for (let t = 0; t < first; t++) k.putVectors(x, d, deep, open[t], 1, picked + 4 * t * deep);
    for (let i = 0; i < n; i++) f32[scores / 4 + i] = s[open[ahead + i]];
    k.rank(scores, n, work, found);
    f32.fill(-Infinity, scores / 4, scores / 4 + wide);
    f32.fill(0, likeness / 4, likeness / 4 + wide);
    for (let i = 0; i < n; i++) {
      const place = f32[found / 4 + i],
        slot = open[ahead + i];
      u32[names / 4 + place] = i;
      f32[scores / 4 + place] = s[slot];
      k.putVectors(x, d, deep, slot, 1, vectors + 4 * place * deep);
    }
    k.panels(vectors, n, deep, panels);
    k.pick(names, n, panels, deep, scores, likeness, lambda, picked, first, count, work, found);
    for (let t = 0; t < count; t++) order[t] = open[t < first ? t : ahead + u32[found / 4 + t - first]];
  };
