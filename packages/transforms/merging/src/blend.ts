import type { WasmMemory } from '@kv/core';

/**
 * Writes (x_i + Σ w_e x_e) / (1 + Σ w_e) over the rows e of x `[n, d]` that go `into` row i, with w `[n]`: `[n, d]`.
 */
export type Blend = (x: Float32Array, d: number, into: Uint32Array, w: Float32Array, out: Float32Array) => void;

/** `Blend` by plain loops in f64. */
export const blendReference: Blend = (x, d, into, w, out) => {
  const sums = new Float64Array(x),
    mass = new Float64Array(w.length).fill(1);
  for (let e = 0; e < w.length; e++) {
    mass[into[e]] += w[e];
    if (w[e] !== 0) for (let c = 0; c < d; c++) sums[into[e] * d + c] += w[e] * x[e * d + c];
  }
  for (let i = 0; i < out.length; i++) out[i] = sums[i] / mass[Math.floor(i / d)];
};

/** The function of kernel/fold.ts; pointers are bytes. */
interface FoldModule extends WasmMemory {
  blend(x: number, n: number, d: number, into: number, w: number, acc: number): void;
}

const upTo = (n: number, of: number): number => of * Math.ceil(n / of);

/** Returns `Blend` that runs the module of kernel/fold.ts. */
export const blendBy =
  (k: FoldModule): Blend =>
  (x, d, into, w, out) => {
    const n = w.length,
      deep = upTo(d, 2),
      [vectors = 0, places = 0, weights = 0, sums = 0] = k.place(4 * n * deep, 4 * n, 4 * n, 8 * n * (deep + 1));
    k.putVectors(x, d, deep, 0, n, vectors);
    k.u32().set(into, places / 4);
    k.f32().set(w, weights / 4);
    k.blend(vectors, n, deep, places, weights, sums);
    if (d === deep) out.set(k.f32().subarray(vectors / 4, vectors / 4 + n * d));
    else for (let i = 0, at = vectors / 4; i < n; i++, at += deep) out.set(k.f32().subarray(at, at + d), i * d);
  };
