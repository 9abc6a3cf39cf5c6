// @ts-nocheck: AssemblyScript, not TypeScript
// Single-threaded WASM-SIMD kernels of @kv/models, in AssemblyScript. Rebuild: `node scripts/build-kernel.mjs`.
// Pointers are byte offsets into the exported memory; every matrix is f32. There is no allocator: the caller places everything.

/**
 * C[m, n] = (first ? 0 : C) + A[m, k] * B[k, n], n a multiple of 8. B[i, j] lies at b + (j / 8) * panel + i * ldb + (j % 8) * 4;
 * lda, ldb, panel and ldc are bytes.
 */
export function gemm(m: i32, n: i32, k: i32, a: usize, lda: usize, b: usize, ldb: usize, panel: usize, c: usize, ldc: usize, first: i32): void {
  const whole = m & ~3;
  if (whole > 0) quads(whole, n, k, a, lda, b, ldb, panel, c, ldc, first);
  for (let i = whole; i < m; i++) one(n, k, a + i * lda, b, ldb, panel, c + i * ldc, first);
}

/** Four rows at a time; every number is a sum in the order of k, as in `one`: a row's result does not depend on the others. */
function quads(m: i32, n: i32, k: i32, a: usize, lda: usize, b: usize, ldb: usize, panel: usize, c: usize, ldc: usize, first: i32): void {
  for (let j = 0; j < n; j += 8, b += panel, c += 32) {
    let ai = a;
    let ci = c;
    for (let i = 0; i < m; i += 4, ai += 4 * lda, ci += 4 * ldc) {
      let c00 = f32x4.splat(0), c01 = c00, c10 = c00, c11 = c00, c20 = c00, c21 = c00, c30 = c00, c31 = c00;
      let a0 = ai, a1 = ai + lda, a2 = a1 + lda, a3 = a2 + lda;
      let p = b;
      for (let t = 0; t < k; t++, p += ldb) {
        const b0 = v128.load(p), b1 = v128.load(p, 16);
        let s = v128.load_splat<f32>(a0);
        c00 = f32x4.add(c00, f32x4.mul(s, b0));
        c01 = f32x4.add(c01, f32x4.mul(s, b1));
        s = v128.load_splat<f32>(a1);
        c10 = f32x4.add(c10, f32x4.mul(s, b0));
        c11 = f32x4.add(c11, f32x4.mul(s, b1));
        s = v128.load_splat<f32>(a2);
        c20 = f32x4.add(c20, f32x4.mul(s, b0));
        c21 = f32x4.add(c21, f32x4.mul(s, b1));
        s = v128.load_splat<f32>(a3);
        c30 = f32x4.add(c30, f32x4.mul(s, b0));
        c31 = f32x4.add(c31, f32x4.mul(s, b1));
        a0 += 4; a1 += 4; a2 += 4; a3 += 4;
      }
      put(ci, c00, c01, first);
      put(ci + ldc, c10, c11, first);
      put(ci + 2 * ldc, c20, c21, first);
      put(ci + 3 * ldc, c30, c31, first);
    }
  }
}

/** One row, over two panels at a time, so that sums in the order of k do not wait for each other. */
function one(n: i32, k: i32, a: usize, b: usize, ldb: usize, panel: usize, c: usize, first: i32): void {
  let j = 0;
  for (; j + 16 <= n; j += 16, b += 2 * panel, c += 64) {
    let c0 = f32x4.splat(0), c1 = c0, c2 = c0, c3 = c0;
    let p = b, q = b + panel, s = a;
    for (let t = 0; t < k; t++, p += ldb, q += ldb, s += 4) {
      const x = v128.load_splat<f32>(s);
      c0 = f32x4.add(c0, f32x4.mul(x, v128.load(p)));
      c1 = f32x4.add(c1, f32x4.mul(x, v128.load(p, 16)));
      c2 = f32x4.add(c2, f32x4.mul(x, v128.load(q)));
      c3 = f32x4.add(c3, f32x4.mul(x, v128.load(q, 16)));
    }
    put(c, c0, c1, first);
    put(c + 32, c2, c3, first);
  }
  if (j < n) {
    let c0 = f32x4.splat(0), c1 = c0;
    let p = b, s = a;
    for (let t = 0; t < k; t++, p += ldb, s += 4) {
      const x = v128.load_splat<f32>(s);
      c0 = f32x4.add(c0, f32x4.mul(x, v128.load(p)));
      c1 = f32x4.add(c1, f32x4.mul(x, v128.load(p, 16)));
    }
    put(c, c0, c1, first);
  }
}

