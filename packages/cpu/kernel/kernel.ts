// @ts-nocheck: AssemblyScript, not TypeScript
// WebAssembly SIMD kernels of the operations on the host, in AssemblyScript: f32 in memory, sums in f64. Rebuild:
// `node scripts/build-kernel.mjs`. Pointers are byte offsets into the exported memory, from `base` on; there is no
// allocator: the caller places everything, 16 bytes of slack behind every array.

import { pair, putPair, total } from "./pairs";

/** Where the caller's memory begins. */
export const base: i32 = <i32>__heap_base;

/**
 * A fourth of n rows, rounded up. Rows i, i + a fourth, ... are read one after the other: the processor fetches four
 * places ahead of the sums at once, where one stream would end at every page of memory.
 */
// @ts-ignore: decorator
@inline
function fourth(n: i32): i32 {
  return (n + 3) >> 2;
}

/** out[i] = the Euclidean norm of row i of x [n, d], or with `p` 1 the sum of its absolute values. */
export function norms(x: usize, n: i32, d: i32, p: i32, out: usize): void {
  const row = <usize>d << 2, whole = <usize>(d & ~3) << 2, part = fourth(n);
  for (let first = 0; first < part; first++) for (let i = first; i < n; i += part) {
    const at = x + <usize>i * row;
    let a = f64x2.splat(0), b = a, c: usize = 0;
    if (p == 1) for (; c < whole; c += 16) {
      a = f64x2.add(a, f64x2.abs(pair(at + c)));
      b = f64x2.add(b, f64x2.abs(pair(at + c + 8)));
    } else for (; c < whole; c += 16) {
      const l = pair(at + c), h = pair(at + c + 8);
      a = f64x2.add(a, f64x2.mul(l, l));
      b = f64x2.add(b, f64x2.mul(h, h));
    }
    let sum = total(f64x2.add(a, b));
    for (; c < row; c += 4) {
      const v = <f64>load<f32>(at + c);
      sum += p == 1 ? Math.abs(v) : v * v;
    }
    store<f32>(out + (<usize>i << 2), <f32>(p == 1 ? sum : Math.sqrt(sum)));
  }
}

/**
 * out[r, i] = the inner product of row r of q [rows, d], f64, with row i of x [n, d]; rows of out are `ldo` bytes apart.
 */
export function dots(q: usize, rows: i32, x: usize, n: i32, d: i32, out: usize, ldo: usize): void {
  const row = <usize>d << 2, whole = <usize>(d & ~3) << 2, part = fourth(n);
  for (let r = 0; r < rows; r++, q += 2 * row, out += ldo)
    for (let first = 0; first < part; first++) for (let i = first; i < n; i += part) {
      const at = x + <usize>i * row;
      let a = f64x2.splat(0), b = a, c: usize = 0;
      for (; c < whole; c += 16) {
        a = f64x2.add(a, f64x2.mul(v128.load(q + 2 * c), pair(at + c)));
        b = f64x2.add(b, f64x2.mul(v128.load(q + 2 * c, 16), pair(at + c + 8)));
      }
      let sum = total(f64x2.add(a, b));
      for (; c < row; c += 4) sum += load<f64>(q + 2 * c) * <f64>load<f32>(at + c);
      store<f32>(out + (<usize>i << 2), <f32>sum);
    }
}

/** out[i] = the inner product of row i of x [n, d] with row min(index[i], n - 1). */
export function dotWith(x: usize, index: usize, n: i32, d: i32, out: usize): void {
  const row = <usize>d << 2, whole = <usize>(d & ~3) << 2;
  let p = x;
  for (const end = out + (<usize>n << 2); out < end; out += 4, index += 4, p += row) {
    const q = x + <usize>min(load<u32>(index), <u32>n - 1) * row;
    let a = f64x2.splat(0), b = a, c: usize = 0;
    for (; c < whole; c += 16) {
      a = f64x2.add(a, f64x2.mul(pair(p + c), pair(q + c)));
      b = f64x2.add(b, f64x2.mul(pair(p + c + 8), pair(q + c + 8)));
    }
    let sum = total(f64x2.add(a, b));
    for (; c < row; c += 4) sum += <f64>load<f32>(p + c) * <f64>load<f32>(q + c);
    store<f32>(out, <f32>sum);
  }
}

// @ts-ignore: decorator
@inline
function squared(q: usize, x: v128): v128 {
  const e = f64x2.sub(v128.load(q), x);
  return f64x2.mul(e, e);
}
/** The root of `sum` and the squares of numbers [c, row) of q - x. */
// @ts-ignore: decorator
@inline
function rooted(sum: v128, q: usize, x: usize, from: usize, row: usize): f32 {
  let all = total(sum);
  for (let c = from; c < row; c += 4) {
    const e = load<f64>(q + 2 * c) - <f64>load<f32>(x + c);
    all += e * e;
  }
  return <f32>Math.sqrt(all);
}

/**
 * out[r, i] = the Euclidean distance of row r of q [rows, d], f64, from row i of x [n, d]; rows of out are `ldo` bytes
 * apart. Three rows of a GQA group look at x together.
 */
export function distances(q: usize, rows: i32, x: usize, n: i32, d: i32, out: usize, ldo: usize): void {
  const row = <usize>d << 2, whole = <usize>(d & ~3) << 2, part = fourth(n);
  for (; rows >= 3; rows -= 3, q += 6 * row, out += 3 * ldo) {
    const q1 = q + 2 * row, q2 = q1 + 2 * row;
    for (let first = 0; first < part; first++) for (let i = first; i < n; i += part) {
      const at = x + <usize>i * row, to = out + (<usize>i << 2);
      let a0 = f64x2.splat(0), b0 = a0, a1 = a0, b1 = a0, a2 = a0, b2 = a0;
      for (let c: usize = 0; c < whole; c += 16) {
        const l = pair(at + c), h = pair(at + c + 8), o = 2 * c;
        a0 = f64x2.add(a0, squared(q + o, l));
        b0 = f64x2.add(b0, squared(q + o + 16, h));
        a1 = f64x2.add(a1, squared(q1 + o, l));
        b1 = f64x2.add(b1, squared(q1 + o + 16, h));
        a2 = f64x2.add(a2, squared(q2 + o, l));
        b2 = f64x2.add(b2, squared(q2 + o + 16, h));
      }
      store<f32>(to, rooted(f64x2.add(a0, b0), q, at, whole, row));
      store<f32>(to + ldo, rooted(f64x2.add(a1, b1), q1, at, whole, row));
      store<f32>(to + 2 * ldo, rooted(f64x2.add(a2, b2), q2, at, whole, row));
    }
  }
  for (; rows > 0; rows--, q += 2 * row, out += ldo)
    for (let first = 0; first < part; first++) for (let i = first; i < n; i += part) {
      const at = x + <usize>i * row;
      let a = f64x2.splat(0), b = a;
      for (let c: usize = 0; c < whole; c += 16) {
        a = f64x2.add(a, squared(q + 2 * c, pair(at + c)));
        b = f64x2.add(b, squared(q + 2 * c + 16, pair(at + c + 8)));
      }
      store<f32>(out + (<usize>i << 2), rooted(f64x2.add(a, b), q, at, whole, row));
    }
}

