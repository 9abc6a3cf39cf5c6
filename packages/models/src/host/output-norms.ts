import type { AnySignal } from '@kv/core';
import type { LayerCache } from '../cache.ts';
import { createKernel, growTo, hasSimd } from '../simd/kernel.ts';
import type { Kernel } from '../simd/kernel.ts';

/** Values that go through a head's part of the output product together. */
const BLOCK = 64;

let kernel: Kernel | undefined;

/** The p of a norm. */
export type OutputNorm = 1 | 2;
/** Which one the signal `values.output` asks for. */
export const outputNormOf = ({ args }: AnySignal): OutputNorm => (args?.['norm'] === 2 ? 2 : 1);

/**
 * |v W_O|_p of every cached value through each query head's columns of the output product `[D, H * d]`: `[H, n]`. The
 * product in f32, its sums over D in f64.
 */
export function outputNorms(
  cache: LayerCache,
  weight: Float32Array,
  queryHeads: number,
  p: OutputNorm = 1,
): Float32Array {
  const { values, heads: G, headDim: d, capacity, length: n, lengths } = cache,
    out = new Float32Array(queryHeads * n),
    width = queryHeads * d,
    D = weight.length / width,
    product = hasSimd() ? simdProduct(d, D) : plainProduct(d, D);
  for (let h = 0; h < queryHeads; h++) {
    const g = Math.floor((h * G) / queryHeads);
    product.open((row) => weight.subarray(row * width + h * d, row * width + (h + 1) * d));
    for (let first = 0; first < lengths[g]; first += BLOCK) {
      const rows = Math.min(BLOCK, lengths[g] - first),
        at = (g * capacity + first) * d,
        y = product.apply(values.subarray(at, at + rows * d), rows);
      for (let r = 0; r < rows; r++) {
        let total = 0;
        for (let j = y.at + r * y.stride; j < y.at + r * y.stride + D; j++)
          total += p === 1 ? Math.abs(y.data[j]) : y.data[j] * y.data[j];
        out[h * n + first + r] = p === 1 ? total : Math.sqrt(total);
      }
    }
  }
  return out;
}

/** x Wᵀ of x `[rows, d]` for a weight `[D, d]`. */
interface Product {
  open(weight: (row: number) => Float32Array): void;
  apply(x: Float32Array, rows: number): { readonly data: Float32Array; readonly at: number; readonly stride: number };
}

function plainProduct(d: number, D: number): Product {
  const w = new Float32Array(D * d),
    data = new Float32Array(BLOCK * D);
  return {
    open(weight) {
      for (let j = 0; j < D; j++) w.set(weight(j), j * d);
    },
    apply(x, rows) {
      for (let r = 0; r < rows; r++)
        for (let j = 0; j < D; j++) {
          let y = 0;
          for (let c = 0; c < d; c++) y += w[j * d + c] * x[r * d + c];
          data[r * D + j] = y;
        }
      return { data, at: 0, stride: D };
    },
  };
}

function simdProduct(d: number, D: number): Product {
  const { memory, pack, gemm } = (kernel ??= createKernel()),
    upTo8 = (x: number): number => 8 * Math.ceil(x / 8),
    [deep, wide] = [upTo8(d), upTo8(D)],
    rows = 64, // where the weight's rows lie, before they are packed, and then x
    panels = rows + 4 * Math.max(D, BLOCK) * deep,
    found = panels + 4 * wide * deep;
  growTo(memory, found + 4 * BLOCK * wide);
  const f32 = new Float32Array(memory.buffer);
  return {
    open(weight) {
      f32.fill(0, rows / 4, panels / 4);
      for (let j = 0; j < D; j++) f32.set(weight(j), rows / 4 + j * deep);
      pack(rows, D, deep, panels);
      f32.fill(0, rows / 4, rows / 4 + BLOCK * deep);
    },
    apply(x, count) {
      if (d === deep) f32.set(x, rows / 4);
      else for (let r = 0; r < count; r++) f32.set(x.subarray(r * d, (r + 1) * d), rows / 4 + r * deep);
      gemm(count, wide, deep, rows, 4 * deep, panels, 32, 32 * deep, found, 4 * wide, 1);
      return { data: f32, at: found / 4, stride: wide };
    },
  };
}
