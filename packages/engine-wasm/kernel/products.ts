// @ts-nocheck: AssemblyScript, not TypeScript
// y = x Wᵀ + bias over panels: activations in 8 bits against codes of at most 8 bits, or f32 against anything.

import { WIDE, XB, fma, larger, largest4, wholes, widen, zeros } from "./forms";
import * as kF32 from "./kind-0";
import * as kF16 from "./kind-1";
import * as kBF16 from "./kind-2";
import * as kQ8_0 from "./kind-3";
import * as kQ4_0 from "./kind-4";
import * as kQ4_1 from "./kind-5";
import * as kQ5_0 from "./kind-6";
import * as kQ5_1 from "./kind-7";
import * as kQ4_K from "./kind-8";
import * as kQ5_K from "./kind-9";
import * as kQ6_K from "./kind-10";
import { BF16, F16, F32, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0, panelBytes } from "./kinds";
import { put4, some } from "./put";
import { CODES, META, UNPACKED } from "./unpacked";

/**
 * x `[n]` f32, n a multiple of 32, to 8 bits: nearest(x * 127 / most) and s = most / 127 for every 32.
 * FORM 0 stores 16 bits, the four inputs of a lane as 0, 2, 1, 3. What one lane takes (4 bytes), and what stands beside
 * a block, comes every `apart` such: 1 for a row by itself, 4 for rows in fours.
 */
export function quantise(x: usize, n: usize, q: usize, meta: usize, apart: usize): void {
  const lane = apart << 2;
  for (let end = x + 4 * n; x < end; x += 128, q += 8 * lane * XB, meta += META * apart) {
    const s = quantised32(x, q, lane);
    store<f32>(meta, s);
    store<f32>(meta, s * <f32>SUM, 4);
    store<f32>(meta, s * <f32>FIRST, 8);
    store<f32>(meta, s * <f32>(SUM - FIRST), 12);
  }
}

/** Sums of what `quantised32` made last: of all 32, of the first 16. */
let SUM: i32 = 0, FIRST: i32 = 0;

/** 32 numbers to 8 bits, lanes `lane` bytes from one to the next; gives their scale. */
export function quantised32(x: usize, q: usize, lane: usize): f32 {
  let a = f32x4.splat(0), b = a;
  for (let i: usize = 0; i < 128; i += 32) {
    a = larger(a, f32x4.abs(v128.load(x + i)));
    b = larger(b, f32x4.abs(v128.load(x + i, 16)));
  }
  const most = largest4(larger(a, b)), inverse = f32x4.splat(most == 0 ? 0 : 127 / most);
  SUM = 0;
  for (let i: usize = 0; i < 128; i += 64) {
    const q0 = rounded(x + i, inverse), q1 = rounded(x + i + 16, inverse), q2 = rounded(x + i + 32, inverse), q3 = rounded(x + i + 48, inverse);
    const ab = i16x8.narrow_i32x4_s(q0, q1), cd = i16x8.narrow_i32x4_s(q2, q3);
    if (FORM == 0) {
      q = lanes(v128.shuffle<i16>(ab, ab, 0, 2, 1, 3, 4, 6, 5, 7), q, lane);
      q = lanes(v128.shuffle<i16>(cd, cd, 0, 2, 1, 3, 4, 6, 5, 7), q, lane);
    } else q = lanes(i8x16.narrow_i16x8_s(ab, cd), q, lane);
    const t = i32x4.add(i32x4.add(q0, q1), i32x4.add(q2, q3));
    SUM += i32x4.extract_lane(t, 0) + i32x4.extract_lane(t, 1) + i32x4.extract_lane(t, 2) + i32x4.extract_lane(t, 3);
    if (i == 0) FIRST = SUM;
  }
  return most / 127;
}

/** Four lanes, `apart` bytes from one to the next; gives where the next one goes. */
// @ts-ignore: decorator
@inline
function lanes(v: v128, q: usize, apart: usize): usize {
  if (apart == 4) v128.store(q, v);
  else {
    v128.store_lane<i32>(q, v, 0);
    v128.store_lane<i32>(q + apart, v, 1);
    v128.store_lane<i32>(q + 2 * apart, v, 2);
    v128.store_lane<i32>(q + 3 * apart, v, 3);
  }
  return q + 4 * apart;
}