/** Of columns [from, d) of one row of `mix`, each by itself. */
function mixRow(p: usize, x: usize, n: i32, d: i32, acc: usize, from: usize): void {
  const row = <usize>d << 2, last = p + (<usize>n << 2);
  let c = from;
  for (; c + 64 <= row; c += 64) {
    const o = acc + 2 * c;
    let s0 = v128.load(o), s1 = v128.load(o, 16), s2 = v128.load(o, 32), s3 = v128.load(o, 48);
    let s4 = v128.load(o, 64), s5 = v128.load(o, 80), s6 = v128.load(o, 96), s7 = v128.load(o, 112);
    let at = x + c;
    for (let w = p; w < last; w += 4, at += row) {
      const y = f64x2.splat(<f64>load<f32>(w));
      s0 = f64x2.add(s0, f64x2.mul(y, pair(at)));
      s1 = f64x2.add(s1, f64x2.mul(y, pair(at + 8)));
      s2 = f64x2.add(s2, f64x2.mul(y, pair(at + 16)));
      s3 = f64x2.add(s3, f64x2.mul(y, pair(at + 24)));
      s4 = f64x2.add(s4, f64x2.mul(y, pair(at + 32)));
      s5 = f64x2.add(s5, f64x2.mul(y, pair(at + 40)));
      s6 = f64x2.add(s6, f64x2.mul(y, pair(at + 48)));
      s7 = f64x2.add(s7, f64x2.mul(y, pair(at + 56)));
    }
    v128.store(o, s0); v128.store(o, s1, 16); v128.store(o, s2, 32); v128.store(o, s3, 48);
    v128.store(o, s4, 64); v128.store(o, s5, 80); v128.store(o, s6, 96); v128.store(o, s7, 112);
  }
  for (; c < row; c += 4) {
    const o = acc + 2 * c;
    let s = load<f64>(o), at = x + c;
    for (let w = p; w < last; w += 4, at += row) s += <f64>load<f32>(w) * <f64>load<f32>(at);
    store<f64>(o, s);
  }
}

/**
 * Brings so many bytes near, line after line, at four places in turn. What is loaded goes nowhere; that a load may trap
 * keeps it.
 */
function fetch(x: usize, bytes: usize): void {
  const part = (bytes >> 8) << 6;
  for (const end = x + part; x < end; x += 64) {
    load<i32>(x);
    load<i32>(x + part);
    load<i32>(x + 2 * part);
    load<i32>(x + 3 * part);
  }
}
/** Bytes of x that `mix` goes over again and again, a few columns at a time. */
const NEAR = 32768;

/**
 * acc[r] += the sum over i of p[r, i] x[i] for `rows` rows of p, `ldp` bytes apart, and n rows of x [n, d]; acc is f64
 * [rows, d].
 */
export function mix(p: usize, ldp: usize, rows: i32, x: usize, n: i32, d: i32, acc: usize): void {
  const row = <usize>d << 2, block = max(1, NEAR / (d << 2));
  for (; n > 0; n -= block, x += <usize>block * row, p += <usize>block << 2) {
    const count = min(n, block);
    fetch(x, <usize>count * row);
    mixed(p, ldp, rows, x, count, d, acc);
  }
}
/** The same for rows of x that lie near. Three rows of a GQA group look at x together. */
function mixed(p: usize, ldp: usize, rows: i32, x: usize, n: i32, d: i32, acc: usize): void {
  const row = <usize>d << 2, end = <usize>n << 2;
  for (; rows >= 3; rows -= 3, p += 3 * ldp, acc += 6 * row) {
    let c: usize = 0;
    for (; c + 32 <= row; c += 32) {
      const o = acc + 2 * c, o1 = o + 2 * row, o2 = o1 + 2 * row;
      let a0 = v128.load(o), b0 = v128.load(o, 16), c0 = v128.load(o, 32), d0 = v128.load(o, 48);
      let a1 = v128.load(o1), b1 = v128.load(o1, 16), c1 = v128.load(o1, 32), d1 = v128.load(o1, 48);
      let a2 = v128.load(o2), b2 = v128.load(o2, 16), c2 = v128.load(o2, 32), d2 = v128.load(o2, 48);
      for (let i: usize = 0, at = x + c; i < end; i += 4, at += row) {
        const w = p + i, x0 = pair(at), x1 = pair(at + 8), x2 = pair(at + 16), x3 = pair(at + 24);
        let y = f64x2.splat(<f64>load<f32>(w));
        a0 = f64x2.add(a0, f64x2.mul(y, x0));
        b0 = f64x2.add(b0, f64x2.mul(y, x1));
        c0 = f64x2.add(c0, f64x2.mul(y, x2));
        d0 = f64x2.add(d0, f64x2.mul(y, x3));
        y = f64x2.splat(<f64>load<f32>(w + ldp));
        a1 = f64x2.add(a1, f64x2.mul(y, x0));
        b1 = f64x2.add(b1, f64x2.mul(y, x1));
        c1 = f64x2.add(c1, f64x2.mul(y, x2));
        d1 = f64x2.add(d1, f64x2.mul(y, x3));
        y = f64x2.splat(<f64>load<f32>(w + 2 * ldp));
        a2 = f64x2.add(a2, f64x2.mul(y, x0));
        b2 = f64x2.add(b2, f64x2.mul(y, x1));
        c2 = f64x2.add(c2, f64x2.mul(y, x2));
        d2 = f64x2.add(d2, f64x2.mul(y, x3));
      }
      v128.store(o, a0); v128.store(o, b0, 16); v128.store(o, c0, 32); v128.store(o, d0, 48);
      v128.store(o1, a1); v128.store(o1, b1, 16); v128.store(o1, c1, 32); v128.store(o1, d1, 48);
      v128.store(o2, a2); v128.store(o2, b2, 16); v128.store(o2, c2, 32); v128.store(o2, d2, 48);
    }
    if (c < row) for (let r: usize = 0; r < 3; r++) mixRow(p + r * ldp, x, n, d, acc + 2 * r * row, c);
  }
  for (; rows > 0; rows--, p += ldp, acc += 2 * row) mixRow(p, x, n, d, acc, 0);
}

/** Kinds of `groups`. */
const MEAN = 0, MAX = 2;

/**
 * out[i] = the mean (kind 0), sum (1) or maximum (2) of x[0 .. count, i], rows of x `ldx` bytes apart, a line of a cache
 * at a time: x and out have room for n up to a multiple of 16.
 */
export function groups(kind: i32, x: usize, ldx: usize, count: i32, n: i32, out: usize): void {
  const end = <usize>count * ldx, by = f64x2.splat(kind == MEAN ? <f64>count : 1);
  for (let i = 0; i < n; i += 16, x += 64, out += 64)
    if (kind == MAX) {
      let a = f32x4.splat(-3.4028234663852886e38), b = a, c = a, d = a;
      for (let p = x, stop = x + end; p < stop; p += ldx) {
        a = f32x4.max(a, v128.load(p));
        b = f32x4.max(b, v128.load(p, 16));
        c = f32x4.max(c, v128.load(p, 32));
        d = f32x4.max(d, v128.load(p, 48));
      }
      v128.store(out, a);
      v128.store(out, b, 16);
      v128.store(out, c, 32);
      v128.store(out, d, 48);
    } else for (let j: usize = 0; j < 64; j += 16) {
      let a = f64x2.splat(0), b = a;
      for (let p = x + j, stop = p + end; p < stop; p += ldx) {
        a = f64x2.add(a, pair(p));
        b = f64x2.add(b, pair(p + 8));
      }
      putPair(out + j, f64x2.div(a, by));
      putPair(out + j + 8, f64x2.div(b, by));
    }
}

/**
 * out[i] = the mean or, with `max`, the largest of x[i .. i + kernel): x has `kernel - 1` numbers more than n. What is
 * no number counts in a mean alone.
 */
export function pool(x: usize, n: i32, kernel: i32, max: i32, out: usize): void {
  const end = <usize>kernel << 2, by = f64x2.splat(<f64>kernel), lowest = f32x4.splat(-3.4028234663852886e38);
  for (let i = 0; i < n; i += 4, x += 16, out += 16) {
    if (max) {
      let top = lowest;
      for (let j: usize = 0; j < end; j += 4) top = f32x4.pmax(top, v128.load(x + j));
      v128.store(out, top);
      continue;
    }
    let a = f64x2.splat(0), b = a;
    for (let j: usize = 0; j < end; j += 4) {
      a = f64x2.add(a, pair(x + j));
      b = f64x2.add(b, pair(x + j + 8));
    }
    putPair(out, f64x2.div(a, by));
    putPair(out + 8, f64x2.div(b, by));
  }
}