// @ts-ignore: decorator
@inline
function put(p: usize, x: v128, y: v128, first: i32): void {
  if (!first) {
    x = f32x4.add(x, v128.load(p));
    y = f32x4.add(y, v128.load(p, 16));
  }
  v128.store(p, x);
  v128.store(p, y, 16);
}

/** Packs rows [n, d] (contiguous, d a multiple of 4) into panels [ceil(n / 8), d, 8]; missing rows of the last panel are zero. */
export function pack(src: usize, n: i32, d: i32, dst: usize): void {
  const row = <usize>d << 2;
  for (let j = 0; j < n; j += 8, src += 8 * row, dst += 8 * row) {
    for (let half = 0; half < 2; half++) {
      const first = j + 4 * half;
      const s = src + 4 * half * row;
      for (let i: usize = 0; i < row; i += 16) {
        const zero = f32x4.splat(0);
        const r0 = first < n ? v128.load(s + i) : zero;
        const r1 = first + 1 < n ? v128.load(s + row + i) : zero;
        const r2 = first + 2 < n ? v128.load(s + 2 * row + i) : zero;
        const r3 = first + 3 < n ? v128.load(s + 3 * row + i) : zero;
        const t0 = v128.shuffle<f32>(r0, r1, 0, 4, 1, 5), t1 = v128.shuffle<f32>(r0, r1, 2, 6, 3, 7);
        const t2 = v128.shuffle<f32>(r2, r3, 0, 4, 1, 5), t3 = v128.shuffle<f32>(r2, r3, 2, 6, 3, 7);
        const p = dst + (i << 3) + (half << 4);
        v128.store(p, v128.shuffle<f64>(t0, t2, 0, 2));
        v128.store(p, v128.shuffle<f64>(t0, t2, 1, 3), 32);
        v128.store(p, v128.shuffle<f64>(t1, t3, 0, 2), 64);
        v128.store(p, v128.shuffle<f64>(t1, t3, 1, 3), 96);
      }
    }
  }
}

/** out[j] = q . k[j] for n contiguous rows of d (a multiple of 4): what packing would cost more than it saves, for a single query. */
export function dots(q: usize, k: usize, n: i32, d: i32, out: usize): void {
  const row = <usize>d << 2;
  let j = 0;
  for (; j + 4 <= n; j += 4, k += 4 * row, out += 16) {
    let s0 = f32x4.splat(0), s1 = s0, s2 = s0, s3 = s0;
    for (let i: usize = 0; i < row; i += 16) {
      const x = v128.load(q + i), p = k + i;
      s0 = f32x4.add(s0, f32x4.mul(x, v128.load(p)));
      s1 = f32x4.add(s1, f32x4.mul(x, v128.load(p + row)));
      s2 = f32x4.add(s2, f32x4.mul(x, v128.load(p + 2 * row)));
      s3 = f32x4.add(s3, f32x4.mul(x, v128.load(p + 3 * row)));
    }
    const t0 = f32x4.add(v128.shuffle<f32>(s0, s1, 0, 4, 1, 5), v128.shuffle<f32>(s0, s1, 2, 6, 3, 7));
    const t1 = f32x4.add(v128.shuffle<f32>(s2, s3, 0, 4, 1, 5), v128.shuffle<f32>(s2, s3, 2, 6, 3, 7));
    v128.store(out, f32x4.add(v128.shuffle<f64>(t0, t1, 0, 2), v128.shuffle<f64>(t0, t1, 1, 3)));
  }
  for (; j < n; j++, k += row, out += 4) {
    let s = f32x4.splat(0);
    for (let i: usize = 0; i < row; i += 16) s = f32x4.add(s, f32x4.mul(v128.load(q + i), v128.load(k + i)));
    store<f32>(out, f32x4.extract_lane(s, 0) + f32x4.extract_lane(s, 1) + (f32x4.extract_lane(s, 2) + f32x4.extract_lane(s, 3)));
  }
}