// @ts-ignore: decorator
@inline
function rounded(x: usize, inverse: v128): v128 {
  return wholes(f32x4.mul(v128.load(x), inverse));
}

/** The numbers of output r of a panel, `[inputs]` f32, as the file has them. */
export function row(kind: i32, panel: usize, inputs: usize, r: usize, out: usize): void {
  switch (kind) {
    case F32: kF32.row(panel, inputs, r, out); break;
    case F16: kF16.row(panel, inputs, r, out); break;
    case BF16: kBF16.row(panel, inputs, r, out); break;
    case Q8_0: kQ8_0.row(panel, inputs, r, out); break;
    case Q4_0: kQ4_0.row(panel, inputs, r, out); break;
    case Q4_1: kQ4_1.row(panel, inputs, r, out); break;
    case Q5_0: kQ5_0.row(panel, inputs, r, out); break;
    case Q5_1: kQ5_1.row(panel, inputs, r, out); break;
    case Q4_K: kQ4_K.row(panel, inputs, r, out); break;
    case Q5_K: kQ5_K.row(panel, inputs, r, out); break;
    default: kQ6_K.row(panel, inputs, r, out);
  }
}

/** Packs at most 16 rows of `inputs` numbers, `rowBytes` apart, into one panel; outputs that are missing are zero. */
export function pack(kind: i32, src: usize, rowBytes: usize, rows: usize, inputs: usize, panel: usize): void {
  switch (kind) {
    case F32: kF32.pack(src, rowBytes, rows, inputs, panel); break;
    case F16: kF16.pack(src, rowBytes, rows, inputs, panel); break;
    case BF16: kBF16.pack(src, rowBytes, rows, inputs, panel); break;
    case Q8_0: kQ8_0.pack(src, rowBytes, rows, inputs, panel); break;
    case Q4_0: kQ4_0.pack(src, rowBytes, rows, inputs, panel); break;
    case Q4_1: kQ4_1.pack(src, rowBytes, rows, inputs, panel); break;
    case Q5_0: kQ5_0.pack(src, rowBytes, rows, inputs, panel); break;
    case Q5_1: kQ5_1.pack(src, rowBytes, rows, inputs, panel); break;
    case Q4_K: kQ4_K.pack(src, rowBytes, rows, inputs, panel); break;
    case Q5_K: kQ5_K.pack(src, rowBytes, rows, inputs, panel); break;
    default: kQ6_K.pack(src, rowBytes, rows, inputs, panel);
  }
}

/** One row in 8 bits times panels [from, to): output o at out + 4 o, bias the same or 0; scratch is 64 bytes. */
export function rowProduct(kind: i32, w: usize, blocks: usize, x: usize, meta: usize, out: usize, outputs: usize, bias: usize, from: usize, to: usize, scratch: usize): void {
  switch (kind) {
    case Q8_0: kQ8_0.rowProduct(w, blocks, x, meta, out, outputs, bias, from, to, scratch); break;
    case Q4_0: kQ4_0.rowProduct(w, blocks, x, meta, out, outputs, bias, from, to, scratch); break;
    case Q4_1: kQ4_1.rowProduct(w, blocks, x, meta, out, outputs, bias, from, to, scratch); break;
    case Q5_0: kQ5_0.rowProduct(w, blocks, x, meta, out, outputs, bias, from, to, scratch); break;
    case Q5_1: kQ5_1.rowProduct(w, blocks, x, meta, out, outputs, bias, from, to, scratch); break;
    case Q4_K: kQ4_K.rowProduct(w, blocks, x, meta, out, outputs, bias, from, to, scratch); break;
    case Q5_K: kQ5_K.rowProduct(w, blocks, x, meta, out, outputs, bias, from, to, scratch); break;
    default: kQ6_K.rowProduct(w, blocks, x, meta, out, outputs, bias, from, to, scratch);
  }
}