/** The first of n numbers that is not finite or below `least`, or -1. */
export function firstBad(x: usize, n: i32, least: f32): i32 {
  const low = f32x4.splat(least), high = f32x4.splat(3.4028234663852886e38);
  let i = 0;
  for (; i + 4 <= n; i += 4) {
    const v = v128.load(x + (<usize>i << 2));
    if (!i32x4.all_true(v128.and(f32x4.ge(v, low), f32x4.le(v, high)))) break;
  }
  for (; i < n; i++) {
    const v = load<f32>(x + (<usize>i << 2));
    if (!(v >= least && v <= <f32>3.4028234663852886e38)) return i;
  }
  return -1;
}

/** e^x for x <= 0 to a unit in the last place of f64; 0 below -700. */
// @ts-ignore: decorator
@inline
function exp2x(x: v128): v128 {
  const dead = f64x2.lt(x, f64x2.splat(-700));
  x = f64x2.pmax(x, f64x2.splat(-700));
  const n = f64x2.nearest(f64x2.mul(x, f64x2.splat(1.4426950408889634)));
  const r = f64x2.sub(
    f64x2.sub(x, f64x2.mul(n, f64x2.splat(6.93147180369123816490e-01))),
    f64x2.mul(n, f64x2.splat(1.90821492927058770002e-10)));
  let y = f64x2.splat(1.6059043836821613e-10);
  y = f64x2.add(f64x2.mul(y, r), f64x2.splat(2.08767569878681e-9));
  y = f64x2.add(f64x2.mul(y, r), f64x2.splat(2.505210838544172e-8));
  y = f64x2.add(f64x2.mul(y, r), f64x2.splat(2.755731922398589e-7));
  y = f64x2.add(f64x2.mul(y, r), f64x2.splat(2.7557319223985893e-6));
  y = f64x2.add(f64x2.mul(y, r), f64x2.splat(2.48015873015873e-5));
  y = f64x2.add(f64x2.mul(y, r), f64x2.splat(1.984126984126984e-4));
  y = f64x2.add(f64x2.mul(y, r), f64x2.splat(1.388888888888889e-3));
  y = f64x2.add(f64x2.mul(y, r), f64x2.splat(8.333333333333333e-3));
  y = f64x2.add(f64x2.mul(y, r), f64x2.splat(4.1666666666666664e-2));
  y = f64x2.add(f64x2.mul(y, r), f64x2.splat(1.6666666666666666e-1));
  y = f64x2.add(f64x2.mul(y, r), f64x2.splat(0.5));
  y = f64x2.add(f64x2.mul(f64x2.mul(r, r), y), r);
  const power = i64x2.shl(i64x2.add(i64x2.extend_low_i32x4_s(i32x4.trunc_sat_f64x2_s_zero(n)), i64x2.splat(1023)), 52);
  return v128.andnot(f64x2.mul(f64x2.add(y, f64x2.splat(1)), power), dead);
}

/** ln x to a unit in the last place of f64 (fdlibm's), for x that f32 holds or 1 + such. */
// @ts-ignore: decorator
@inline
function log2x(x: v128): v128 {
  // x = 2^k (1 + f), 1 + f from the root of 1/2 to that of 2
  const k = i64x2.shr_s(i64x2.sub(x, i64x2.splat(0x3fe6a09e667f3bcd)), 52);
  const f = f64x2.sub(i64x2.sub(x, i64x2.shl(k, 52)), f64x2.splat(1));
  const e = f64x2.convert_low_i32x4_s(v128.shuffle<i32>(k, k, 0, 2, 0, 2));
  const s = f64x2.div(f, f64x2.add(f, f64x2.splat(2))), z = f64x2.mul(s, s);
  let y = f64x2.splat(1.479819860511658591e-01);
  y = f64x2.add(f64x2.mul(y, z), f64x2.splat(1.531383769920937332e-01));
  y = f64x2.add(f64x2.mul(y, z), f64x2.splat(1.818357216161805012e-01));
  y = f64x2.add(f64x2.mul(y, z), f64x2.splat(2.222219843214978396e-01));
  y = f64x2.add(f64x2.mul(y, z), f64x2.splat(2.857142874366239149e-01));
  y = f64x2.add(f64x2.mul(y, z), f64x2.splat(3.999999999940941908e-01));
  y = f64x2.add(f64x2.mul(y, z), f64x2.splat(6.666666666666735130e-01));
  const half = f64x2.mul(f64x2.splat(0.5), f64x2.mul(f, f));
  y = f64x2.add(f64x2.mul(s, f64x2.add(half, f64x2.mul(z, y))), f64x2.mul(e, f64x2.splat(1.90821492927058770002e-10)));
  y = f64x2.sub(f64x2.mul(e, f64x2.splat(6.93147180369123816490e-01)), f64x2.sub(f64x2.sub(half, y), f));
  y = v128.bitselect(x, y, f64x2.eq(x, f64x2.splat(Infinity)));
  y = v128.bitselect(y, f64x2.splat(NaN), f64x2.ge(x, f64x2.splat(0)));
  return v128.bitselect(f64x2.splat(-Infinity), y, f64x2.eq(x, f64x2.splat(0)));
}
/** ln (1 + x): what the sum loses comes back as the slope of the logarithm times it. */
// @ts-ignore: decorator
@inline
function log1p2x(x: v128): v128 {
  const one = f64x2.splat(1), u = f64x2.add(x, one), y = log2x(u);
  const lost = f64x2.div(f64x2.sub(x, f64x2.sub(u, one)), u);
  return v128.bitselect(f64x2.add(y, lost), y, f64x2.eq(lost, lost)); // no number where u is 0 or infinite
}

/** out = x over its sum; a row without mass becomes uniform. x has room for n + 1 numbers. */
export function shares(x: usize, n: i32, out: usize): void {
  const end = x + (<usize>n << 2);
  store<f32>(end, 0); // an odd number of slots is rounded up to one more, which weighs nothing
  let sum = f64x2.splat(0);
  for (let p = x; p < end; p += 8) sum = f64x2.add(sum, pair(p));
  const all = total(sum), by = f64x2.splat(all), even = f64x2.splat(1 / <f64>n);
  for (let p = x; p < end; p += 8, out += 8) putPair(out, all == 0 ? even : f64x2.div(pair(p), by));
}

/** The order of floats as that of whole numbers: a set sign turns all bits, a clear one the sign, and -0 is 0. */
// @ts-ignore: decorator
@inline
function ordered(bits: u32): u32 {
  return bits < 0x80000000 ? bits | 0x80000000 : bits == 0x80000000 ? bits : ~bits;
}

/** How many are to be found below, once those above are counted off. */
let left: i32 = 0;

/** The bin from `at` downwards that holds the one sought. */
function bin(counts: usize, at: i32): u32 {
  let count = load<i32>(counts + (<usize>at << 2));
  while (count < left) {
    left -= count;
    at--;
    count = load<i32>(counts + (<usize>at << 2));
  }
  return at;
}

/**
 * Kept slots of a row of n scores, ascending, to `out`, and how many there are: those that are set in `forced`, then,
 * up to `budget`, the highest of those not set in `banned`, ties to the lower slot. Masks are f32 or 0 for none. `work`
 * has room for 2,048 counts, n numbers and n bytes. None of the scores is NaN.
 */
