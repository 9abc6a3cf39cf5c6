import { blockRows } from './block-rows.ts';
import type { RowEngine } from './row-engine.ts';

/** Returns plain loops that accumulate in f64: the reference, and the fallback without WebAssembly SIMD. */
export function plainEngine(): RowEngine {
  let keys = new Float32Array(0);
  let values: Float32Array | undefined;
  let [n, d] = [0, 0];
  let scores = new Float32Array(0);
  let sum = new Float64Array(0);
  let max = new Float32Array(0);
  return {
    open(k, v, slots, width) {
      [keys, values, n, d] = [k as Float32Array<ArrayBuffer>, v, slots, width];
      if (scores.length < blockRows * n) scores = new Float32Array(blockRows * n);
      [sum, max] = [new Float64Array(n), new Float32Array(n)];
    },
    score(q, rows, end, scale) {
      for (let r = 0; r < rows; r++)
        for (let j = 0; j < end; j++) {
          let dot = 0;
          for (let i = 0; i < d; i++) dot += q[r * d + i] * keys[j * d + i];
          scores[r * n + j] = dot * scale;
        }
      return { data: scores, at: 0, stride: n };
    },
    softmax(row, hi, end, sink) {
      const at = row * n;
      let top = sink;
      for (let j = 0; j < hi; j++) if (scores[at + j] > top) top = scores[at + j];
      let total = top === -Infinity ? 0 : Math.exp(sink - top);
      for (let j = 0; j < hi; j++) total += scores[at + j] = top === -Infinity ? 0 : Math.exp(scores[at + j] - top);
      for (let j = 0; j < hi; j++) scores[at + j] = total === 0 ? 0 : scores[at + j] / total;
      scores.fill(0, at + hi, at + end);
    },
    addColumns(rows, end) {
      for (let r = 0; r < rows; r++)
        for (let j = 0; j < end; j++) {
          const p = scores[r * n + j];
          sum[j] = sum[j] + p;
          if (p > max[j]) max[j] = p;
        }
    },
    takeColumns() {
      const taken = { sum, max };
      [sum, max] = [new Float64Array(n), new Float32Array(n)];
      return taken;
    },
    mix(rows, end, out, at, stride) {
      const total = new Float64Array(d);
      for (let r = 0; r < rows; r++) {
        total.fill(0);
        for (let j = 0; j < end; j++) {
          const p = scores[r * n + j];
          // `open` was given values if `mix` is called
          if (p !== 0) for (let i = 0; i < d; i++) total[i] = total[i] + p * values![j * d + i];
        }
        out.set(total, at + r * stride);
      }
    },
  };
}
