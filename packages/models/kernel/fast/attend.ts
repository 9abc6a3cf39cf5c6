// @ts-nocheck: AssemblyScript, not TypeScript
// Causal attention over a cache. A layer's cache is described by words: keys, values `[G, capacity, d]` f32, positions
// `[G, capacity]` u32, capacity, and the slots in use of each KV head. d is a multiple of 4.

import { exp4, fma, max4, sum4, tanh4 } from "./forms";
import { min2 } from "./products";
import { ME, THREADS, claim, shareFrom, shareTo } from "./team";

/** Below every score, and finite, so that a difference of two is a number. */
const LOWEST: f32 = -1e30;

// @ts-ignore: decorator
@inline
function keysOf(cache: usize): usize {
  return load<u32>(cache);
}
// @ts-ignore: decorator
@inline
function valuesOf(cache: usize): usize {
  return load<u32>(cache, 4);
}
// @ts-ignore: decorator
@inline
function capacityOf(cache: usize): usize {
  return load<u32>(cache, 12);
}
// @ts-ignore: decorator
@inline
export function slotsOf(cache: usize, g: usize): usize {
  return load<u32>(cache + 16 + 4 * g);
}

/** The first of n ascending positions that a query at `position` sees through a window; 0: everything. */
function firstSeen(cache: usize, g: usize, n: usize, position: u32, window: u32): usize {
  if (window == 0 || position < window) return 0;
  const from = <usize>load<u32>(cache, 8) + 4 * g * capacityOf(cache), lower = position - window + 1;
  let low: usize = 0, high = n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (load<u32>(from + 4 * middle) < lower) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Puts m rows of keys and values `[m, G * d]` behind the slots in use, rows [from, to) of them. */
export function append(cache: usize, heads: usize, d: usize, k: usize, ldk: usize, v: usize, ldv: usize, from: usize, to: usize): void {
  const row = d << 2;
  for (let g: usize = 0; g < heads; g++) {
    const at = (g * capacityOf(cache) + slotsOf(cache, g)) * row;
    for (let r = from; r < to; r++) {
      memory.copy(keysOf(cache) + at + r * row, k + r * ldk + g * row, row);
      memory.copy(valuesOf(cache) + at + r * row, v + r * ldv + g * row, row);
    }
  }
}

// @ts-ignore: decorator
@inline
function across(a: v128, b: v128, c: v128, d: v128): v128 {
  const ab = f32x4.add(v128.shuffle<f32>(a, b, 0, 4, 1, 5), v128.shuffle<f32>(a, b, 2, 6, 3, 7));
  const cd = f32x4.add(v128.shuffle<f32>(c, d, 0, 4, 1, 5), v128.shuffle<f32>(c, d, 2, 6, 3, 7));
  return f32x4.add(v128.shuffle<f64>(ab, cd, 0, 2), v128.shuffle<f64>(ab, cd, 1, 3));
}

/** Scores of `heads` (1 to 3) queries, `row` bytes apart, with n keys: out + ldo * head. */
// @ts-ignore: decorator
@inline
function dots(heads: i32, q: usize, row: usize, k: usize, n: usize, out: usize, ldo: usize): void {
  let j: usize = 0;
  for (; j + 4 <= n; j += 4, k += 4 * row, out += 16) {
    let a0 = f32x4.splat(0), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0, c0 = a0, c1 = a0, c2 = a0, c3 = a0;
    for (let i: usize = 0; i < row; i += 16) {
      const k0 = v128.load(k + i), k1 = v128.load(k + row + i), k2 = v128.load(k + 2 * row + i), k3 = v128.load(k + 3 * row + i);
      const x = v128.load(q + i);
      a0 = fma(x, k0, a0); a1 = fma(x, k1, a1); a2 = fma(x, k2, a2); a3 = fma(x, k3, a3);
      if (heads > 1) {
        const y = v128.load(q + row + i);
        b0 = fma(y, k0, b0); b1 = fma(y, k1, b1); b2 = fma(y, k2, b2); b3 = fma(y, k3, b3);
      }
      if (heads > 2) {
        const z = v128.load(q + 2 * row + i);
        c0 = fma(z, k0, c0); c1 = fma(z, k1, c1); c2 = fma(z, k2, c2); c3 = fma(z, k3, c3);
      }
    }
    v128.store(out, across(a0, a1, a2, a3));
    if (heads > 1) v128.store(out + ldo, across(b0, b1, b2, b3));
    if (heads > 2) v128.store(out + 2 * ldo, across(c0, c1, c2, c3));
  }
  for (; j < n; j++, k += row, out += 4)
    for (let h: usize = 0; h < <usize>heads; h++) {
      let a = f32x4.splat(0);
      for (let i: usize = 0; i < row; i += 16) a = fma(v128.load(q + h * row + i), v128.load(k + i), a);
      store<f32>(out + h * ldo, sum4(a));
    }
}

function dots1(q: usize, row: usize, k: usize, n: usize, out: usize, ldo: usize): void { dots(1, q, row, k, n, out, ldo); }
function dots2(q: usize, row: usize, k: usize, n: usize, out: usize, ldo: usize): void { dots(2, q, row, k, n, out, ldo); }
function dots3(q: usize, row: usize, k: usize, n: usize, out: usize, ldo: usize): void { dots(3, q, row, k, n, out, ldo); }

/** out += weights of n values, of `heads` (1 to 3) rows of weights `ldp` apart and outputs `row` apart. */
// @ts-ignore: decorator
@inline
function mix(heads: i32, p: usize, ldp: usize, v: usize, row: usize, n: usize, out: usize): void {
  let i: usize = 0;
  for (; i + 64 <= row; i += 64, out += 64) {
    let a0 = v128.load(out), a1 = v128.load(out, 16), a2 = v128.load(out, 32), a3 = v128.load(out, 48);
    let b0 = a0, b1 = a0, b2 = a0, b3 = a0, c0 = a0, c1 = a0, c2 = a0, c3 = a0;
    const ob = out + row, oc = ob + row;
    if (heads > 1) { b0 = v128.load(ob); b1 = v128.load(ob, 16); b2 = v128.load(ob, 32); b3 = v128.load(ob, 48); }
    if (heads > 2) { c0 = v128.load(oc); c1 = v128.load(oc, 16); c2 = v128.load(oc, 32); c3 = v128.load(oc, 48); }
    for (let j: usize = 0, at = v + i, w = p; j < n; j++, at += row, w += 4) {
      const v0 = v128.load(at), v1 = v128.load(at, 16), v2 = v128.load(at, 32), v3 = v128.load(at, 48);
      const x = v128.load32_splat(w);
      a0 = fma(x, v0, a0); a1 = fma(x, v1, a1); a2 = fma(x, v2, a2); a3 = fma(x, v3, a3);
      if (heads > 1) {
        const y = v128.load32_splat(w + ldp);
        b0 = fma(y, v0, b0); b1 = fma(y, v1, b1); b2 = fma(y, v2, b2); b3 = fma(y, v3, b3);
      }
      if (heads > 2) {
        const z = v128.load32_splat(w + 2 * ldp);
        c0 = fma(z, v0, c0); c1 = fma(z, v1, c1); c2 = fma(z, v2, c2); c3 = fma(z, v3, c3);
      }
    }
    v128.store(out, a0); v128.store(out, a1, 16); v128.store(out, a2, 32); v128.store(out, a3, 48);
    if (heads > 1) { v128.store(ob, b0); v128.store(ob, b1, 16); v128.store(ob, b2, 32); v128.store(ob, b3, 48); }
    if (heads > 2) { v128.store(oc, c0); v128.store(oc, c1, 16); v128.store(oc, c2, 32); v128.store(oc, c3, 48); }
  }
  for (; i < row; i += 16, out += 16)
    for (let h: usize = 0; h < <usize>heads; h++) {
      let a = v128.load(out + h * row);
      for (let j: usize = 0; j < n; j++) a = fma(v128.load32_splat(p + h * ldp + 4 * j), v128.load(v + j * row + i), a);
      v128.store(out + h * row, a);
    }
}

function mix1(p: usize, ldp: usize, v: usize, row: usize, n: usize, out: usize): void { mix(1, p, ldp, v, row, n, out); }
function mix2(p: usize, ldp: usize, v: usize, row: usize, n: usize, out: usize): void { mix(2, p, ldp, v, row, n, out); }
function mix3(p: usize, ldp: usize, v: usize, row: usize, n: usize, out: usize): void { mix(3, p, ldp, v, row, n, out); }

/** Slots whose keys, then values, stay in the first-level cache while all heads of a group meet them. */
const NEAR: usize = 64;
/** Most slots of a piece of work. */
const PIECE: usize = 256;

/** Bytes of what a thread leaves of a token's attention: maxima and sums `[H]`, outputs `[H, d]`. */
export function partBytes(heads: usize, d: usize): usize {
  return 4 * heads * (d + 2);
}
/** Bytes of scratch for `attendToken` of `group` query heads a KV head. */
export function tokenScratch(group: usize): usize {
  return 4 * group * PIECE;
}

/** Scores times `scale`, soft-capped if there is a cap. */
function capped(s: usize, n: usize, scale: f32, cap: f32): void {
  const factor = f32x4.splat(cap == 0 ? scale : scale / cap), c = f32x4.splat(cap);
  for (let i: usize = 0; i < n << 2; i += 16) {
    const x = f32x4.mul(v128.load(s + i), factor);
    v128.store(s + i, cap == 0 ? x : f32x4.mul(tanh4(x), c));
  }
}

/** The largest of n numbers, at least LOWEST; behind them there may be anything up to a multiple of four. */
function largest(s: usize, n: usize): f32 {
  for (let i = n; i & 3; i++) store<f32>(s + 4 * i, LOWEST);
  let top = f32x4.splat(LOWEST);
  for (let i: usize = 0; i < n << 2; i += 16) top = f32x4.max(top, v128.load(s + i));
  return max4(top);
}

/** s = e^(s - top) of n numbers (0 behind them); gives their sum. */
function powers(s: usize, n: usize, top: f32): f32 {
  const t = f32x4.splat(top);
  for (let i = n; i & 3; i++) store<f32>(s + 4 * i, LOWEST);
  let sum = f32x4.splat(0);
  for (let i: usize = 0; i < n << 2; i += 16) {
    const e = exp4(f32x4.sub(v128.load(s + i), t));
    v128.store(s + i, e);
    sum = f32x4.add(sum, e);
  }
  return sum4(sum);
}

// @ts-ignore: decorator
@inline
function exp1(x: f32): f32 {
  return f32x4.extract_lane(exp4(f32x4.splat(x)), 0);
}

/** Slots of a piece of a token's attention, how many pieces there are, and the slots and KV head of one of them. */
let SIZE: usize = 0, PIECES: usize = 0, PIECE_FROM: usize = 0, PIECE_TO: usize = 0, PIECE_HEAD: usize = 0;

/** Cuts what a token sees into pieces; its own slot, behind those in use, is the last of each KV head. */
function cut(cache: usize, kvHeads: usize, position: u32, window: u32): void {
  let all: usize = 0;
  for (let g: usize = 0; g < kvHeads; g++) all += slotsOf(cache, g) + 1 - firstSeen(cache, g, slotsOf(cache, g), position, window);
  SIZE = min2(PIECE, max(NEAR, (all / <usize>(4 * THREADS) + 3) & ~3));
  PIECES = 0;
  for (let g: usize = 0; g < kvHeads; g++)
    PIECES += (slotsOf(cache, g) - firstSeen(cache, g, slotsOf(cache, g), position, window) + SIZE) / SIZE;
}

function find(cache: usize, piece: usize, position: u32, window: u32): void {
  for (let g: usize = 0; ; g++) {
    const n = slotsOf(cache, g), first = firstSeen(cache, g, n, position, window), count = (n - first + SIZE) / SIZE;
    if (piece < count) {
      PIECE_HEAD = g;
      PIECE_FROM = first + piece * SIZE;
      PIECE_TO = min2(PIECE_FROM + SIZE, n + 1);
      return;
    }
    piece -= count;
  }
}

/**
 * The attention of one token, whose key and value are put behind the slots in use: this thread's part of it.
 * q `[H, d]`, k and v `[G, d]`. Unless `shares` is 0, e^(score - maximum of the piece) of every slot goes there,
 * `[H, stride]`, and the maxima of pieces to `maxima` `[pieces, H / G]`.
 */
export function attendToken(cache: usize, heads: usize, kvHeads: usize, d: usize, q: usize, k: usize, v: usize, scale: f32, cap: f32, window: u32, position: u32, part: usize, scratch: usize, shares: usize, stride: usize, maxima: usize): void {
  const group = heads / kvHeads, row = d << 2, capacity = capacityOf(cache);
  const tops = part, sums = part + 4 * heads, outs = part + 8 * heads;
  for (let h: usize = 0; h < heads; h++) {
    store<f32>(tops + 4 * h, LOWEST);
    store<f32>(sums + 4 * h, 0);
  }
  cut(cache, kvHeads, position, window);
  for (let piece = claim(<i32>PIECES); piece >= 0; piece = claim(<i32>PIECES)) {
    find(cache, <usize>piece, position, window);
    const g = PIECE_HEAD, from = PIECE_FROM, to = PIECE_TO, count = to - from, n = slotsOf(cache, g);
    const keys = keysOf(cache) + (g * capacity + from) * row, values = valuesOf(cache) + (g * capacity + from) * row;
    if (to == n + 1) {
      memory.copy(keys + (count - 1) * row, k + g * row, row);
      memory.copy(values + (count - 1) * row, v + g * row, row);
    }
    const qg = q + g * group * row;
    for (let s: usize = 0; s < count; s += NEAR) {
      const m = min2(NEAR, count - s), key = keys + s * row;
      let h: usize = 0;
      for (; h + 3 <= group && group != h + 4; h += 3) dots3(qg + h * row, row, key, m, scratch + 4 * (h * PIECE + s), 4 * PIECE);
      for (; h + 2 <= group; h += 2) dots2(qg + h * row, row, key, m, scratch + 4 * (h * PIECE + s), 4 * PIECE);
      if (h < group) dots1(qg + h * row, row, key, m, scratch + 4 * (h * PIECE + s), 4 * PIECE);
    }
    for (let h: usize = 0; h < group; h++) {
      const s = scratch + 4 * h * PIECE, at = 4 * (g * group + h);
      capped(s, count, scale, cap);
      // what there was shrinks to the new maximum
      const before = load<f32>(tops + at), top = max(before, largest(s, count)), shrunk = exp1(before - top), o = outs + at * d;
      store<f32>(tops + at, top);
      if (load<f32>(sums + at) == 0) memory.fill(o, 0, row);
      else if (shrunk != 1) for (let i: usize = 0; i < row; i += 16) v128.store(o + i, f32x4.mul(v128.load(o + i), f32x4.splat(shrunk)));
      store<f32>(sums + at, load<f32>(sums + at) * shrunk + powers(s, count, top));
      if (shares) {
        memory.copy(shares + 4 * ((g * group + h) * stride + from), s, 4 * count);
        store<f32>(maxima + 4 * (<usize>piece * group + h), top);
      }
    }
    const o = outs + 4 * g * group * d;
    for (let s: usize = 0; s < count; s += NEAR) {
      const m = min2(NEAR, count - s), value = values + s * row;
      let h: usize = 0;
      for (; h + 3 <= group && group != h + 4; h += 3) mix3(scratch + 4 * (h * PIECE + s), 4 * PIECE, value, row, m, o + h * row);
      for (; h + 2 <= group; h += 2) mix2(scratch + 4 * (h * PIECE + s), 4 * PIECE, value, row, m, o + h * row);
      if (h < group) mix1(scratch + 4 * (h * PIECE + s), 4 * PIECE, value, row, m, o + h * row);
    }
  }
}

/** out `[H, d]` of what all threads left. */
export function joinToken(heads: usize, d: usize, parts: usize, out: usize): void {
  const row = d << 2, size = partBytes(heads, d);
  for (let h: usize = 0; h < heads; h++, out += row) {
    let top = LOWEST, sum: f32 = 0;
    for (let t = 0; t < THREADS; t++) {
      const part = parts + <usize>t * size + 4 * h;
      if (load<f32>(part + 4 * heads) == 0) continue;
      top = max(top, load<f32>(part));
    }
    for (let t = 0; t < THREADS; t++) {
      const part = parts + <usize>t * size + 4 * h;
      sum += load<f32>(part + 4 * heads) * exp1(load<f32>(part) - top);
    }
    let first = true;
    for (let t = 0; t < THREADS; t++) {
      const part = parts + <usize>t * size + 4 * h;
      if (load<f32>(part + 4 * heads) == 0) continue;
      const o = parts + <usize>t * size + 8 * heads + h * row, f = f32x4.splat(exp1(load<f32>(part) - top) / sum);
      for (let i: usize = 0; i < row; i += 16) {
        const x = f32x4.mul(v128.load(o + i), f);
        v128.store(out + i, first ? x : f32x4.add(v128.load(out + i), x));
      }
      first = false;
    }
  }
}

/** Makes what `attendToken` left in `shares` the softmax weights of all slots: 0 for those that the token does not see. */
export function shareToken(cache: usize, heads: usize, kvHeads: usize, d: usize, window: u32, position: u32, parts: usize, shares: usize, stride: usize, maxima: usize): void {
  const group = heads / kvHeads, size = partBytes(heads, d);
  cut(cache, kvHeads, position, window);
  for (let piece = <usize>ME; piece < PIECES; piece += <usize>THREADS) {
    find(cache, piece, position, window);
    for (let h: usize = 0; h < group; h++) {
      const head = PIECE_HEAD * group + h, s = shares + 4 * head * stride, at = parts + 4 * head;
      let top = LOWEST, sum: f32 = 0;
      for (let t: usize = 0; t < <usize>THREADS; t++) top = max(top, load<f32>(at + t * size));
      for (let t: usize = 0; t < <usize>THREADS; t++)
        sum += load<f32>(at + t * size + 4 * heads) * exp1(load<f32>(at + t * size) - top);
      const f = exp1(load<f32>(maxima + 4 * (piece * group + h)) - top) / sum;
      for (let j = PIECE_FROM; j < PIECE_TO; j++) store<f32>(s + 4 * j, load<f32>(s + 4 * j) * f);
      const first = firstSeen(cache, PIECE_HEAD, slotsOf(cache, PIECE_HEAD), position, window);
      if (PIECE_FROM == first) memory.fill(s, 0, 4 * first);
    }
  }
}

// ---- blocks of tokens

/** Keys of 8 slots side by side, panel after panel `[ceil(n / 8)][d][8]` of each KV head: claims 64 slots at a time. */
export function packKeys(cache: usize, kvHeads: usize, d: usize, m: usize, packed: usize): void {
  const row = d << 2, capacity = capacityOf(cache);
  let at = packed;
  let pieces: usize = 0;
  for (let g: usize = 0; g < kvHeads; g++) pieces += (slotsOf(cache, g) + m + 63) / 64;
  for (let piece = claim(<i32>pieces); piece >= 0; piece = claim(<i32>pieces)) {
    let g: usize = 0, index = <usize>piece;
    at = packed;
    for (; ; g++) {
      const count = (slotsOf(cache, g) + m + 63) / 64;
      if (index < count) break;
      index -= count;
      at += count * 64 * row;
    }
    const n = slotsOf(cache, g) + m, keys = keysOf(cache) + g * capacity * row;
    for (let s = index * 64; s < min2(n, index * 64 + 64); s += 8) transpose(keys + s * row, row, n - s, at + s * row);
  }
}

/** Eight rows (those behind `left` as zeros) to `[d][8]`. */
function transpose(from: usize, row: usize, left: usize, to: usize): void {
  const zero = f32x4.splat(0);
  for (let half: usize = 0; half < 2; half++) {
    const s = from + 4 * half * row, have = left > 4 * half ? left - 4 * half : 0;
    for (let i: usize = 0, p = to + 16 * half; i < row; i += 16, p += 128) {
      const a = have > 0 ? v128.load(s + i) : zero, b = have > 1 ? v128.load(s + row + i) : zero;
      const c = have > 2 ? v128.load(s + 2 * row + i) : zero, d = have > 3 ? v128.load(s + 3 * row + i) : zero;
      const ab = v128.shuffle<f32>(a, b, 0, 4, 1, 5), cd = v128.shuffle<f32>(c, d, 0, 4, 1, 5);
      const ef = v128.shuffle<f32>(a, b, 2, 6, 3, 7), gh = v128.shuffle<f32>(c, d, 2, 6, 3, 7);
      v128.store(p, v128.shuffle<f64>(ab, cd, 0, 2));
      v128.store(p, v128.shuffle<f64>(ab, cd, 1, 3), 32);
      v128.store(p, v128.shuffle<f64>(ef, gh, 0, 2), 64);
      v128.store(p, v128.shuffle<f64>(ef, gh, 1, 3), 96);
    }
  }
}

/** C `[m, n]` = (more ? C : 0) + A `[m, k]` B, m a multiple of 4, n of 8; B's columns in eights, `panel` bytes apart, rows `ldb`. */
function gemm(m: usize, n: usize, k: usize, a: usize, lda: usize, b: usize, ldb: usize, panel: usize, c: usize, ldc: usize, more: bool): void {
  for (let j: usize = 0; j < n; j += 8, b += panel, c += 32)
    for (let i: usize = 0, ai = a, ci = c; i < m; i += 4, ai += 4 * lda, ci += 4 * ldc) {
      let c00 = f32x4.splat(0), c01 = c00, c10 = c00, c11 = c00, c20 = c00, c21 = c00, c30 = c00, c31 = c00;
      const r1 = ci + ldc, r2 = r1 + ldc, r3 = r2 + ldc;
      if (more) {
        c00 = v128.load(ci); c01 = v128.load(ci, 16); c10 = v128.load(r1); c11 = v128.load(r1, 16);
        c20 = v128.load(r2); c21 = v128.load(r2, 16); c30 = v128.load(r3); c31 = v128.load(r3, 16);
      }
      let a0 = ai, a1 = ai + lda, a2 = a1 + lda, a3 = a2 + lda, p = b;
      for (let t: usize = 0; t < k; t++, p += ldb, a0 += 4, a1 += 4, a2 += 4, a3 += 4) {
        const b0 = v128.load(p), b1 = v128.load(p, 16);
        let s = v128.load32_splat(a0);
        c00 = fma(s, b0, c00); c01 = fma(s, b1, c01);
        s = v128.load32_splat(a1);
        c10 = fma(s, b0, c10); c11 = fma(s, b1, c11);
        s = v128.load32_splat(a2);
        c20 = fma(s, b0, c20); c21 = fma(s, b1, c21);
        s = v128.load32_splat(a3);
        c30 = fma(s, b0, c30); c31 = fma(s, b1, c31);
      }
      v128.store(ci, c00); v128.store(ci, c01, 16); v128.store(r1, c10); v128.store(r1, c11, 16);
      v128.store(r2, c20); v128.store(r2, c21, 16); v128.store(r3, c30); v128.store(r3, c31, 16);
    }
}

/** Query rows of a piece of work, and slots that they meet at a time. */
const ROWS: usize = 32, SLOTS: usize = 128;

/** Bytes of scratch for `attendRows`: queries and outputs `[ROWS, d]`, scores `[ROWS, SLOTS]`, maxima, sums. */
export function rowsScratch(d: usize): usize {
  return 4 * ROWS * (2 * ((d + 7) & ~7) + SLOTS + 16 + 2);
}

/**
 * Attention of m rows whose keys and values have joined the cache: pieces of 32 rows of a query head.
 * q `[m, H * d]` at ldq, out the same at ldo; positions [position, position + m). Unless `shares` is 0, the sums of the
 * rows' weights for every slot go there, `[H, stride]` of each thread.
 */
export function attendRows(cache: usize, heads: usize, kvHeads: usize, d: usize, m: usize, q: usize, ldq: usize, scale: f32, cap: f32, window: u32, position: u32, packed: usize, out: usize, ldo: usize, scratch: usize, shares: usize, stride: usize): void {
  const group = heads / kvHeads, row = d << 2, wide = (d + 7) & ~7, capacity = capacityOf(cache), blocks = (m + ROWS - 1) / ROWS;
  const qs = scratch, os = qs + 4 * ROWS * wide, lds = 4 * (SLOTS + 16), ss = os + 4 * ROWS * wide, tops = ss + ROWS * lds, sums = tops + 4 * ROWS;
  const pieces = <i32>(blocks * heads), own = shares + <usize>ME * 4 * heads * stride;
  if (shares) memory.fill(own, 0, 4 * heads * stride);
  for (let piece = claim(pieces); piece >= 0; piece = claim(pieces)) {
    // the last rows see most: they come first
    const block = blocks - 1 - <usize>piece / heads, h = <usize>piece % heads, g = h / group;
    const r0 = block * ROWS, count = min2(ROWS, m - r0), tall = (count + 3) & ~3, n = slotsOf(cache, g);
    let keys = packed;
    for (let before: usize = 0; before < g; before++) keys += ((slotsOf(cache, before) + m + 63) & ~63) * row;
    const values = valuesOf(cache) + g * capacity * row, factor = f32x4.splat(cap == 0 ? scale : scale / cap);
    for (let r: usize = 0; r < tall; r++) {
      const from = q + (r0 + min2(r, count - 1)) * ldq + h * row, to = qs + r * 4 * wide;
      for (let i: usize = 0; i < row; i += 16) v128.store(to + i, f32x4.mul(v128.load(from + i), factor));
      store<f32>(tops + 4 * r, LOWEST);
      store<f32>(sums + 4 * r, 0);
    }
    memory.fill(os, 0, 4 * tall * wide);
    const end = n + r0 + count, start = firstSeen(cache, g, n + m, position + <u32>r0, window) & ~7;
    for (let s = start; s < end; s += SLOTS) {
      const slots = min2(SLOTS, end - s), even = (slots + 7) & ~7;
      gemm(tall, even, d, qs, 4 * wide, keys + s * row, 32, 8 * row, ss, lds, false);
      for (let r: usize = 0; r < count; r++) {
        const line = ss + r * lds;
        hide(line, cache, g, n, m, s, even, r0 + r, position, window, cap);
        const before = load<f32>(tops + 4 * r), top = max(before, largest(line, even));
        if (top == LOWEST) {
          memory.fill(line, 0, 4 * even);
          continue;
        }
        const sum = powers(line, even, top), o = os + r * 4 * wide;
        if (top != before) {
          const shrunk = exp1(before - top), f = f32x4.splat(shrunk);
          store<f32>(tops + 4 * r, top);
          store<f32>(sums + 4 * r, load<f32>(sums + 4 * r) * shrunk + sum);
          for (let i: usize = 0; i < row; i += 16) v128.store(o + i, f32x4.mul(v128.load(o + i), f));
        } else store<f32>(sums + 4 * r, load<f32>(sums + 4 * r) + sum);
      }
      for (let r = count; r < tall; r++) memory.fill(ss + r * lds, 0, 4 * even);
      mixRows(tall, slots, ss, lds, values + s * row, row, os, 4 * wide);
    }
    for (let r: usize = 0; r < count; r++) {
      const f = f32x4.splat(1 / load<f32>(sums + 4 * r)), o = os + r * 4 * wide, to = out + (r0 + r) * ldo + h * row;
      for (let i: usize = 0; i < row; i += 16) v128.store(to + i, f32x4.mul(v128.load(o + i), f));
    }
    // the weights once more, now that their sums are known
    for (let s = start; shares && s < end; s += SLOTS) {
      const even = (min2(SLOTS, end - s) + 7) & ~7;
      gemm(tall, even, d, qs, 4 * wide, keys + s * row, 32, 8 * row, ss, lds, false);
      for (let r: usize = 0; r < count; r++) {
        const line = ss + r * lds, to = own + 4 * (h * stride + s), f = f32x4.splat(1 / load<f32>(sums + 4 * r));
        hide(line, cache, g, n, m, s, even, r0 + r, position, window, cap);
        powers(line, even, load<f32>(tops + 4 * r));
        for (let i: usize = 0; i < even << 2; i += 16) v128.store(to + i, fma(v128.load(line + i), f, v128.load(to + i)));
      }
    }
  }
}

/** Scores of slots [s, s + even) of row r, soft-capped; LOWEST where the row does not see the slot. */
function hide(line: usize, cache: usize, g: usize, n: usize, m: usize, s: usize, even: usize, r: usize, position: u32, window: u32, cap: f32): void {
  if (cap != 0) for (let i: usize = 0; i < even << 2; i += 16) v128.store(line + i, f32x4.mul(tanh4(v128.load(line + i)), f32x4.splat(cap)));
  const seen = n + r + 1, to = seen > s ? min2(seen - s, even) : 0;
  for (let j = to; j < even; j++) store<f32>(line + 4 * j, LOWEST);
  if (window == 0) return;
  const first = firstSeen(cache, g, n + m, position + <u32>r, window);
  for (let j: usize = 0; s + j < first && j < to; j++) store<f32>(line + 4 * j, LOWEST);
}

/** What all threads left in `shares`, added up: `[H, stride]`. */
export function joinShares(heads: usize, shares: usize, stride: usize, out: usize): void {
  const size = heads * stride, quads = <i32>((size + 3) / 4);
  for (let i = shareFrom(quads) << 4; i < min2(shareTo(quads) << 4, size << 2); i += 16) {
    let sum = v128.load(shares + i);
    for (let t: usize = 1; t < <usize>THREADS; t++) sum = f32x4.add(sum, v128.load(shares + t * 4 * size + i));
    v128.store(out + i, sum);
  }
}

/** out `[m, d]` += weights `[m, n]` values `[n, d]`. */
function mixRows(m: usize, n: usize, p: usize, ldp: usize, v: usize, row: usize, out: usize, ldo: usize): void {
  const even = row & ~31;
  gemm(m, even / 4, n, p, ldp, v, row, 32, out, ldo, true);
  if (even < row)
    for (let r: usize = 0; r < m; r++) {
      let a = v128.load(out + r * ldo + even);
      for (let j: usize = 0; j < n; j++) a = fma(v128.load32_splat(p + r * ldp + 4 * j), v128.load(v + j * row + even), a);
      v128.store(out + r * ldo + even, a);
    }
}