export function select(x: usize, n: i32, forced: usize, banned: usize, budget: i32, work: usize, out: usize): i32 {
  const counts = work, order = work + 8192, marks = order + (<usize>n << 2);
  let free = 0, taken = 0;
  memory.fill(counts, 0, 8192);
  for (let i: usize = 0; i < <usize>n; i++) {
    let mark: u8 = 1;
    if (forced && load<f32>(forced + (i << 2)) != 0) {
      mark = 2;
      taken++;
    } else if (banned && load<f32>(banned + (i << 2)) != 0) mark = 0;
    else {
      const o = ordered(load<u32>(x + (i << 2)));
      store<u32>(order + (<usize>free << 2), o);
      free++;
      const at = counts + ((o >> 21) << 2);
      store<i32>(at, load<i32>(at) + 1);
    }
    store<u8>(marks + i, mark);
  }
  left = max(0, min(budget - taken, free));
  let border: u32 = 0, ties = 0;
  if (left == free) ties = free;
  else if (left > 0) {
    const high = bin(counts, 2047);
    let tied = 0;
    memory.fill(counts, 0, 8192);
    for (let i: usize = 0; i < <usize>free; i++) {
      const o = load<u32>(order + (i << 2));
      if (o >> 21 != high) continue;
      store<u32>(order + (<usize>tied << 2), o);
      tied++;
      const at = counts + (((o >> 10) & 2047) << 2);
      store<i32>(at, load<i32>(at) + 1);
    }
    const middle = bin(counts, 2047);
    memory.fill(counts, 0, 8192);
    for (let i: usize = 0; i < <usize>tied; i++) {
      const o = load<u32>(order + (i << 2));
      if (((o >> 10) & 2047) != middle) continue;
      const at = counts + ((o & 1023) << 2);
      store<i32>(at, load<i32>(at) + 1);
    }
    border = (high << 21) | (middle << 10) | bin(counts, 1023);
    ties = left;
  } else border = 0xffffffff;
  let to = out;
  for (let i: usize = 0; i < <usize>n; i++) {
    const mark = load<u8>(marks + i);
    let keep = mark == 2;
    if (mark == 1) {
      const o = ordered(load<u32>(x + (i << 2)));
      if (o > border) keep = true;
      else if (o == border && ties > 0) {
        keep = true;
        ties--;
      }
    }
    if (!keep) continue;
    store<u32>(to, <u32>i);
    to += 4;
  }
  return <i32>(to - out) >> 2;
}

/** Where an operand's numbers are: f32, u32, or a number itself. */
const F32 = 0, U32 = 1;

/** Two numbers of an operand that steps, or one twice. */
// @ts-ignore: decorator
@inline
function operand(type: i32, at: usize, step: i32, value: f64): v128 {
  if (type == F32) return step ? pair(at) : f64x2.splat(<f64>load<f32>(at));
  if (type == U32) return step ? f64x2.convert_low_i32x4_u(v128.load64_zero(at)) : f64x2.splat(<f64>load<u32>(at));
  return f64x2.splat(value);
}
// @ts-ignore: decorator
@inline
function truth(x: v128): v128 {
  return v128.and(x, f64x2.splat(1));
}

/**
 * out [outer, inner] = an operation, `kind` by the order of the cases, of operands of which `ao` and `bo` are the bytes
 * from one row to the next, and `ai` and `bi` 1 where they step within a row. Of one operand b is not looked at, but
 * that e^(a - b) is the exponential.
 */
export function zip(
  kind: i32, outer: i32, inner: i32,
  ta: i32, a: usize, ao: usize, ai: i32, fa: f64,
  tb: i32, b: usize, bo: usize, bi: i32, fb: f64,
  out: usize,
): void {
  const sa: usize = ai ? 8 : 0, sb: usize = bi ? 8 : 0;
  for (let o = 0; o < outer; o++, a += ao, b += bo, out += <usize>inner << 2) {
    let pa = a, pb = b, to = out;
    for (let i = 0; i < inner; i += 2, pa += sa, pb += sb, to += 8) {
      const x = operand(ta, pa, ai, fa), y = operand(tb, pb, bi, fb);
      let z: v128;
      switch (kind) {
        case 0: z = f64x2.add(x, y); break;
        case 1: z = f64x2.sub(x, y); break;
        case 2: z = f64x2.mul(x, y); break;
        case 3: z = f64x2.div(x, y); break;
        case 4: z = v128.bitselect(x, y, f64x2.gt(x, y)); break;
        case 5: z = v128.bitselect(x, y, f64x2.lt(x, y)); break;
        case 6: z = truth(f64x2.lt(x, y)); break;
        case 7: z = truth(f64x2.ge(x, y)); break;
        case 8: z = truth(f64x2.eq(x, y)); break;
        case 9: z = exp2x(f64x2.min(f64x2.sub(x, y), f64x2.splat(700))); break;
        case 10: z = f64x2.sqrt(x); break;
        case 11: z = f64x2.abs(x); break;
        case 12: z = f64x2.floor(x); break;
        case 13: z = log2x(x); break;
        case 14: z = log1p2x(x); break;
        default: z = f64x2.div(x, f64x2.max(f64x2.sub(f64x2.splat(1), x), f64x2.splat(5.960464477539063e-8))); break;
      }
      putPair(to, z);
    }
  }
}

/** Four numbers of an operand that steps, or one four times. */
// @ts-ignore: decorator
@inline
function four(at: usize, step: i32): v128 {
  return step ? v128.load(at) : v128.load32_splat(at);
}

/**
 * `zip` of operands in f32 where that rounds as f64 would: all kinds but the exponential, logarithms and the odds.
 */
export function zip4(
  kind: i32, outer: i32, inner: i32, a: usize, ao: usize, ai: i32, b: usize, bo: usize, bi: i32, out: usize,
): void {
  const sa: usize = ai ? 16 : 0, sb: usize = bi ? 16 : 0, one = f32x4.splat(1);
  for (let o = 0; o < outer; o++, a += ao, b += bo, out += <usize>inner << 2) {
    let pa = a, pb = b;
    for (let to = out, end = out + (<usize>inner << 2); to < end; to += 16, pa += sa, pb += sb) {
      const x = four(pa, ai), y = four(pb, bi);
      let z: v128;
      switch (kind) {
        case 0: z = f32x4.add(x, y); break;
        case 1: z = f32x4.sub(x, y); break;
        case 2: z = f32x4.mul(x, y); break;
        case 3: z = f32x4.div(x, y); break;
        case 4: z = v128.bitselect(x, y, f32x4.gt(x, y)); break;
        case 5: z = v128.bitselect(x, y, f32x4.lt(x, y)); break;
        case 6: z = v128.and(f32x4.lt(x, y), one); break;
        case 7: z = v128.and(f32x4.ge(x, y), one); break;
        case 8: z = v128.and(f32x4.eq(x, y), one); break;
        case 10: z = f32x4.sqrt(x); break;
        case 11: z = f32x4.abs(x); break;
        default: z = f32x4.floor(x); break;
      }
      v128.store(to, z);
    }
  }
}

/** `choose` of operands in f32. */
export function choose4(
  outer: i32, inner: i32, m: usize, mo: usize, mi: i32, a: usize, ao: usize, ai: i32, b: usize, bo: usize, bi: i32,
  out: usize,
): void {
  const sm: usize = mi ? 16 : 0, sa: usize = ai ? 16 : 0, sb: usize = bi ? 16 : 0, none = f32x4.splat(0);
  for (let o = 0; o < outer; o++, m += mo, a += ao, b += bo, out += <usize>inner << 2) {
    let pm = m, pa = a, pb = b;
    for (let to = out, end = out + (<usize>inner << 2); to < end; to += 16, pm += sm, pa += sa, pb += sb)
      v128.store(to, v128.bitselect(four(pa, ai), four(pb, bi), f32x4.ne(four(pm, mi), none)));
  }
}