// ---- many rows: a panel is unpacked once and meets four rows at a time

/** Blocks that are unpacked at a time: they stay in the first-level cache. */
const CHUNK: usize = 48;
/** Rows that pass the halves of a panel in turn. */
const TALL: usize = 16;
/** Inputs whose numbers are made at a time. */
const DEPTH: usize = 512;
/** Bytes of scratch that `rowsProduct` and `floatProduct` want. */
export const SCRATCH: usize = 2 * CHUNK * (512 * 2 + 128) + 32;

/** Blocks of a panel, unpacked. */
function unpack(kind: i32, panel: usize, first: usize, count: usize, to: usize): void {
  switch (kind) {
    case Q8_0: kQ8_0.unpack(panel, first, count, to); break;
    case Q4_0: kQ4_0.unpack(panel, first, count, to); break;
    case Q4_1: kQ4_1.unpack(panel, first, count, to); break;
    case Q5_0: kQ5_0.unpack(panel, first, count, to); break;
    case Q5_1: kQ5_1.unpack(panel, first, count, to); break;
    case Q4_K: kQ4_K.unpack(panel, first, count, to); break;
    case Q5_K: kQ5_K.unpack(panel, first, count, to); break;
    default: kQ6_K.unpack(panel, first, count, to);
  }
}

/** Inputs of a panel as f32. */
function numbers(kind: i32, panel: usize, first: usize, count: usize, to: usize): void {
  switch (kind) {
    case F32: kF32.numbers(panel, first, count, to); break;
    case F16: kF16.numbers(panel, first, count, to); break;
    case BF16: kBF16.numbers(panel, first, count, to); break;
    case Q8_0: kQ8_0.numbers(panel, first, count, to); break;
    case Q4_0: kQ4_0.numbers(panel, first, count, to); break;
    case Q4_1: kQ4_1.numbers(panel, first, count, to); break;
    case Q5_0: kQ5_0.numbers(panel, first, count, to); break;
    case Q5_1: kQ5_1.numbers(panel, first, count, to); break;
    case Q4_K: kQ4_K.numbers(panel, first, count, to); break;
    case Q5_K: kQ5_K.numbers(panel, first, count, to); break;
    default: kQ6_K.numbers(panel, first, count, to);
  }
}

/** acc + unpacked codes times what a lane takes of activations, the same in every lane. */
// @ts-ignore: decorator
@inline
function dots(x: v128, w: v128, acc: v128): v128 {
  if (FORM == 2) return i32x4.relaxed_dot_i8x16_i7x16_add_s(x, w, acc);
  if (FORM == 1) return i16x8.add(acc, i16x8.relaxed_dot_i8x16_i7x16_s(x, w));
  return i32x4.add(acc, i32x4.dot_i16x8_s(x, w));
}

/** Minima, a middle, or (Q6_K) a middle and scales for either half. */
const MIN = 0, SYM = 1, HALF = 2;

/**
 * Rows [0, rows) in fours times 8 outputs of `count` unpacked blocks, added to the eight numbers at `from` of the first
 * row, `step` bytes further of each next one. An activation block meets `each` unpacked ones in turn. `every`: dots that
 * fit 16 bits in FORM 1.
 */
