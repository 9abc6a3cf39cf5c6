import type { WasmMemory } from '@kv/core';

/** Remaining mass below this counts as none: half an f32 ulp of 1. */
export const FLOOR = 2 ** -24;

/**
 * Writes evictions from the slots `open` to `order`: the first `ahead` of them, then one after the other the slot with
 * the least Σ over heads of |S + h_i (o - v_i)| / (1 - M - h_i), of equals the last in `open`, with S and M the sums of
 * h_i (o - v_i) and h_i over the evicted. A quotient counts as 1e30 where its divisor is at most `FLOOR`.
 *
 * v `[n, d]`, h `[H, n]`, o `[H, d]`; writes S and M to `sums` `[H, d + 1]`.
 */
export type Evict = (
  v: Float32Array,
  d: number,
  h: Float32Array,
  o: Float32Array,
  open: readonly number[],
  ahead: number,
  order: Uint32Array,
  sums: Float32Array,
) => void;

/** `Evict` by plain loops in f64. */
export const oneByOne: Evict = (v, d, h, o, open, ahead, order, sums) => {
  const n = v.length / d,
    left = [...open],
    moved = new Float64Array(sums.length);
  /** Error of the outputs with slot i evicted too. */
  const error = (i: number): number => {
    let all = 0;
    for (let at = 0, own = 0, j = i; at < moved.length; at += d + 1, own += d, j += n) {
      const rest = 1 - moved[at + d] - h[j];
      let square = 0;
      for (let c = 0; c < d; c++) square += (moved[at + c] + h[j] * (o[own + c] - v[i * d + c])) ** 2;
      all += rest > FLOOR ? Math.sqrt(square) / rest : 1e30;
    }
    return all;
  };
  for (let t = 0; t < order.length; t++) {
    let [worst, least] = [0, Infinity];
    if (t >= ahead)
      left.forEach((i, place) => {
        const own = error(i);
        if (own <= least) [worst, least] = [place, own];
      });
    const [i = 0] = left.splice(worst, 1);
    order[t] = i;
    for (let at = 0, own = 0, j = i; at < moved.length; at += d + 1, own += d, j += n) {
      for (let c = 0; c < d; c++) moved[at + c] += h[j] * (o[own + c] - v[i * d + c]);
      moved[at + d] += h[j];
    }
  }
  sums.set(moved);
};

/** The functions of kernel/greedy.ts; pointers and distances of rows are bytes. */
interface GreedyModule extends WasmMemory {
  mix(p: number, ldp: number, rows: number, x: number, n: number, d: number, acc: number): void;
  centre(x: number, n: number, d: number, c: number): void;
  panels(x: number, n: number, d: number, out: number): void;
  dots(q: number, rows: number, x: number, n: number, d: number, out: number, ldo: number): void;
  distances(q: number, rows: number, x: number, n: number, d: number, out: number, ldo: number): void;
  evict(
    names: number,
    n: number,
    ahead: number,
    gone: number,
    x: number,
    d: number,
    heads: number,
    h: number,
    near: number,
    along: number,
    ld: number,
    o: number,
    state: number,
    work: number,
  ): void;
}

const upTo = (n: number, of: number): number => of * Math.ceil(n / of);

/** Returns `Evict` that runs the module of kernel/greedy.ts: products of v with v are in f32. */
export const evictBy =
  (k: GreedyModule): Evict =>
  (v, d, h, o, open, ahead, order, sums) => {
    sums.fill(0);
    if (order.length === 0) return;
    const heads = o.length / d,
      slots = v.length / d,
      n = open.length,
      deep = upTo(d, 4),
      wide = upTo(n, 8),
      all = heads * wide,
      sizes = [4 * n, 4 * n * deep, 4 * wide * deep, 4 * all, 4 * all, 8 * all],
      [places = 0, vectors = 0, panels = 0, weights = 0, near = 0, along = 0, outputs = 0, state = 0, work = 0] =
        k.place(...sizes, 8 * heads * deep, 8 * heads * (deep + 5), 4 * Math.max(all, deep + 8)),
      [f32, f64, u32] = [k.f32(), k.f64(), k.u32()],
      // the kernel takes the first `ahead` from the end
      names = Uint32Array.from(open, (_, i) => (i < n - ahead ? ahead + i : n - 1 - i));
    u32.set(names, places / 4);
    names.forEach((name, i) => k.putVectors(v, d, deep, open[name], 1, vectors + 4 * i * deep));
    // minus their mean, so that inner products of differences between vectors do not cancel
    f32.fill(1 / n, near / 4, near / 4 + all);
    f64.fill(0, outputs / 8, outputs / 8 + heads * deep);
    k.mix(near, 4 * n, 1, vectors, n, deep, outputs);
    const mean = Float32Array.from(f64.subarray(outputs / 8, outputs / 8 + deep));
    f32.set(mean, work / 4);
    k.centre(vectors, n, deep, work);
    k.panels(vectors, n, deep, panels);
    for (let i = 0; i < o.length; i++) f64[outputs / 8 + Math.floor(i / d) * deep + (i % d)] = o[i] - mean[i % d];
    k.dots(outputs, heads, vectors, n, deep, near, 4 * wide);
    k.distances(outputs, heads, vectors, n, deep, work, 4 * wide);
    f64.fill(0, state / 8, state / 8 + heads * (deep + 5));
    for (let r = 0, at = 0; r < heads; r++) {
      f64[state / 8 + r * (deep + 5) + 3] = 1;
      for (let i = 0; i < wide; i++, at++) {
        const weight = i < n ? h[r * slots + open[names[i]]] : -1;
        f32[weights / 4 + at] = weight;
        f64[along / 8 + at] = i < n ? weight * f32[work / 4 + at] ** 2 : -Infinity;
      }
    }
    f32.fill(0, work / 4, work / 4 + deep);
    k.evict(places, n, ahead, order.length, panels, deep, heads, weights, near, along, 4 * wide, outputs, state, work);
    for (let t = 0; t < order.length; t++) order[t] = open[u32[places / 4 + n - 1 - t]];
    for (let r = 0; r < heads; r++) {
      const from = state / 8 + r * (deep + 5) + 4;
      sums.set(f64.subarray(from, from + d), r * (d + 1));
      sums[r * (d + 1) + d] = f64[from + deep];
    }
  };