/** out [outer, inner] = a where m is not 0, else b; operands as those of `zip`. */
export function choose(
  outer: i32, inner: i32,
  tm: i32, m: usize, mo: usize, mi: i32, fm: f64,
  ta: i32, a: usize, ao: usize, ai: i32, fa: f64,
  tb: i32, b: usize, bo: usize, bi: i32, fb: f64,
  out: usize,
): void {
  const sm: usize = mi ? 8 : 0, sa: usize = ai ? 8 : 0, sb: usize = bi ? 8 : 0;
  for (let o = 0; o < outer; o++, m += mo, a += ao, b += bo, out += <usize>inner << 2) {
    let pm = m, pa = a, pb = b, to = out;
    for (let i = 0; i < inner; i += 2, pm += sm, pa += sa, pb += sb, to += 8) {
      const mask = f64x2.ne(operand(tm, pm, mi, fm), f64x2.splat(0));
      putPair(to, v128.bitselect(operand(ta, pa, ai, fa), operand(tb, pb, bi, fb), mask));
    }
  }
}

/** out[i] = table[index[i]], 4 bytes each; -1, or the first place whose index is not below `size`. */
export function take(table: usize, size: u32, index: usize, n: i32, out: usize): i32 {
  for (let i: usize = 0; i < <usize>n << 2; i += 4) {
    const at = load<u32>(index + i);
    if (at >= size) return <i32>(i >> 2);
    store<u32>(out + i, load<u32>(table + (<usize>at << 2)));
  }
  return -1;
}

/**
 * out[g] = the mean (kind 0), sum (1) or maximum (2) of x[i] over the places i whose group is g, of `count` groups, 0
 * where there is none; -1, or the first place whose group is not below `count`. `work` has room for `count` sums and
 * sizes of 8 bytes.
 */
export function groupSlots(kind: i32, x: usize, group: usize, n: i32, count: u32, work: usize, out: usize): i32 {
  const sums = work, sizes = work + (<usize>count << 3), none = kind == MAX ? -3.4028234663852886e38 : 0;
  for (let g: usize = 0; g < <usize>count; g++) {
    store<f64>(sums + (g << 3), none);
    store<f64>(sizes + (g << 3), 0);
  }
  for (let i: usize = 0; i < <usize>n << 2; i += 4) {
    const g = load<u32>(group + i);
    if (g >= count) return <i32>(i >> 2);
    const at = sums + (<usize>g << 3), size = sizes + (<usize>g << 3), v = <f64>load<f32>(x + i);
    store<f64>(size, load<f64>(size) + 1);
    store<f64>(at, kind == MAX ? Math.max(load<f64>(at), v) : load<f64>(at) + v);
  }
  for (let g: usize = 0; g < <usize>count; g++) {
    const size = load<f64>(sizes + (g << 3)), sum = load<f64>(sums + (g << 3));
    store<f32>(out + (g << 2), size == 0 ? 0 : <f32>(kind == MEAN ? sum / size : sum));
  }
  return -1;
}

/** The sum (kind 1), largest (2) or smallest (3) of n numbers, or the sum of their squared distances from `mean` (4). */
export function fold(kind: i32, x: usize, n: i32, mean: f64): f64 {
  const end = x + (<usize>n << 2), whole = x + (<usize>(n & ~1) << 2);
  if (kind == MAX || kind == 3) {
    const sign: f32 = kind == MAX ? 1 : -1;
    let top: f32 = -3.4028234663852886e38;
    for (; x < end; x += 4) {
      const v = sign * load<f32>(x);
      if (v > top || v != v) top = v;
    }
    return <f64>(sign * top);
  }
  let sums = f64x2.splat(0);
  if (kind == 1) for (; x < whole; x += 8) sums = f64x2.add(sums, pair(x));
  else for (; x < whole; x += 8) {
    const e = f64x2.sub(pair(x), f64x2.splat(mean));
    sums = f64x2.add(sums, f64x2.mul(e, e));
  }
  let sum = total(sums);
  if (x < end) {
    const v = <f64>load<f32>(x);
    sum += kind == 1 ? v : (v - mean) * (v - mean);
  }
  return sum;
}

/**
 * out[i] (f32) = how many of n numbers stand before x[i], largest first, ties to the lower place. `work` has room for
 * 2,048 counts and 4 n numbers. None is NaN.
 */
export function rank(x: usize, n: i32, work: usize, out: usize): void {
  const counts = work, size = <usize>n << 2;
  let keys = work + 8192, places = keys + size, nextKeys = places + size, nextPlaces = nextKeys + size;
  for (let i: usize = 0; i < size; i += 4) {
    store<u32>(keys + i, ~ordered(load<u32>(x + i)));
    store<u32>(places + i, <u32>i);
  }
  for (let shift: u32 = 0; shift < 32; shift += 11) {
    memory.fill(counts, 0, 8192);
    for (let i: usize = 0; i < size; i += 4) {
      const at = counts + (<usize>((load<u32>(keys + i) >> shift) & 2047) << 2);
      store<u32>(at, load<u32>(at) + 4);
    }
    let before: u32 = 0;
    for (let b: usize = 0; b < 8192; b += 4) {
      const count = load<u32>(counts + b);
      store<u32>(counts + b, before);
      before += count;
    }
    for (let i: usize = 0; i < size; i += 4) {
      const key = load<u32>(keys + i), at = counts + (<usize>((key >> shift) & 2047) << 2), to = <usize>load<u32>(at);
      store<u32>(at, <u32>to + 4);
      store<u32>(nextKeys + to, key);
      store<u32>(nextPlaces + to, load<u32>(places + i));
    }
    let swap = keys;
    keys = nextKeys;
    nextKeys = swap;
    swap = places;
    places = nextPlaces;
    nextPlaces = swap;
  }
  for (let i: usize = 0; i < size; i += 4) store<f32>(out + <usize>load<u32>(places + i), <f32>(i >> 2));
}

/** out[i] (f32) = the place of x[i] in its unit, largest first, ties to the lower slot; units are contiguous. */
export function placeInUnit(x: usize, unit: usize, n: i32, out: usize): void {
  const end = <usize>n << 2;
  for (let first: usize = 0; first < end;) {
    const own = load<u32>(unit + first);
    let stop = first;
    while (stop < end && load<u32>(unit + stop) == own) stop += 4;
    for (let i = first; i < stop; i += 4) {
      const v = load<f32>(x + i);
      let place = 0;
      for (let j = first; j < i; j += 4) place += i32(load<f32>(x + j) >= v);
      for (let j = i + 4; j < stop; j += 4) place += i32(load<f32>(x + j) > v);
      store<f32>(out + i, <f32>place);
    }
    first = stop;
  }
}

/** out (f64) = n numbers of x (f32), an even number of them. */
export function widen(x: usize, n: i32, out: usize): void {
  for (const end = x + (<usize>n << 2); x < end; x += 8, out += 16) v128.store(out, pair(x));
}

/** x [n, d] - c [d], where x is; d a multiple of 4. */
export function centre(x: usize, n: i32, d: i32, c: usize): void {
  const row = <usize>d << 2;
  for (const end = x + <usize>n * row; x < end; x += row)
    for (let o: usize = 0; o < row; o += 16) v128.store(x + o, f32x4.sub(v128.load(x + o), v128.load(c + o)));
}

/** The upper two of four numbers in f64. */
// @ts-ignore: decorator
@inline
function upper(x: v128): v128 {
  return f64x2.promote_low_f32x4(v128.shuffle<f64>(x, x, 1, 1));
}
// @ts-ignore: decorator
@inline
function plus(at: usize, x: v128): void {
  v128.store(at, f64x2.add(v128.load(at), f64x2.promote_low_f32x4(x)));
  v128.store(at, f64x2.add(v128.load(at, 16), upper(x)), 16);
}

/** Vectors whose products are summed in f32 before they join a sum in f64. */
const SHORT: usize = 32;

/**
 * acc += the sum over i of w[i] x[i] x[i]ᵀ, its tiles of 4 x 8 that reach below the diagonal or touch it: x [n, d] and w
 * [n], acc f64 [d, d], d a multiple of 8. `work` has room for `SHORT` vectors.
 */