// @ts-ignore: decorator
@inline
function tiles(how: i32, every: usize, w: usize, count: usize, each: usize, z: f32, x: usize, ldx: usize, meta: usize, ldm: usize, out: usize, ldo: usize, rows: usize, left: usize, from: usize, step: usize): void {
  const quads: usize = how == HALF ? 4 : 8, negative = f32x4.splat(-z);
  for (let r: usize = 0; r < rows; r += 4, x += 4 * ldx, meta += 4 * ldm, out += 4 * ldo, from += 4 * step) {
    let xp = x, m = meta, c = w, turn: usize = 0;
    let f00 = v128.load(from), f01 = v128.load(from, 16);
    let f10 = v128.load(from + step), f11 = v128.load(from + step, 16);
    let f20 = v128.load(from + 2 * step), f21 = v128.load(from + 2 * step, 16);
    let f30 = v128.load(from + 3 * step), f31 = v128.load(from + 3 * step, 16);
    for (let b: usize = 0; b < count; b++, c += UNPACKED) {
      for (let part: usize = 0; part < (how == HALF ? 2 : 1); part++) {
        let s00 = i32x4.splat(0), s01 = s00, s10 = s00, s11 = s00, s20 = s00, s21 = s00, s30 = s00, s31 = s00;
        let p = c + part * (CODES / 2);
        for (let end = p + quads * 64 * XB; p < end; ) {
          let c00 = i32x4.splat(0), c01 = c00, c10 = c00, c11 = c00, c20 = c00, c21 = c00, c30 = c00, c31 = c00;
          for (let stop = FORM == 1 ? p + every * 64 : end; p < stop; p += 64, xp += 16) {
            const w0 = v128.load(p), w1 = v128.load(p, 16);
            let v = v128.load32_splat(xp);
            c00 = dots(v, w0, c00); c01 = dots(v, w1, c01);
            v = v128.load32_splat(xp, 4);
            c10 = dots(v, w0, c10); c11 = dots(v, w1, c11);
            v = v128.load32_splat(xp, 8);
            c20 = dots(v, w0, c20); c21 = dots(v, w1, c21);
            v = v128.load32_splat(xp, 12);
            c30 = dots(v, w0, c30); c31 = dots(v, w1, c31);
          }
          if (every < quads && FORM == 1) {
            s00 = i32x4.add(s00, widen(c00)); s01 = i32x4.add(s01, widen(c01));
            s10 = i32x4.add(s10, widen(c10)); s11 = i32x4.add(s11, widen(c11));
            s20 = i32x4.add(s20, widen(c20)); s21 = i32x4.add(s21, widen(c21));
            s30 = i32x4.add(s30, widen(c30)); s31 = i32x4.add(s31, widen(c31));
          } else {
            s00 = widen(c00); s01 = widen(c01); s10 = widen(c10); s11 = widen(c11);
            s20 = widen(c20); s21 = widen(c21); s30 = widen(c30); s31 = widen(c31);
          }
        }
        const d = c + CODES + part * 64, d0 = v128.load(d), d1 = v128.load(d, 16);
        const n0 = v128.load(d, 64), n1 = v128.load(d, 80);
        let s = v128.load32_splat(m), t = other(how, part, m, negative);
        f00 = scaled(how, s00, s, t, d0, n0, f00); f01 = scaled(how, s01, s, t, d1, n1, f01);
        s = v128.load32_splat(m, 16); t = other(how, part, m + 16, negative);
        f10 = scaled(how, s10, s, t, d0, n0, f10); f11 = scaled(how, s11, s, t, d1, n1, f11);
        s = v128.load32_splat(m, 32); t = other(how, part, m + 32, negative);
        f20 = scaled(how, s20, s, t, d0, n0, f20); f21 = scaled(how, s21, s, t, d1, n1, f21);
        s = v128.load32_splat(m, 48); t = other(how, part, m + 48, negative);
        f30 = scaled(how, s30, s, t, d0, n0, f30); f31 = scaled(how, s31, s, t, d1, n1, f31);
      }
      if (++turn == each) {
        turn = 0;
        m += 4 * META;
      } else xp -= 128 * XB;
    }
    put8(out, left, f00, f01); put8(out + ldo, left, f10, f11);
    put8(out + 2 * ldo, left, f20, f21); put8(out + 3 * ldo, left, f30, f31);
  }
}

/** What an activation block adds beside its dot: to the minimum, or before the scale. */
// @ts-ignore: decorator
@inline
function other(how: i32, part: usize, meta: usize, negative: v128): v128 {
  if (how == MIN) return v128.load32_splat(meta, 4);
  if (how == SYM) return f32x4.mul(v128.load32_splat(meta, 4), negative);
  return f32x4.mul(v128.load32_splat(meta + 4 * part, 8), negative);
}