/** e^x for x <= 0, about 1 ulp; exactly 0 below -87 (and at -Infinity). */
// @ts-ignore: decorator
@inline
function exp4(x: v128): v128 {
  const dead = f32x4.lt(x, f32x4.splat(-87.0)), whole = f32x4.splat(12582912.0);
  x = f32x4.pmax(x, f32x4.splat(-87.0));
  // the nearest whole number, whose bits come last in a sum with 1.5 * 2^23
  const shifted = f32x4.add(f32x4.mul(x, f32x4.splat(1.44269504088896341)), whole), n = f32x4.sub(shifted, whole);
  x = f32x4.sub(f32x4.sub(x, f32x4.mul(n, f32x4.splat(0.693359375))), f32x4.mul(n, f32x4.splat(-2.12194440e-4)));
  let y = f32x4.splat(1.9875691500e-4);
  y = f32x4.add(f32x4.mul(y, x), f32x4.splat(1.3981999507e-3));
  y = f32x4.add(f32x4.mul(y, x), f32x4.splat(8.3334519073e-3));
  y = f32x4.add(f32x4.mul(y, x), f32x4.splat(4.1665795894e-2));
  y = f32x4.add(f32x4.mul(y, x), f32x4.splat(1.6666665459e-1));
  y = f32x4.add(f32x4.mul(y, x), f32x4.splat(5.0000001201e-1));
  y = f32x4.add(f32x4.add(f32x4.mul(y, f32x4.mul(x, x)), x), f32x4.splat(1.0));
  return v128.andnot(i32x4.add(y, i32x4.shl(shifted, 23)), dead);
}

/** Softmax of s[lo, hi) in place; the rest of s[0, end) becomes 0. end is a multiple of 4; the sum is taken in f64. Nothing but -Infinity gives zeros. */
export function softmax(s: usize, lo: i32, hi: i32, end: i32): void {
  for (let j = 0; j < lo; j++) store<f32>(s + (<usize>j << 2), -Infinity);
  for (let j = hi; j < end; j++) store<f32>(s + (<usize>j << 2), -Infinity);
  const stop = s + (<usize>end << 2);
  let top = f32x4.splat(-Infinity);
  for (let p = s; p < stop; p += 16) top = f32x4.pmax(top, v128.load(p));
  const highest = Mathf.max(
    Mathf.max(f32x4.extract_lane(top, 0), f32x4.extract_lane(top, 1)),
    Mathf.max(f32x4.extract_lane(top, 2), f32x4.extract_lane(top, 3)));
  if (highest == -Infinity) {
    memory.fill(s, 0, <usize>end << 2);
    return;
  }
  const max = f32x4.splat(highest);
  let sum = f64x2.splat(0);
  for (let p = s; p < stop; p += 16) {
    const e = exp4(f32x4.sub(v128.load(p), max));
    v128.store(p, e);
    sum = f64x2.add(sum, f64x2.add(f64x2.promote_low_f32x4(e), f64x2.promote_low_f32x4(v128.shuffle<f64>(e, e, 1, 1))));
  }
  const scale = f32x4.splat(<f32>(1.0 / (f64x2.extract_lane(sum, 0) + f64x2.extract_lane(sum, 1))));
  for (let p = s; p < stop; p += 16) v128.store(p, f32x4.mul(v128.load(p), scale));
}

/** acc[j] (f64) += the sum over rows of s[row, j], and, unless top is 0, top[j] (f32) = their maximum with it. n is a multiple of 4. */
export function columns(s: usize, ld: usize, rows: i32, n: i32, acc: usize, top: usize): void {
  for (let j: usize = 0; j < <usize>n << 2; j += 16) {
    let sum = f32x4.splat(0), max = sum;
    let p = s + j;
    for (let i = 0; i < rows; i++, p += ld) {
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

/** out[rows, n] = silu(gate) * up for rows [gate(n) | up(n)]; n >= 4. The last vector overlaps the one before it. */
export function swiglu(src: usize, rows: i32, n: i32, out: usize): void {
  const width = <usize>n << 2;
  for (let r = 0; r < rows; r++, src += 2 * width, out += width) {
    for (let i: usize = 0; i < width; i += 16) {
      const at = i + 16 > width ? width - 16 : i;
      const gate = v128.load(src + at);
      const e = exp4(f32x4.neg(f32x4.abs(gate)));
      const one = f32x4.splat(1.0);
      const top = v128.bitselect(one, e, f32x4.ge(gate, f32x4.splat(0)));
      v128.store(out + at, f32x4.mul(f32x4.mul(gate, f32x4.div(top, f32x4.add(one, e))), v128.load(src + width + at)));
    }
  }
}