export function gram(x: usize, w: usize, n: i32, d: i32, work: usize, acc: usize): void {
  const row = <usize>d << 2, size = SHORT * row;
  for (const last = x + <usize>n * row; x < last; x += size) {
    const end = min(x + size, last);
    for (let p = x, to = work; p < end; w += 4) {
      const by = v128.load32_splat(w);
      for (const stop = p + row; p < stop; p += 16, to += 16) v128.store(to, f32x4.mul(by, v128.load(p)));
    }
    for (let a: usize = 0; a < row; a += 16)
      for (let b: usize = 0; b <= a; b += 32) {
        let s0 = f32x4.splat(0), s1 = s0, s2 = s0, s3 = s0, t0 = s0, t1 = s0, t2 = s0, t3 = s0;
        for (let p = x + b, q = work + a; p < end; p += row, q += row) {
          const u = v128.load(p), v = v128.load(p, 16);
          let y = v128.load32_splat(q);
          s0 = f32x4.add(s0, f32x4.mul(y, u));
          t0 = f32x4.add(t0, f32x4.mul(y, v));
          y = v128.load32_splat(q, 4);
          s1 = f32x4.add(s1, f32x4.mul(y, u));
          t1 = f32x4.add(t1, f32x4.mul(y, v));
          y = v128.load32_splat(q, 8);
          s2 = f32x4.add(s2, f32x4.mul(y, u));
          t2 = f32x4.add(t2, f32x4.mul(y, v));
          y = v128.load32_splat(q, 12);
          s3 = f32x4.add(s3, f32x4.mul(y, u));
          t3 = f32x4.add(t3, f32x4.mul(y, v));
        }
        let to = acc + (a >> 1) * row + 2 * b;
        plus(to, s0); plus(to + 32, t0);
        to += 2 * row;
        plus(to, s1); plus(to + 32, t1);
        to += 2 * row;
        plus(to, s2); plus(to + 32, t2);
        to += 2 * row;
        plus(to, s3); plus(to + 32, t3);
      }
  }
}

// @ts-ignore: decorator
@inline
function innerTerm(x: usize, s: v128, t: v128): v128 {
  const y = f32x4.add(f32x4.mul(s, v128.load(x)), f32x4.mul(t, v128.load(x, 16)));
  return f64x2.add(f64x2.promote_low_f32x4(y), upper(y));
}

/**
 * out[i] = x[i]ᵀ m x[i]: x [n, d], n a multiple of 4, m [d, d] symmetric, d a multiple of 8. Of m what lies above the
 * tiles of 8 x 8 on its diagonal counts twice, and what lies below them is not read.
 */
export function quadratic(x: usize, n: i32, d: i32, m: usize, out: usize): void {
  const row = <usize>d << 2, end = x + <usize>n * row;
  for (let p = x; p < end; p += 4 * row, out += 16) {
    let sum0 = f64x2.splat(0), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    for (let a: usize = 0; a < row; a += 32) {
      let s0 = f32x4.splat(0), s1 = s0, s2 = s0, s3 = s0, t0 = s0, t1 = s0, t2 = s0, t3 = s0;
      for (let b = p, q = m + a; b <= p + a;) {
        if (b == p + a) {
          s0 = f32x4.add(s0, s0); t0 = f32x4.add(t0, t0);
          s1 = f32x4.add(s1, s1); t1 = f32x4.add(t1, t1);
          s2 = f32x4.add(s2, s2); t2 = f32x4.add(t2, t2);
          s3 = f32x4.add(s3, s3); t3 = f32x4.add(t3, t3);
        }
        for (const stop = b + 32; b < stop; b += 4, q += row) {
          const u = v128.load(q), v = v128.load(q, 16);
          let y = v128.load32_splat(b);
          s0 = f32x4.add(s0, f32x4.mul(y, u));
          t0 = f32x4.add(t0, f32x4.mul(y, v));
          y = v128.load32_splat(b + row);
          s1 = f32x4.add(s1, f32x4.mul(y, u));
          t1 = f32x4.add(t1, f32x4.mul(y, v));
          y = v128.load32_splat(b + 2 * row);
          s2 = f32x4.add(s2, f32x4.mul(y, u));
          t2 = f32x4.add(t2, f32x4.mul(y, v));
          y = v128.load32_splat(b + 3 * row);
          s3 = f32x4.add(s3, f32x4.mul(y, u));
          t3 = f32x4.add(t3, f32x4.mul(y, v));
        }
      }
      sum0 = f64x2.add(sum0, innerTerm(p + a, s0, t0));
      sum1 = f64x2.add(sum1, innerTerm(p + row + a, s1, t1));
      sum2 = f64x2.add(sum2, innerTerm(p + 2 * row + a, s2, t2));
      sum3 = f64x2.add(sum3, innerTerm(p + 3 * row + a, s3, t3));
    }
    putTotals(out, sum0, sum1);
    putTotals(out + 8, sum2, sum3);
  }
}

/**
 * m = m^-1, f64 [d, d] symmetric, d even, by Gauss-Jordan elimination in place of what stands on its diagonal and below
 * it; a pivot below `least` counts as that. `work` has room for 2 d numbers.
 */
export function inverse(m: usize, d: i32, least: f64, work: usize): void {
  const row = <usize>d << 3, scaled = work + row;
  for (let k: usize = 0, own = m; k < row; k += 8, own += row) {
    const p = 1 / Math.max(load<f64>(own + k), least);
    for (let j: usize = 0, at = m + k; j < row; j += 8, at += row) {
      const v = load<f64>(j < k ? own + j : at);
      store<f64>(work + j, v);
      store<f64>(scaled + j, v * p);
    }
    store<f64>(work + k, 0);
    store<f64>(scaled + k, 0);
    for (let i: usize = 0, at = m; i < row; i += 8, at += row) {
      const f = v128.load64_splat(work + i);
      for (let j: usize = 0; j <= i; j += 16)
        v128.store(at + j, f64x2.sub(v128.load(at + j), f64x2.mul(f, v128.load(scaled + j))));
    }
    for (let j: usize = 0, at = m + k; j < row; j += 8, at += row) store<f64>(j < k ? own + j : at, load<f64>(scaled + j));
    store<f64>(own + k, -p);
  }
  // the elimination leaves the inverse with its sign turned
  for (let i: usize = 0; i < row; i += 8)
    for (let j: usize = 0; j <= i; j += 8) {
      const v = -load<f64>(m + (i >> 3) * row + j);
      store<f64>(m + (i >> 3) * row + j, v);
      store<f64>(m + (j >> 3) * row + i, v);
    }
}

/**
 * x [n, d] turned in place by rotary position embedding, or `back`, in f32 as devices do: row i by row min(index[i],
 * size - 1) of cos and sin [size, half].
 */
export function turn(
  x: usize, n: i32, d: i32, half: i32, cos: usize, sin: usize, index: usize, size: u32, back: i32,
): void {
  const width = <usize>half << 2, whole = <usize>(half & ~3) << 2, least = f32x4.splat(1e-30), one = f32x4.splat(1);
  for (let i = 0; i < n; i++, x += <usize>d << 2, index += 4) {
    const at = <usize>min(load<u32>(index), size - 1) * width;
    let c: usize = 0;
    for (; c < whole; c += 16) {
      const a = v128.load(x + c), b = v128.load(x + width + c), co = v128.load(cos + at + c), si = v128.load(sin + at + c);
      let y: v128, z: v128;
      if (back) {
        const by = f32x4.div(one, f32x4.pmax(f32x4.add(f32x4.mul(co, co), f32x4.mul(si, si)), least));
        y = f32x4.mul(f32x4.add(f32x4.mul(a, co), f32x4.mul(b, si)), by);
        z = f32x4.mul(f32x4.sub(f32x4.mul(b, co), f32x4.mul(a, si)), by);
      } else {
        y = f32x4.sub(f32x4.mul(a, co), f32x4.mul(b, si));
        z = f32x4.add(f32x4.mul(b, co), f32x4.mul(a, si));
      }
      v128.store(x + c, y);
      v128.store(x + width + c, z);
    }
    for (; c < width; c += 4) {
      const a = <f64>load<f32>(x + c), b = <f64>load<f32>(x + width + c);
      const co = <f64>load<f32>(cos + at + c), si = <f64>load<f32>(sin + at + c);
      const length = back ? Math.max(co * co + si * si, 1e-30) : 1, sign: f64 = back ? 1 : -1;
      store<f32>(x + c, <f32>((a * co + sign * b * si) / length));
      store<f32>(x + width + c, <f32>((b * co - sign * a * si) / length));
    }
  }
}