// @ts-ignore: decorator
@inline
function scaled(how: i32, sums: v128, s: v128, t: v128, d: v128, n: v128, f: v128): v128 {
  const i = f32x4.convert_i32x4_s(sums);
  return how == MIN ? fma(n, t, fma(f32x4.mul(i, s), d, f)) : fma(fma(i, s, t), d, f);
}

// @ts-ignore: decorator
@inline
function put8(out: usize, left: usize, a: v128, b: v128): void {
  if (left >= 8) {
    v128.store(out, a);
    v128.store(out, b, 16);
  } else {
    put4(out, left, 0, a);
    if (left > 4) put4(out + 16, left - 4, 0, b);
  }
}

function tilesMin4(w: usize, count: usize, each: usize, z: f32, x: usize, ldx: usize, meta: usize, ldm: usize, out: usize, ldo: usize, rows: usize, left: usize, from: usize, step: usize): void {
  tiles(MIN, 8, w, count, each, z, x, ldx, meta, ldm, out, ldo, rows, left, from, step);
}
function tilesSym4(w: usize, count: usize, each: usize, z: f32, x: usize, ldx: usize, meta: usize, ldm: usize, out: usize, ldo: usize, rows: usize, left: usize, from: usize, step: usize): void {
  tiles(SYM, 8, w, count, each, z, x, ldx, meta, ldm, out, ldo, rows, left, from, step);
}
function tilesMin5(w: usize, count: usize, each: usize, z: f32, x: usize, ldx: usize, meta: usize, ldm: usize, out: usize, ldo: usize, rows: usize, left: usize, from: usize, step: usize): void {
  tiles(MIN, 4, w, count, each, z, x, ldx, meta, ldm, out, ldo, rows, left, from, step);
}
function tilesSym5(w: usize, count: usize, each: usize, z: f32, x: usize, ldx: usize, meta: usize, ldm: usize, out: usize, ldo: usize, rows: usize, left: usize, from: usize, step: usize): void {
  tiles(SYM, 4, w, count, each, z, x, ldx, meta, ldm, out, ldo, rows, left, from, step);
}
function tilesHalf(w: usize, count: usize, each: usize, z: f32, x: usize, ldx: usize, meta: usize, ldm: usize, out: usize, ldo: usize, rows: usize, left: usize, from: usize, step: usize): void {
  tiles(HALF, 2, w, count, each, z, x, ldx, meta, ldm, out, ldo, rows, left, from, step);
}

/**
 * Rows in 8 bits, in fours, times panels [from, to). x and out have room for the rows up to a multiple of four; scratch
 * is SCRATCH bytes.
 */
export function rowsProduct(kind: i32, w: usize, blocks: usize, x: usize, meta: usize, rows: usize, out: usize, ldo: usize, outputs: usize, bias: usize, from: usize, to: usize, scratch: usize): void {
  const size = panelBytes(kind, <i32>(32 * blocks)), ldx = 32 * blocks * XB, ldm = META * blocks;
  const digits = byDigits(kind), each: usize = digits ? 2 : 1;
  const min = digits || kind == Q4_1 || kind == Q5_1 || kind == Q4_K || kind == Q5_K;
  const five = FORM == 1 && (kind == Q5_0 || kind == Q5_1 || kind == Q5_K);
  const z: f32 = kind == Q8_0 ? (WIDE == 2 ? 0 : 128) : kind == Q6_K ? 32 : kind == Q5_0 ? 16 : 8;
  for (let p = from; p < to; p++)
    for (let b: usize = 0; b < blocks; b += CHUNK) {
      const count = min2(CHUNK, blocks - b), more = b > 0;
      unpack(kind, w + p * size, b, count, scratch);
      // rows a few at a time, so that the second half finds them in the first-level cache
      for (let r: usize = 0; r < rows; r += TALL) {
        const xa = x + r * ldx + 128 * b * XB, ma = meta + r * ldm + 4 * META * b, tall = min2(TALL, rows - r), n = each * count;
        for (let half: usize = 0; half < 16 && p * 16 + half < outputs; half += 8) {
          const o = 16 * p + half, c = scratch + 4 * half, left = outputs - o, y = out + r * ldo + 4 * o;
          const start = more ? y : startOf(bias, o, left, scratch), step = more ? ldo : 0;
          if (kind == Q6_K) tilesHalf(c, n, each, z, xa, ldx, ma, ldm, y, ldo, tall, left, start, step);
          else if (five) {
            if (min) tilesMin5(c, n, each, z, xa, ldx, ma, ldm, y, ldo, tall, left, start, step);
            else tilesSym5(c, n, each, z, xa, ldx, ma, ldm, y, ldo, tall, left, start, step);
          } else if (min) tilesMin4(c, n, each, z, xa, ldx, ma, ldm, y, ldo, tall, left, start, step);
          else tilesSym4(c, n, each, z, xa, ldx, ma, ldm, y, ldo, tall, left, start, step);
        }
      }
    }
}

