// @ts-nocheck: AssemblyScript, not TypeScript
// Attention in steps, for the host, which may hide slots between scores and softmax. d is a multiple of 4.

import { dots1, gemm, transpose } from "./attend";
import { exp4 } from "./forms";

/** Packs n keys `[n, d]` into panels `[ceil(n / 8), d, 8]`; those missing in the last panel are zeros. */
export function packKeys(keys: usize, n: usize, d: usize, to: usize): void {
  const row = d << 2;
  for (let s: usize = 0; s < n; s += 8) transpose(keys + s * row, row, n - s, to + s * row);
}

/** Scores of m queries `[m, d]`, m a multiple of 4, with n packed keys, n a multiple of 8: rows `ldo` bytes apart. */
export function scorePacked(q: usize, m: usize, panels: usize, n: usize, d: usize, out: usize, ldo: usize): void {
  gemm(m, n, d, q, d << 2, panels, 32, 32 * d, out, ldo, false);
}

/** Scores of one query with n keys `[n, d]`: packing them would cost more than it saves. */
export function scoreOne(q: usize, keys: usize, n: usize, d: usize, out: usize): void {
  dots1(q, d << 2, keys, n, out, 0);
}

/**
 * Softmax of n numbers and of a sink, which leaves with its weight (-Infinity: none), the sum in f64; zeros where all are
 * -Infinity, and from n on up to `end`, a multiple of 4.
 */
export function softmax(s: usize, n: usize, end: usize, sink: f32): void {
  for (let j = n; j < end; j++) store<f32>(s + (j << 2), -Infinity);
  const stop = s + (end << 2);
  let top = f32x4.splat(sink);
  for (let p = s; p < stop; p += 16) top = f32x4.pmax(top, v128.load(p));
  const highest = Mathf.max(
    Mathf.max(f32x4.extract_lane(top, 0), f32x4.extract_lane(top, 1)),
    Mathf.max(f32x4.extract_lane(top, 2), f32x4.extract_lane(top, 3)));
  if (highest == -Infinity) {
    memory.fill(s, 0, end << 2);
    return;
  }
  const max = f32x4.splat(highest);
  let sum = f64x2.replace_lane(f64x2.splat(0), 0, <f64>f32x4.extract_lane(exp4(f32x4.sub(f32x4.splat(sink), max)), 0));
  for (let p = s; p < stop; p += 16) {
    const e = exp4(f32x4.sub(v128.load(p), max));
    v128.store(p, e);
    sum = f64x2.add(sum, f64x2.add(f64x2.promote_low_f32x4(e), f64x2.promote_low_f32x4(v128.shuffle<f64>(e, e, 1, 1))));
  }
  const scale = f32x4.splat(<f32>(1.0 / (f64x2.extract_lane(sum, 0) + f64x2.extract_lane(sum, 1))));
  for (let p = s; p < stop; p += 16) v128.store(p, f32x4.mul(v128.load(p), scale));
}

/** acc[j] (f64) += the sum over rows of s[row, j], and, unless top is 0, top[j] (f32) = their maximum with it. n is a multiple of 4. */
export function columns(s: usize, ld: usize, rows: usize, n: usize, acc: usize, top: usize): void {
  for (let j: usize = 0; j < n << 2; j += 16) {
    let sum = f32x4.splat(0), max = sum;
    let p = s + j;
    for (let i: usize = 0; i < rows; i++, p += ld) {
      const x = v128.load(p);
      sum = f32x4.add(sum, x);
      max = f32x4.pmax(max, x);
    }
    const q = acc + 2 * j;
    v128.store(q, f64x2.add(v128.load(q), f64x2.promote_low_f32x4(sum)));
    v128.store(q, f64x2.add(v128.load(q, 16), f64x2.promote_low_f32x4(v128.shuffle<f64>(sum, sum, 1, 1))), 16);
    if (top) v128.store(top + j, f32x4.pmax(v128.load(top + j), max));
  }
}