/**
 * out[r, i] (f32) = the inner product of row r of q [rows, d] with row i of x [n, d], both f64: rows a multiple of 4, n
 * and d of 2; rows of out are `ldo` bytes apart.
 */
export function products(q: usize, rows: i32, x: usize, n: i32, d: i32, out: usize, ldo: usize): void {
  const row = <usize>d << 3, end = x + <usize>n * row;
  for (let r = 0; r < rows; r += 4, q += 4 * row, out += 4 * ldo) {
    let to = out;
    for (let p = x; p < end; p += 2 * row, to += 8) {
      let s0 = f64x2.splat(0), s1 = s0, s2 = s0, s3 = s0, t0 = s0, t1 = s0, t2 = s0, t3 = s0;
      for (let c: usize = 0; c < row; c += 16) {
        const u = v128.load(p + c), v = v128.load(p + row + c);
        let w = v128.load(q + c);
        s0 = f64x2.add(s0, f64x2.mul(w, u));
        t0 = f64x2.add(t0, f64x2.mul(w, v));
        w = v128.load(q + row + c);
        s1 = f64x2.add(s1, f64x2.mul(w, u));
        t1 = f64x2.add(t1, f64x2.mul(w, v));
        w = v128.load(q + 2 * row + c);
        s2 = f64x2.add(s2, f64x2.mul(w, u));
        t2 = f64x2.add(t2, f64x2.mul(w, v));
        w = v128.load(q + 3 * row + c);
        s3 = f64x2.add(s3, f64x2.mul(w, u));
        t3 = f64x2.add(t3, f64x2.mul(w, v));
      }
      putTotals(to, s0, t0);
      putTotals(to + ldo, s1, t1);
      putTotals(to + 2 * ldo, s2, t2);
      putTotals(to + 3 * ldo, s3, t3);
    }
  }
}

// @ts-ignore: decorator
@inline
function putTotals(at: usize, s: v128, t: v128): void {
  putPair(at, f64x2.add(v128.shuffle<f64>(s, t, 0, 2), v128.shuffle<f64>(s, t, 1, 3)));
}

/** Rows of x [n, d] as panels [n / 8][d][8], those missing at the end as zeros: what `multiply` reads. */
export function panels(x: usize, n: i32, d: i32, out: usize): void {
  const row = <usize>d << 2;
  for (let i = 0; i < n; i += 8, x += 8 * row, out += 8 * row)
    for (let half: usize = 0; half < 2; half++) {
      const have = n - i - 4 * <i32>half, none = f32x4.splat(0);
      let p = x + 4 * half * row, to = out + 16 * half, c: usize = 0;
      for (; c + 16 <= row; c += 16, p += 16, to += 128) {
        const r0 = have > 0 ? v128.load(p) : none, r1 = have > 1 ? v128.load(p + row) : none;
        const r2 = have > 2 ? v128.load(p + 2 * row) : none, r3 = have > 3 ? v128.load(p + 3 * row) : none;
        const t0 = v128.shuffle<f32>(r0, r1, 0, 4, 1, 5), t1 = v128.shuffle<f32>(r0, r1, 2, 6, 3, 7);
        const t2 = v128.shuffle<f32>(r2, r3, 0, 4, 1, 5), t3 = v128.shuffle<f32>(r2, r3, 2, 6, 3, 7);
        v128.store(to, v128.shuffle<f64>(t0, t2, 0, 2));
        v128.store(to, v128.shuffle<f64>(t0, t2, 1, 3), 32);
        v128.store(to, v128.shuffle<f64>(t1, t3, 0, 2), 64);
        v128.store(to, v128.shuffle<f64>(t1, t3, 1, 3), 96);
      }
      for (; c < row; c += 4, p += 4, to += 32)
        for (let r: usize = 0; r < 4; r++) store<f32>(to + 4 * r, have > <i32>r ? load<f32>(p + r * row) : 0);
    }
}

/**
 * out[r, i] = the inner product of row r of q [rows, d] with row i of what `panels` made of x [n, d], in f32, summed in
 * the order of d: rows a multiple of 4, n of 8; rows of out are `ldo` bytes apart.
 */
export function multiply(q: usize, rows: i32, x: usize, n: i32, d: i32, out: usize, ldo: usize): void {
  const row = <usize>d << 2, end = x + <usize>n * row;
  for (; x < end; x += 8 * row, out += 32)
    for (let r = 0, a0 = q, to = out; r < rows; r += 4, a0 += 3 * row, to += 4 * ldo) {
      let s0 = f32x4.splat(0), s1 = s0, s2 = s0, s3 = s0, t0 = s0, t1 = s0, t2 = s0, t3 = s0;
      let a1 = a0 + row, a2 = a1 + row, a3 = a2 + row;
      for (let p = x, stop = x + 8 * row; p < stop; p += 32, a0 += 4, a1 += 4, a2 += 4, a3 += 4) {
        const u = v128.load(p), v = v128.load(p, 16);
        let w = v128.load32_splat(a0);
        s0 = f32x4.add(s0, f32x4.mul(w, u));
        t0 = f32x4.add(t0, f32x4.mul(w, v));
        w = v128.load32_splat(a1);
        s1 = f32x4.add(s1, f32x4.mul(w, u));
        t1 = f32x4.add(t1, f32x4.mul(w, v));
        w = v128.load32_splat(a2);
        s2 = f32x4.add(s2, f32x4.mul(w, u));
        t2 = f32x4.add(t2, f32x4.mul(w, v));
        w = v128.load32_splat(a3);
        s3 = f32x4.add(s3, f32x4.mul(w, u));
        t3 = f32x4.add(t3, f32x4.mul(w, v));
      }
      v128.store(to, s0); v128.store(to, t0, 16);
      v128.store(to + ldo, s1); v128.store(to + ldo, t1, 16);
      v128.store(to + 2 * ldo, s2); v128.store(to + 2 * ldo, t2, 16);
      v128.store(to + 3 * ldo, s3); v128.store(to + 3 * ldo, t3, 16);
    }
}

/** Constants of `exp4`, a vector each: V8 makes others anew wherever they are used. */
const EXP: usize = memory.data<f32>([
  -87, -87, -87, -87,
  1.44269504088896341, 1.44269504088896341, 1.44269504088896341, 1.44269504088896341,
  12582912, 12582912, 12582912, 12582912,
  0.693359375, 0.693359375, 0.693359375, 0.693359375,
  -2.12194440e-4, -2.12194440e-4, -2.12194440e-4, -2.12194440e-4,
  1.9875691500e-4, 1.9875691500e-4, 1.9875691500e-4, 1.9875691500e-4,
  1.3981999507e-3, 1.3981999507e-3, 1.3981999507e-3, 1.3981999507e-3,
  8.3334519073e-3, 8.3334519073e-3, 8.3334519073e-3, 8.3334519073e-3,
  4.1665795894e-2, 4.1665795894e-2, 4.1665795894e-2, 4.1665795894e-2,
  1.6666665459e-1, 1.6666665459e-1, 1.6666665459e-1, 1.6666665459e-1,
  5.0000001201e-1, 5.0000001201e-1, 5.0000001201e-1, 5.0000001201e-1,
  1, 1, 1, 1,
], 16);