/** Where eight outputs' sums start from: their bias, or zeros, in the last bytes of scratch. */
function startOf(bias: usize, output: usize, left: usize, scratch: usize): usize {
  if (!bias) return zeros();
  const to = scratch + SCRATCH - 32, from = bias + 4 * output;
  v128.store(to, some(from, left));
  if (left > 4) v128.store(to, some(from + 16, left - 4), 16);
  return to;
}

/** What 0 is as a code of 8 bits. */
export function zero8(): f32 {
  return WIDE == 2 ? 0 : 128;
}

/**
 * Rows in fours times eight outputs of `count` unpacked blocks of codes of 8 bits, 0 being z, for what is no weight.
 */
export function tilesOf8(w: usize, count: usize, z: f32, x: usize, ldx: usize, meta: usize, ldm: usize, out: usize, ldo: usize, rows: usize, more: bool): void {
  const from = more ? out : zeros(), step = more ? ldo : 0;
  tilesSym4(w, count, 1, z, x, ldx, meta, ldm, out, ldo, rows, 8, from, step);
}

// @ts-ignore: decorator
@inline
export function min2(a: usize, b: usize): usize {
  return a < b ? a : b;
}

// ---- f32 activations: exact products of any kind

/** Rows in fours of f32 times 8 outputs of `count` inputs as numbers at w, added to those at `from` as in `tiles`. */
function floatTiles(w: usize, count: usize, x: usize, ldx: usize, out: usize, ldo: usize, rows: usize, left: usize, from: usize, step: usize): void {
  for (let r: usize = 0; r < rows; r += 4, x += 4 * ldx, out += 4 * ldo, from += 4 * step) {
    let x0 = x, x1 = x0 + ldx, x2 = x1 + ldx, x3 = x2 + ldx, p = w;
    let f00 = v128.load(from), f01 = v128.load(from, 16);
    let f10 = v128.load(from + step), f11 = v128.load(from + step, 16);
    let f20 = v128.load(from + 2 * step), f21 = v128.load(from + 2 * step, 16);
    let f30 = v128.load(from + 3 * step), f31 = v128.load(from + 3 * step, 16);
    for (let k: usize = 0; k < count; k++, p += 64, x0 += 4, x1 += 4, x2 += 4, x3 += 4) {
      const w0 = v128.load(p), w1 = v128.load(p, 16);
      let s = v128.load32_splat(x0);
      f00 = fma(s, w0, f00); f01 = fma(s, w1, f01);
      s = v128.load32_splat(x1);
      f10 = fma(s, w0, f10); f11 = fma(s, w1, f11);
      s = v128.load32_splat(x2);
      f20 = fma(s, w0, f20); f21 = fma(s, w1, f21);
      s = v128.load32_splat(x3);
      f30 = fma(s, w0, f30); f31 = fma(s, w1, f31);
    }
    put8(out, left, f00, f01); put8(out + ldo, left, f10, f11);
    put8(out + 2 * ldo, left, f20, f21); put8(out + 3 * ldo, left, f30, f31);
  }
}

/** Rows of f32 `ldx` bytes apart times panels [from, to) of any kind; room as for `rowsProduct`. */
export function floatProduct(kind: i32, w: usize, inputs: usize, x: usize, ldx: usize, rows: usize, out: usize, ldo: usize, outputs: usize, bias: usize, from: usize, to: usize, scratch: usize): void {
  const size = panelBytes(kind, <i32>inputs);
  for (let p = from; p < to; p++) {
    const panel = w + p * size;
    if (rows == 1 && kind == F32) kF32.rowOfFloats(panel, inputs, x, p, out, outputs, bias, false);
    else if (rows == 1 && kind == F16) kF16.rowOfFloats(panel, inputs, x, p, out, outputs, bias, false);
    else if (rows == 1 && kind == BF16) kBF16.rowOfFloats(panel, inputs, x, p, out, outputs, bias, false);
    else
      for (let k: usize = 0; k < inputs; k += DEPTH) {
        const count = min2(DEPTH, inputs - k), more = k > 0;
        numbers(kind, panel, k, count, scratch);
        if (rows == 1) kF32.rowOfFloats(scratch, count, x + 4 * k, p, out, outputs, bias, more);
        else
          for (let half: usize = 0; half < 16 && p * 16 + half < outputs; half += 8) {
            const o = 16 * p + half, left = outputs - o, y = out + 4 * o;
            const start = more ? y : startOf(bias, o, left, scratch), step = more ? ldo : 0;
            floatTiles(scratch + 4 * half, count, x + 4 * k, ldx, y, ldo, rows, left, start, step);
          }
      }
  }
}

// ---- a few rows, each as by itself

/** Whether codes of 8 bits go as two digits of 4. */
// @ts-ignore: decorator
@inline
function byDigits(kind: i32): bool {
  return kind == Q8_0 && (FORM == 1 || (FORM == 2 && WIDE == 0));
}

/** Rows in 8 bits, in fours, times panels [from, to): of each, to the bit, what `rowProduct` gives. */
export function fewProduct(kind: i32, w: usize, blocks: usize, x: usize, meta: usize, rows: usize, out: usize, ldo: usize, outputs: usize, bias: usize, from: usize, to: usize, scratch: usize): void {
  if (byDigits(kind)) {
    kQ8_0.fewByDigits(w, blocks, x, meta, rows, out, ldo, outputs, bias, from, to, scratch);
    return;
  }
  // a row by itself adds its bias last
  rowsProduct(kind, w, blocks, x, meta, rows, out, ldo, outputs, 0, from, to, scratch);
  if (!bias) return;
  const end: usize = min2(16 * to, outputs);
  for (let r: usize = 0; r < rows; r++)
    for (let o: usize = 16 * from; o < end; o += 4) {
      const y = out + r * ldo + 4 * o, left = end - o;
      put4(y, left, bias + 4 * o, some(y, left));
    }
}

/** Rows of f32 times panels [from, to): of each, to the bit, what `floatProduct` gives for it alone. */
export function fewFloats(kind: i32, w: usize, inputs: usize, x: usize, ldx: usize, rows: usize, out: usize, ldo: usize, outputs: usize, bias: usize, from: usize, to: usize, scratch: usize): void {
  const size = panelBytes(kind, <i32>inputs);
  for (let p = from; p < to; p++) {
    const panel = w + p * size;
    if (kind <= BF16) {
      for (let r: usize = 0; r < rows; r++) floatProduct(kind, w, inputs, x + r * ldx, ldx, 1, out + r * ldo, ldo, outputs, bias, p, p + 1, scratch);
      continue;
    }
    for (let k: usize = 0; k < inputs; k += DEPTH) {
      const count = min2(DEPTH, inputs - k);
      numbers(kind, panel, k, count, scratch);
      for (let r: usize = 0; r < rows; r++) kF32.rowOfFloats(scratch, count, x + r * ldx + 4 * k, p, out + r * ldo, outputs, bias, k > 0);
    }
  }
}