/** e^x for x <= 0 to about a unit in the last place of f32; 0 below -87, where products would be too small for speed. */
// @ts-ignore: decorator
@inline
function exp4(x: v128): v128 {
  const dead = f32x4.lt(x, v128.load(EXP));
  x = f32x4.pmax(x, v128.load(EXP));
  // the nearest whole number, whose bits come last in a sum with 1.5 * 2^23
  const shifted = f32x4.add(f32x4.mul(x, v128.load(EXP, 16)), v128.load(EXP, 32));
  const n = f32x4.sub(shifted, v128.load(EXP, 32));
  x = f32x4.sub(f32x4.sub(x, f32x4.mul(n, v128.load(EXP, 48))), f32x4.mul(n, v128.load(EXP, 64)));
  let y = f32x4.add(f32x4.mul(v128.load(EXP, 80), x), v128.load(EXP, 96));
  y = f32x4.add(f32x4.mul(y, x), v128.load(EXP, 112));
  y = f32x4.add(f32x4.mul(y, x), v128.load(EXP, 128));
  y = f32x4.add(f32x4.mul(y, x), v128.load(EXP, 144));
  y = f32x4.add(f32x4.mul(y, x), v128.load(EXP, 160));
  y = f32x4.add(f32x4.add(f32x4.mul(y, f32x4.mul(x, x)), x), v128.load(EXP, 176));
  return v128.andnot(i32x4.add(y, i32x4.shl(shifted, 23)), dead);
}

/** x, `row` bytes with room up to `wide`, as e^(x - the largest); 1 over their sum, four times. */
function exponentials(x: usize, row: usize, wide: usize): v128 {
  for (let i = row; i < wide; i += 4) store<f32>(x + i, -Infinity);
  let most = f32x4.splat(-3.4028234663852886e38);
  for (let i: usize = 0; i < wide; i += 16) most = f32x4.pmax(most, v128.load(x + i));
  const top = f32x4.splat(Mathf.max(
    Mathf.max(f32x4.extract_lane(most, 0), f32x4.extract_lane(most, 1)),
    Mathf.max(f32x4.extract_lane(most, 2), f32x4.extract_lane(most, 3))));
  let sum = f64x2.splat(0);
  for (let i: usize = 0; i < wide; i += 16) {
    const e = exp4(f32x4.sub(v128.load(x + i), top));
    v128.store(x + i, e);
    sum = f64x2.add(sum, f64x2.add(f64x2.promote_low_f32x4(e), upper(e)));
  }
  return f32x4.splat(<f32>(1 / total(sum)));
}

/**
 * out[i] = the sum over the rows of the softmax of x [rows, n], which it overwrites; rows are `ld` bytes apart, with
 * room for n up to a multiple of 4, and out for as many.
 */
export function mass(x: usize, ld: usize, rows: i32, n: i32, out: usize): void {
  const row = <usize>n << 2, wide = (row + 15) & ~15;
  memory.fill(out, 0, wide);
  for (const end = x + <usize>rows * ld; x < end; x += ld) {
    const by = exponentials(x, row, wide);
    for (let i: usize = 0; i < wide; i += 16)
      v128.store(out + i, f32x4.add(v128.load(out + i), f32x4.mul(v128.load(x + i), by)));
  }
}

/**
 * The softmax of the first seen[r] (f32) numbers of every row of x [rows, n], where they are, and 0 behind them; rows are
 * `ld` bytes apart, with room for n up to a multiple of 4.
 */
export function attend(x: usize, ld: usize, rows: i32, n: i32, seen: usize): void {
  for (const end = x + <usize>rows * ld; x < end; x += ld, seen += 4) {
    const row = <usize>load<f32>(seen) << 2, wide = (row + 15) & ~15, by = exponentials(x, row, wide);
    for (let i: usize = 0; i < wide; i += 16) v128.store(x + i, f32x4.mul(v128.load(x + i), by));
    if (wide < <usize>n << 2) memory.fill(x + wide, 0, (<usize>n << 2) - wide);
  }
}

/** The squared distances of four vectors at x, the channels of each `step` bytes apart, from q of `row` bytes. */
function squares4(x: usize, step: usize, q: usize, row: usize): v128 {
  let sum = f32x4.splat(0);
  for (const end = q + row; q < end; q += 4, x += step) {
    const e = f32x4.sub(v128.load(x), v128.load32_splat(q));
    sum = f32x4.add(sum, f32x4.mul(e, e));
  }
  return sum;
}

/**
 * out[i] = the sum over the rows of (p / (1 - p))² |x_i - q_r|² by their inner products y: rows of p and y are `ld` bytes
 * apart, with room for n up to a multiple of 4; q [rows, d]; x [n / wide][d][wide]. `work` has room for a number a row.
 */
export function errors(
  p: usize, y: usize, ld: usize, rows: i32, n: i32, q: usize, x: usize, wide: usize, d: i32, work: usize, out: usize,
): void {
  const row = <usize>d << 2, step = wide << 2, end = work + (<usize>rows << 2), one = f32x4.splat(1);
  const near = f32x4.splat(0.015625); // where less is left of |x|² + |q|², 2 y leaves few digits of it
  norms(q, rows, d, 2, work);
  for (let w = work; w < end; w += 4) store<f32>(w, load<f32>(w) * load<f32>(w));
  for (let i: usize = 0; i < <usize>n << 2; i += 16) {
    const at = x + i / step * row * wide + i % step, far = at + step * <usize>d;
    let own = f32x4.splat(0);
    for (let c = at; c < far; c += step) own = f32x4.add(own, f32x4.mul(v128.load(c), v128.load(c)));
    let sum = f32x4.splat(0);
    for (let w = work, o = i, v = q; w < end; w += 4, o += ld, v += row) {
      const all = f32x4.add(own, v128.load32_splat(w)), twice = v128.load(y + o), h = v128.load(p + o);
      let square = f32x4.sub(all, f32x4.add(twice, twice));
      if (v128.any_true(f32x4.lt(square, f32x4.mul(all, near)))) square = squares4(at, step, v, row);
      const odds = f32x4.div(h, f32x4.pmax(f32x4.sub(one, h), f32x4.splat(5.960464477539063e-8)));
      sum = f32x4.add(sum, f32x4.mul(f32x4.mul(odds, odds), square));
    }
    v128.store(out + i, sum);
  }
}

/**
 * out[r] (f32) = the place of the largest number of row r of x [rows, n], the first of equals; rows are `ld` bytes apart,
 * with room for n up to a multiple of 4.
 */
export function tops(x: usize, ld: usize, rows: i32, n: i32, out: usize): void {
  const row = <usize>n << 2, wide = (row + 15) & ~15;
  for (const end = x + <usize>rows * ld; x < end; x += ld, out += 4) {
    for (let i = row; i < wide; i += 4) store<f32>(x + i, -Infinity);
    let most = f32x4.splat(-Infinity), here = i32x4(0, 1, 2, 3), place = here;
    for (let i: usize = 0; i < wide; i += 16, here = i32x4.add(here, i32x4.splat(4))) {
      const v = v128.load(x + i);
      place = v128.bitselect(here, place, f32x4.gt(v, most));
      most = f32x4.pmax(most, v);
    }
    // of the four lanes' best, then of those two
    let v = v128.shuffle<i32>(most, most, 2, 3, 0, 1), p = v128.shuffle<i32>(place, place, 2, 3, 0, 1);
    place = v128.bitselect(p, place, later(most, place, v, p));
    most = f32x4.pmax(most, v);
    v = v128.shuffle<i32>(most, most, 1, 0, 3, 2);
    p = v128.shuffle<i32>(place, place, 1, 0, 3, 2);
    place = v128.bitselect(p, place, later(most, place, v, p));
    store<f32>(out, <f32>i32x4.extract_lane(place, 0));
  }
}
/** Where x at place a stands behind y at place b. */
// @ts-ignore: decorator
@inline
function later(x: v128, a: v128, y: v128, b: v128): v128 {
  return v128.or(f32x4.lt(x, y), v128.and(f32x4.eq(x, y), i32x4.lt_s(b, a)));
}
