// @ts-nocheck: AssemblyScript, not TypeScript
// All that differs from kind to kind of weight. Compiled once for each: the build puts the kind's number here.
const KIND: i32 = KIND_NUMBER;
//
// Weights lie as panels: 16 outputs side by side, block after block of 32 inputs, at the width that the file has.
//
//   a block of 4-bit codes is 4 x 64 bytes: byte 64 q + 4 r + i holds input 4 q + i of output r in its low digit and
//     input 16 + 4 q + i in its high one
//   5 bits add 64 bytes: bit k of byte 4 r + i is the fifth bit of input 4 k + i
//   6 bits add 128 bytes: two bits k of byte 64 h + 4 r + i are the upper bits of input 16 h + 4 k + i
//   8 bits are 8 x 64 bytes: byte 64 q + 4 r + i is input 4 q + i of output r
//   then 16 halves of scales and, for Q4_1 and Q5_1, 16 of minima
//   K-quants: before 8 blocks 16 numbers d and (not Q6_K) 16 numbers dmin as f32, since as halves many are subnormal,
//     which processors multiply a hundred times slower; after a block's codes 16 bytes of scales and 16 of minima
//     (Q6_K: 16 signed scales for either half)
//   F32, F16 and BF16: input after input, 16 numbers each

import { WIDE, XB, brains, digit, dot, dot0, fifth, flip, fma, half, halfBits, halfUnit, halves, lessMiddle, upperTwo, widen } from "./forms";
import { BF16, F16, F32, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0, panelBytes } from "./kinds";
import { CODES, META, UNPACKED, putCodes } from "./unpacked";
import { put16 } from "./put";

/** Bits of a code. */
const BITS: i32 = KIND == Q8_0 ? 8 : KIND == Q6_K ? 6 : KIND == Q5_0 || KIND == Q5_1 || KIND == Q5_K ? 5 : 4;
/** Blocks stand behind one header in eights. */
const SUPER: bool = KIND >= Q4_K;
/** number = scale * code + minimum, rather than scale * (code - middle). */
const MIN: bool = KIND == Q4_1 || KIND == Q5_1 || KIND == Q4_K || KIND == Q5_K;
/** The code that means 0. */
const MIDDLE: i32 = KIND == Q8_0 ? 128 : KIND == Q6_K ? 32 : KIND == Q5_0 ? 16 : 8;
/** Bytes of a block's codes, of a block, of what stands before eight of them. */
const CODE_BYTES: usize = BITS == 8 ? 512 : BITS == 6 ? 384 : BITS == 5 ? 320 : 256;
const BLOCK: usize = CODE_BYTES + (MIN && !SUPER ? 64 : 32);
const HEAD: usize = SUPER ? (KIND == Q6_K ? 64 : 128) : 0;
/** Of a Q6_K block each half has a scale. */
const HALVED: bool = KIND == Q6_K;
/** Codes of 8 bits that the form cannot multiply go as two digits of 4. */
const DIGITS: bool = KIND == Q8_0 && FORM == 1;
const MAY_DIGITS: bool = KIND == Q8_0 && FORM == 2;
/** Sums of all 16 inputs of a half would not fit what `dot` adds up in. */
const PARTLY: bool = FORM == 1 && BITS == 6;

// @ts-ignore: decorator
@inline
function headAt(panel: usize, b: usize): usize {
  return panel + (b / 8) * (HEAD + 8 * BLOCK);
}

/** Where block b of a panel lies. */
// @ts-ignore: decorator
@inline
function blockAt(panel: usize, b: usize): usize {
  return panel + b * BLOCK + (SUPER ? (b / 8 + 1) * HEAD : 0);
}

/**
 * Codes of four outputs (vector r of a panel) at inputs 4 q to 4 q + 3, a byte each, q < 4 of the block at p.
 * `low` is what `lowMask` gives, `high` what `highMask` does.
 */
// @ts-ignore: decorator
@inline
function early(p: usize, q: usize, r: usize, low: v128, high: v128): v128 {
  const at = p + 16 * r;
  return earlyOf(v128.load(at + 64 * q), BITS == 5 || BITS == 6 ? v128.load(at, 256) : low, q, low, high);
}

/** The same at inputs 16 + 4 q to 16 + 4 q + 3. */
// @ts-ignore: decorator
@inline
function late(p: usize, q: usize, r: usize, low: v128, high: v128): v128 {
  const at = p + 16 * r;
  if (BITS == 8) return early(p, q + 4, r, low, high);
  return lateOf(v128.load(at + 64 * q), BITS == 5 ? v128.load(at, 256) : BITS == 6 ? v128.load(at, 320) : low, q, low, high);
}

/** Those of a vector of a block, with the one that has their upper bits, if any. */
// @ts-ignore: decorator
@inline
function earlyOf(v: v128, upper: v128, q: usize, low: v128, high: v128): v128 {
  if (BITS == 8) return v128.xor(v, low);
  const lower = v128.and(v, low);
  if (BITS == 4) return lower;
  return v128.or(lower, v128.and(BITS == 5 ? i16x8.shl(upper, 4 - <i32>q) : pairs(upper, <i32>q), high));
}
// @ts-ignore: decorator
@inline
function lateOf(v: v128, upper: v128, q: usize, low: v128, high: v128): v128 {
  const lower = v128.and(i16x8.shr_u(v, 4), low);
  if (BITS == 4) return lower;
  return v128.or(lower, v128.and(BITS == 5 ? i16x8.shr_u(upper, <i32>q) : pairs(upper, <i32>q), high));
}

/** Bits 2 k and 2 k + 1 of each byte in the places of bits 4 and 5. */
// @ts-ignore: decorator
@inline
function pairs(upper: v128, k: i32): v128 {
  return k < 2 ? i16x8.shl(upper, 4 - 2 * k) : i16x8.shr_u(upper, 2 * k - 4);
}

/** Codes of 8 bits are signed in the file and, unless the dot takes them so, counted from -128 in what it is given. */
// @ts-ignore: decorator
@inline
function lowMask(): v128 {
  return BITS == 8 ? flip() : digit();
}
// @ts-ignore: decorator
@inline
function highMask(): v128 {
  return BITS == 6 ? upperTwo() : fifth();
}

/** Four u8 as f32. */
// @ts-ignore: decorator
@inline
function bytes4(p: usize): v128 {
  return f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_u(i16x8.extend_low_i8x16_u(v128.load32_zero(p))));
}

/** Four i8 as f32. */
// @ts-ignore: decorator
@inline
function signed4(p: usize): v128 {
  return f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(i16x8.extend_low_i8x16_s(v128.load32_zero(p))));
}

/** Scales of four outputs; p is the block, head what stands before its eight, half 1 for a Q6_K block's second half. */
// @ts-ignore: decorator
@inline
function scales(head: usize, p: usize, r: usize, half: usize, bits: v128, unit: v128): v128 {
  const at = p + CODE_BYTES;
  if (HALVED) return f32x4.mul(v128.load(head + 16 * r), signed4(at + 16 * half + 4 * r));
  if (SUPER) return f32x4.mul(v128.load(head + 16 * r), bytes4(at + 4 * r));
  return halves(v128.load_ext<i16>(at + 8 * r), bits, unit);
}

/** Minima of four outputs, as they are added. */
// @ts-ignore: decorator
@inline
function minima(head: usize, p: usize, r: usize, bits: v128, unit: v128): v128 {
  const at = p + CODE_BYTES;
  if (SUPER) return f32x4.neg(f32x4.mul(v128.load(head + 64 + 16 * r), bytes4(at + 16 + 4 * r)));
  return halves(v128.load_ext<i16>(at + 8 * r, 32), bits, unit);
}

/** Numbers of four outputs at one input of a panel of floats. */
// @ts-ignore: decorator
@inline
function floats(panel: usize, k: usize, r: usize, bits: v128, unit: v128): v128 {
  if (KIND == F32) return v128.load(panel + 64 * k + 16 * r);
  if (KIND == F16) return halves(v128.load_ext<i16>(panel + 32 * k + 8 * r), bits, unit);
  return brains(panel + 32 * k + 8 * r);
}

/** Code (or, of Q8_0, signed byte + 128) of input i of output r in the block at p. */
function codeOf(p: usize, i: usize, r: usize): i32 {
  const byte = 4 * r + (i & 3);
  if (BITS == 8) return <i32>load<i8>(p + 64 * (i >> 2) + byte) + 128;
  const digit = (<i32>load<u8>(p + 64 * ((i >> 2) & 3) + byte) >> (i < 16 ? 0 : 4)) & 15;
  if (BITS == 4) return digit;
  if (BITS == 5) return digit | (((<i32>load<u8>(p + 256 + byte) >> <i32>(i >> 2)) & 1) << 4);
  return digit | (((<i32>load<u8>(p + 256 + (i < 16 ? 0 : 64) + byte) >> <i32>(2 * ((i >> 2) & 3))) & 3) << 4);
}

/** One lane of a vector. */
function lane(v: v128, i: usize): f32 {
  if (i == 0) return f32x4.extract_lane(v, 0);
  if (i == 1) return f32x4.extract_lane(v, 1);
  return i == 2 ? f32x4.extract_lane(v, 2) : f32x4.extract_lane(v, 3);
}

/** The numbers of output r of a panel, `[inputs]` f32, as the file has them. */
export function row(panel: usize, inputs: usize, r: usize, out: usize): void {
  const bits = halfBits(), unit = halfUnit();
  if (KIND <= BF16) {
    for (let k: usize = 0; k < inputs; k++) store<f32>(out + 4 * k, lane(floats(panel, k, r >> 2, bits, unit), r & 3));
    return;
  }
  for (let b: usize = 0; b < inputs / 32; b++) {
    const p = blockAt(panel, b), head = headAt(panel, b);
    for (let i: usize = 0; i < 32; i++, out += 4) {
      const d = lane(scales(head, p, r >> 2, i >> 4, bits, unit), r & 3), code = codeOf(p, i, r);
      if (MIN) store<f32>(out, d * <f32>code + lane(minima(head, p, r >> 2, bits, unit), r & 3));
      else store<f32>(out, d * <f32>(code - MIDDLE));
    }
  }
}

// ---- packing

/** Bytes of a block of 32 inputs in the file, or of a K-quant's 256. */
const STORED: usize = KIND == Q8_0 ? 34 : KIND == Q4_0 ? 18 : KIND == Q4_1 ? 20 : KIND == Q5_0 ? 22 : KIND == Q5_1 ? 24
  : KIND == Q4_K ? 144 : KIND == Q5_K ? 176 : 210;
/** Where the digits of a stored block lie. */
const STORED_DIGITS: usize = KIND == Q4_0 ? 2 : KIND == Q4_1 ? 4 : KIND == Q5_0 ? 6 : KIND == Q5_1 ? 8 : KIND == Q4_K ? 16 : 48;

/** Bytes 4 q + i of the j-th 32 of the stored block at s: the low digits of inputs 4 q + i and 16 + 4 q + i, or codes of half h. */
// @ts-ignore: decorator
@inline
function storedCodes(s: usize, j: usize, h: usize): v128 {
  if (BITS == 8) return v128.load(s + 16 * h, 2);
  if (!SUPER) return v128.load(s, STORED_DIGITS);
  const at = s + (KIND == Q6_K ? 64 * (j >> 2) + 32 * (j & 1) : STORED_DIGITS + 32 * (j >> 1)), mask = digit();
  const first = v128.load(at), second = v128.load(at, 16);
  if (KIND == Q6_K ? j & 2 : j & 1) return v128.or(v128.and(i16x8.shr_u(first, 4), mask), v128.andnot(second, mask));
  return v128.or(v128.and(first, mask), i16x8.shl(v128.and(second, mask), 4));
}

/** What codes at 16 inputs have above the low digits, one byte each at s, shifted: four bytes, of inputs i, 4 + i, 8 + i and 12 + i. */
// @ts-ignore: decorator
@inline
function gathered(s: usize, shift: i32): u32 {
  const bits: u64 = BITS == 6 ? 0x0303030303030303 : 0x0101010101010101, width: u64 = BITS == 6 ? 2 : 1;
  const a = (load<u64>(s) >> <u64>shift) & bits, b = (load<u64>(s, 8) >> <u64>shift) & bits;
  return <u32>(a | (a >> (32 - width))) | (<u32>(b | (b >> (32 - width))) << (2 * <u32>width));
}

/** Puts the upper bits of the j-th 32 codes of the stored block at s where the block at p has those of output r. */
// @ts-ignore: decorator
@inline
function putUpper(p: usize, r: usize, s: usize, j: usize): void {
  const at = p + 4 * r;
  if (BITS == 6) {
    const from = s + 128 + 32 * (j >> 2), shift = <i32>(2 * (j & 3));
    store<u32>(at, gathered(from, shift), 256);
    store<u32>(at, gathered(from + 16, shift), 320);
  } else if (SUPER) store<u32>(at, gathered(s + 16, <i32>j) | (gathered(s + 32, <i32>j) << 4), 256);
  else {
    let all: u32 = 0;
    // four bits side by side, to the lowest bits of four bytes
    for (let q: usize = 0; q < 8; q++) all |= ((((load<u32>(s, STORED_DIGITS - 4) >> <u32>(4 * q)) & 15) * 0x204081) & 0x01010101) << <u32>q;
    store<u32>(at, all, 256);
  }
}

/** Four vectors of four words to four lines: the first words of all, the second ones and so on. */
// @ts-ignore: decorator
@inline
function turned(to: usize, a: v128, b: v128, c: v128, d: v128): void {
  let ab = v128.shuffle<i32>(a, b, 0, 4, 1, 5), cd = v128.shuffle<i32>(c, d, 0, 4, 1, 5);
  v128.store(to, v128.shuffle<i64>(ab, cd, 0, 2));
  v128.store(to, v128.shuffle<i64>(ab, cd, 1, 3), 64);
  ab = v128.shuffle<i32>(a, b, 2, 6, 3, 7); cd = v128.shuffle<i32>(c, d, 2, 6, 3, 7);
  v128.store(to, v128.shuffle<i64>(ab, cd, 0, 2), 128);
  v128.store(to, v128.shuffle<i64>(ab, cd, 1, 3), 192);
}

/** Four vectors of eight numbers of 16 bits to eight lines of 32 bytes. */
// @ts-ignore: decorator
@inline
function turnedHalves(to: usize, a: v128, b: v128, c: v128, d: v128): void {
  fourLines(to, v128.shuffle<i16>(a, b, 0, 8, 1, 9, 2, 10, 3, 11), v128.shuffle<i16>(c, d, 0, 8, 1, 9, 2, 10, 3, 11));
  fourLines(to + 128, v128.shuffle<i16>(a, b, 4, 12, 5, 13, 6, 14, 7, 15), v128.shuffle<i16>(c, d, 4, 12, 5, 13, 6, 14, 7, 15));
}
// @ts-ignore: decorator
@inline
function fourLines(to: usize, ab: v128, cd: v128): void {
  const first = v128.shuffle<i32>(ab, cd, 0, 4, 1, 5), second = v128.shuffle<i32>(ab, cd, 2, 6, 3, 7);
  v128.store_lane<i64>(to, first, 0);
  v128.store_lane<i64>(to, first, 1, 32);
  v128.store_lane<i64>(to, second, 0, 64);
  v128.store_lane<i64>(to, second, 1, 96);
}

/** The j-th of a K-quant's eight 6-bit scales (part 0) or minima (part 4). */
function sixBits(s: usize, j: usize, part: i32): i32 {
  if (j < 4) return <i32>load<u8>(s + part + j) & 63;
  return ((<i32>load<u8>(s + 4 + j) >> part) & 15) | ((<i32>load<u8>(s + part + j - 4) >> 6) << 4);
}

/** Packs at most 16 rows of `inputs` numbers, `rowBytes` apart, into one panel; outputs that are missing are zero. */
export function pack(src: usize, rowBytes: usize, rows: usize, inputs: usize, panel: usize): void {
  if (rows < 16) memory.fill(panel, 0, panelBytes(KIND, <i32>inputs));
  if (KIND <= BF16) {
    let k: usize = 0;
    if (rows == 16)
      for (const some: usize = KIND == F32 ? 4 : 8; k + some <= inputs; k += some)
        for (let r: usize = 0, s = src + (KIND == F32 ? 4 : 2) * k; r < 16; r += 4, s += 4 * rowBytes) {
          const a = v128.load(s), b = v128.load(s + rowBytes), c = v128.load(s + 2 * rowBytes), d = v128.load(s + 3 * rowBytes);
          if (KIND == F32) turned(panel + 64 * k + 4 * r, a, b, c, d);
          else turnedHalves(panel + 32 * k + 2 * r, a, b, c, d);
        }
    // a line of the panel after the other
    for (; k < inputs; k++)
      for (let r: usize = 0, s = src; r < rows; r++, s += rowBytes)
        if (KIND == F32) store<u32>(panel + 64 * k + 4 * r, load<u32>(s + 4 * k));
        else store<u16>(panel + 32 * k + 2 * r, load<u16>(s + 2 * k));
    return;
  }
  for (let b: usize = 0; b < inputs / 32; b++) {
    const j = SUPER ? b & 7 : 0, p = blockAt(panel, b), after = p + CODE_BYTES;
    let s = src + STORED * (SUPER ? b >> 3 : b);
    for (let r: usize = 0, t = s; r < rows; r += 4, t += 4 * rowBytes)
      for (let h: usize = 0; h < (BITS == 8 ? 2 : 1); h++) {
        const none = i32x4.splat(0), left = rows - r;
        let v1 = none, v2 = none, v3 = none;
        if (left > 1) v1 = storedCodes(t + rowBytes, j, h);
        if (left > 2) v2 = storedCodes(t + 2 * rowBytes, j, h);
        if (left > 3) v3 = storedCodes(t + 3 * rowBytes, j, h);
        turned(p + 4 * r + 256 * h, storedCodes(t, j, h), v1, v2, v3);
      }
    for (let r: usize = 0; r < rows; r++, s += rowBytes) {
      if (BITS == 5 || BITS == 6) putUpper(p, r, s, j);
      if (KIND == Q6_K) {
        store<u8>(after + r, load<u8>(s + 192 + 2 * j));
        store<u8>(after + 16 + r, load<u8>(s + 192 + 2 * j + 1));
      } else if (SUPER) {
        store<u8>(after + r, sixBits(s + 4, j, 0));
        store<u8>(after + 16 + r, sixBits(s + 4, j, 4));
      } else {
        store<u16>(after + 2 * r, load<u16>(s));
        if (MIN) store<u16>(after + 32 + 2 * r, load<u16>(s + 2));
      }
      if (SUPER && j == 7) {
        const head = headAt(panel, b);
        store<f32>(head + 4 * r, half(s + (KIND == Q6_K ? 208 : 0)));
        if (MIN) store<f32>(head + 64 + 4 * r, half(s + 2));
      }
    }
  }
}

// ---- one row of activations in 8 bits

/** What 0 is as a code, the way `early` and `late` give it. */
// @ts-ignore: decorator
@inline
function zero(): f32 {
  return KIND == Q8_0 && WIDE == 2 ? 0 : <f32>MIDDLE;
}

/** What `dot` takes of the activations at inputs 4 q to 4 q + 3, the same in every lane. */
// @ts-ignore: decorator
@inline
function four(x: usize, q: usize): v128 {
  return v128.load32_splat(x + 4 * q * XB);
}
// @ts-ignore: decorator
@inline
function others(x: usize, q: usize): v128 {
  return v128.load32_splat(x + 4 * q * XB, FORM == 0 ? 4 : 0);
}

/** A code of 8 bits, or its low or its high digit. */
// @ts-ignore: decorator
@inline
function wholeOr(digits: bool, v: v128, flipped: v128, mask: v128): v128 {
  const code = v128.xor(v, flipped);
  return digits ? v128.and(code, mask) : code;
}
// @ts-ignore: decorator
@inline
function highDigit(v: v128, flipped: v128, mask: v128): v128 {
  return v128.and(i16x8.shr_u(v128.xor(v, flipped), 4), mask);
}

/** Sums of the first and the second 16 inputs, or of low and high digits, as one, i32. */
// @ts-ignore: decorator
@inline
function joined(digits: bool, a: v128, b: v128): v128 {
  if (digits) return i32x4.add(widen(a), i32x4.shl(widen(b), 4));
  return FORM == 1 && BITS == 4 ? widen(i16x8.add(a, b)) : i32x4.add(widen(a), widen(b));
}

/** Numbers d times whole numbers. */
// @ts-ignore: decorator
@inline
function times(d: v128, codes: v128): v128 {
  return f32x4.mul(d, f32x4.convert_i32x4_s(codes));
}

/** f + a block's products with four outputs: scale * (code - middle), or scale * code + minimum. */
// @ts-ignore: decorator
@inline
function scaled(sums: v128, s: v128, m: v128, d: v128, f: v128): v128 {
  return fma(fma(f32x4.convert_i32x4_s(sums), s, m), d, f);
}
// @ts-ignore: decorator
@inline
function raised(sums: v128, s: v128, m: v128, d: v128, n: v128, f: v128): v128 {
  return fma(n, m, fma(f32x4.mul(f32x4.convert_i32x4_s(sums), s), d, f));
}

/**
 * Four vectors of outputs at once, so that activations are loaded once, each pair of them side by side, so that V8 makes
 * it one: see forms.ts. Whole panels without a bias go where they belong, others by `scratch`, 64 bytes.
 */
// @ts-ignore: decorator
@inline
function products(digits: bool, w: usize, blocks: usize, x: usize, meta: usize, out: usize, outputs: usize, bias: usize, from: usize, to: usize, scratch: usize): void {
  const size = panelBytes(KIND, <i32>(32 * blocks)), negative = lessMiddle(BITS), none = i32x4.splat(0), mask = digit();
  const low = lowMask(), high = highMask(), bits = halfBits(), unit = halfUnit();
  for (let p = from; p < to; p++) {
    let head = w + p * size, at = head + HEAD, xp = x, mp = meta;
    let f0 = f32x4.splat(0), f1 = f0, f2 = f0, f3 = f0;
    for (let b: usize = 0; b < blocks; b++, at += BLOCK, xp += 32 * XB, mp += META) {
      if (SUPER && b > 0 && (b & 7) == 0) {
        head = at;
        at += HEAD;
      }
      const s = v128.load32_splat(mp);
      let a0 = none, a1 = none, a2 = none, a3 = none, b0 = none, b1 = none, b2 = none, b3 = none;
      if (BITS == 8)
        for (let c = at, y = xp, end = at + 512; c < end; c += 128, y += 8 * XB) {
          let v0 = v128.load(c), v1 = v128.load(c, 16), v2 = v128.load(c, 32), v3 = v128.load(c, 48), t = four(y, 0), u = others(y, 0);
          a0 = dot(t, u, wholeOr(digits, v0, low, mask), a0); a1 = dot(t, u, wholeOr(digits, v1, low, mask), a1);
          a2 = dot(t, u, wholeOr(digits, v2, low, mask), a2); a3 = dot(t, u, wholeOr(digits, v3, low, mask), a3);
          if (digits) {
            b0 = dot(t, u, highDigit(v0, low, mask), b0); b1 = dot(t, u, highDigit(v1, low, mask), b1);
            b2 = dot(t, u, highDigit(v2, low, mask), b2); b3 = dot(t, u, highDigit(v3, low, mask), b3);
          }
          v0 = v128.load(c, 64); v1 = v128.load(c, 80); v2 = v128.load(c, 96); v3 = v128.load(c, 112); t = four(y, 1); u = others(y, 1);
          a0 = dot(t, u, wholeOr(digits, v0, low, mask), a0); a1 = dot(t, u, wholeOr(digits, v1, low, mask), a1);
          a2 = dot(t, u, wholeOr(digits, v2, low, mask), a2); a3 = dot(t, u, wholeOr(digits, v3, low, mask), a3);
          if (digits) {
            b0 = dot(t, u, highDigit(v0, low, mask), b0); b1 = dot(t, u, highDigit(v1, low, mask), b1);
            b2 = dot(t, u, highDigit(v2, low, mask), b2); b3 = dot(t, u, highDigit(v3, low, mask), b3);
          }
        }
      else {
        // upper bits of the first and of the second 16 inputs
        let g0 = low, g1 = low, g2 = low, g3 = low, h0 = low, h1 = low, h2 = low, h3 = low;
        if (BITS > 4) { g0 = v128.load(at, 256); g1 = v128.load(at, 272); g2 = v128.load(at, 288); g3 = v128.load(at, 304); }
        if (BITS == 5) { h0 = g0; h1 = g1; h2 = g2; h3 = g3; }
        if (BITS == 6) { h0 = v128.load(at, 320); h1 = v128.load(at, 336); h2 = v128.load(at, 352); h3 = v128.load(at, 368); }
        let v0 = v128.load(at), v1 = v128.load(at, 16), v2 = v128.load(at, 32), v3 = v128.load(at, 48);
        let t = four(xp, 0), u = others(xp, 0), y = four(xp, 4), z = others(xp, 4);
        a0 = dot0(t, u, earlyOf(v0, g0, 0, low, high)); a1 = dot0(t, u, earlyOf(v1, g1, 0, low, high));
        a2 = dot0(t, u, earlyOf(v2, g2, 0, low, high)); a3 = dot0(t, u, earlyOf(v3, g3, 0, low, high));
        b0 = dot0(y, z, lateOf(v0, h0, 0, low, high)); b1 = dot0(y, z, lateOf(v1, h1, 0, low, high));
        b2 = dot0(y, z, lateOf(v2, h2, 0, low, high)); b3 = dot0(y, z, lateOf(v3, h3, 0, low, high));
        v0 = v128.load(at, 64); v1 = v128.load(at, 80); v2 = v128.load(at, 96); v3 = v128.load(at, 112);
        t = four(xp, 1); u = others(xp, 1); y = four(xp, 5); z = others(xp, 5);
        a0 = dot(t, u, earlyOf(v0, g0, 1, low, high), a0); a1 = dot(t, u, earlyOf(v1, g1, 1, low, high), a1);
        a2 = dot(t, u, earlyOf(v2, g2, 1, low, high), a2); a3 = dot(t, u, earlyOf(v3, g3, 1, low, high), a3);
        b0 = dot(y, z, lateOf(v0, h0, 1, low, high), b0); b1 = dot(y, z, lateOf(v1, h1, 1, low, high), b1);
        b2 = dot(y, z, lateOf(v2, h2, 1, low, high), b2); b3 = dot(y, z, lateOf(v3, h3, 1, low, high), b3);
        let i0 = a0, i1 = a1, i2 = a2, i3 = a3, j0 = b0, j1 = b1, j2 = b2, j3 = b3;
        v0 = v128.load(at, 128); v1 = v128.load(at, 144); v2 = v128.load(at, 160); v3 = v128.load(at, 176);
        t = four(xp, 2); u = others(xp, 2); y = four(xp, 6); z = others(xp, 6);
        if (PARTLY) {
          a0 = dot0(t, u, earlyOf(v0, g0, 2, low, high)); a1 = dot0(t, u, earlyOf(v1, g1, 2, low, high));
          a2 = dot0(t, u, earlyOf(v2, g2, 2, low, high)); a3 = dot0(t, u, earlyOf(v3, g3, 2, low, high));
          b0 = dot0(y, z, lateOf(v0, h0, 2, low, high)); b1 = dot0(y, z, lateOf(v1, h1, 2, low, high));
          b2 = dot0(y, z, lateOf(v2, h2, 2, low, high)); b3 = dot0(y, z, lateOf(v3, h3, 2, low, high));
        } else {
          a0 = dot(t, u, earlyOf(v0, g0, 2, low, high), a0); a1 = dot(t, u, earlyOf(v1, g1, 2, low, high), a1);
          a2 = dot(t, u, earlyOf(v2, g2, 2, low, high), a2); a3 = dot(t, u, earlyOf(v3, g3, 2, low, high), a3);
          b0 = dot(y, z, lateOf(v0, h0, 2, low, high), b0); b1 = dot(y, z, lateOf(v1, h1, 2, low, high), b1);
          b2 = dot(y, z, lateOf(v2, h2, 2, low, high), b2); b3 = dot(y, z, lateOf(v3, h3, 2, low, high), b3);
        }
        v0 = v128.load(at, 192); v1 = v128.load(at, 208); v2 = v128.load(at, 224); v3 = v128.load(at, 240);
        t = four(xp, 3); u = others(xp, 3); y = four(xp, 7); z = others(xp, 7);
        a0 = dot(t, u, earlyOf(v0, g0, 3, low, high), a0); a1 = dot(t, u, earlyOf(v1, g1, 3, low, high), a1);
        a2 = dot(t, u, earlyOf(v2, g2, 3, low, high), a2); a3 = dot(t, u, earlyOf(v3, g3, 3, low, high), a3);
        b0 = dot(y, z, lateOf(v0, h0, 3, low, high), b0); b1 = dot(y, z, lateOf(v1, h1, 3, low, high), b1);
        b2 = dot(y, z, lateOf(v2, h2, 3, low, high), b2); b3 = dot(y, z, lateOf(v3, h3, 3, low, high), b3);
        if (PARTLY) {
          a0 = i32x4.add(widen(i0), widen(a0)); a1 = i32x4.add(widen(i1), widen(a1)); a2 = i32x4.add(widen(i2), widen(a2)); a3 = i32x4.add(widen(i3), widen(a3));
          b0 = i32x4.add(widen(j0), widen(b0)); b1 = i32x4.add(widen(j1), widen(b1)); b2 = i32x4.add(widen(j2), widen(b2)); b3 = i32x4.add(widen(j3), widen(b3));
        }
      }
      // scales of 16 outputs, and minima or (Q6_K) scales of the second half
      let d0 = none, d1 = none, d2 = none, d3 = none, e0 = none, e1 = none, e2 = none, e3 = none;
      if (!SUPER) {
        d0 = halves(v128.load_ext<i16>(at, CODE_BYTES), bits, unit); d1 = halves(v128.load_ext<i16>(at, CODE_BYTES + 8), bits, unit);
        d2 = halves(v128.load_ext<i16>(at, CODE_BYTES + 16), bits, unit); d3 = halves(v128.load_ext<i16>(at, CODE_BYTES + 24), bits, unit);
        if (MIN) {
          e0 = halves(v128.load_ext<i16>(at, CODE_BYTES + 32), bits, unit); e1 = halves(v128.load_ext<i16>(at, CODE_BYTES + 40), bits, unit);
          e2 = halves(v128.load_ext<i16>(at, CODE_BYTES + 48), bits, unit); e3 = halves(v128.load_ext<i16>(at, CODE_BYTES + 56), bits, unit);
        }
      } else if (HALVED) {
        const c = v128.load_ext<i8>(at, CODE_BYTES), d = v128.load_ext<i8>(at, CODE_BYTES + 8), e = v128.load_ext<i8>(at, CODE_BYTES + 16), f = v128.load_ext<i8>(at, CODE_BYTES + 24);
        d0 = times(v128.load(head), i32x4.extend_low_i16x8_s(c)); d1 = times(v128.load(head, 16), i32x4.extend_high_i16x8_s(c));
        d2 = times(v128.load(head, 32), i32x4.extend_low_i16x8_s(d)); d3 = times(v128.load(head, 48), i32x4.extend_high_i16x8_s(d));
        e0 = times(v128.load(head), i32x4.extend_low_i16x8_s(e)); e1 = times(v128.load(head, 16), i32x4.extend_high_i16x8_s(e));
        e2 = times(v128.load(head, 32), i32x4.extend_low_i16x8_s(f)); e3 = times(v128.load(head, 48), i32x4.extend_high_i16x8_s(f));
      } else {
        const c = v128.load_ext<u8>(at, CODE_BYTES), d = v128.load_ext<u8>(at, CODE_BYTES + 8), e = v128.load_ext<u8>(at, CODE_BYTES + 16), f = v128.load_ext<u8>(at, CODE_BYTES + 24);
        d0 = times(v128.load(head), i32x4.extend_low_i16x8_s(c)); d1 = times(v128.load(head, 16), i32x4.extend_high_i16x8_s(c));
        d2 = times(v128.load(head, 32), i32x4.extend_low_i16x8_s(d)); d3 = times(v128.load(head, 48), i32x4.extend_high_i16x8_s(d));
        e0 = times(v128.load(head, 64), i32x4.extend_low_i16x8_s(e)); e1 = times(v128.load(head, 80), i32x4.extend_high_i16x8_s(e));
        e2 = times(v128.load(head, 96), i32x4.extend_low_i16x8_s(f)); e3 = times(v128.load(head, 112), i32x4.extend_high_i16x8_s(f));
      }
      if (HALVED) {
        const m = f32x4.mul(v128.load32_splat(mp, 8), negative), n = f32x4.mul(v128.load32_splat(mp, 12), negative);
        f0 = scaled(b0, s, n, e0, scaled(a0, s, m, d0, f0)); f1 = scaled(b1, s, n, e1, scaled(a1, s, m, d1, f1));
        f2 = scaled(b2, s, n, e2, scaled(a2, s, m, d2, f2)); f3 = scaled(b3, s, n, e3, scaled(a3, s, m, d3, f3));
        continue;
      }
      a0 = joined(digits, a0, b0); a1 = joined(digits, a1, b1); a2 = joined(digits, a2, b2); a3 = joined(digits, a3, b3);
      let m = v128.load32_splat(mp, 4);
      if (MIN) {
        if (SUPER) m = f32x4.neg(m); // minima of K-quants are subtracted
        f0 = raised(a0, s, m, d0, e0, f0); f1 = raised(a1, s, m, d1, e1, f1); f2 = raised(a2, s, m, d2, e2, f2); f3 = raised(a3, s, m, d3, e3, f3);
      } else {
        m = f32x4.mul(m, negative);
        f0 = scaled(a0, s, m, d0, f0); f1 = scaled(a1, s, m, d1, f1); f2 = scaled(a2, s, m, d2, f2); f3 = scaled(a3, s, m, d3, f3);
      }
    }
    const plain = bias == 0 && p * 16 + 16 <= outputs, y = plain ? out + 64 * p : scratch;
    v128.store(y, f0); v128.store(y, f1, 16);
    v128.store(y, f2, 32); v128.store(y, f3, 48);
    if (!plain) put16(out, outputs, bias, p, v128.load(y), v128.load(y, 16), v128.load(y, 32), v128.load(y, 48));
  }
}

/** One row in 8 bits times panels [from, to): output o at out + 4 o, bias the same or 0; scratch is 64 bytes. */
export function rowProduct(w: usize, blocks: usize, x: usize, meta: usize, out: usize, outputs: usize, bias: usize, from: usize, to: usize, scratch: usize): void {
  if (KIND <= BF16) return;
  if (DIGITS) products(true, w, blocks, x, meta, out, outputs, bias, from, to, scratch);
  else if (MAY_DIGITS && WIDE == 0) products(true, w, blocks, x, meta, out, outputs, bias, from, to, scratch);
  else products(false, w, blocks, x, meta, out, outputs, bias, from, to, scratch);
}

// ---- a panel unpacked, for many rows

/** Codes at inputs 4 q and 16 + 4 q and the three behind, of all outputs: whole lines, since two stores to a line go at once. */
// @ts-ignore: decorator
@inline
function eightLines(to: usize, p: usize, q: usize, low: v128, high: v128): void {
  putCodes(to, q, 0, early(p, q, 0, low, high)); putCodes(to, q, 1, early(p, q, 1, low, high));
  putCodes(to, q, 2, early(p, q, 2, low, high)); putCodes(to, q, 3, early(p, q, 3, low, high));
  putCodes(to, q + 4, 0, late(p, q, 0, low, high)); putCodes(to, q + 4, 1, late(p, q, 1, low, high));
  putCodes(to, q + 4, 2, late(p, q, 2, low, high)); putCodes(to, q + 4, 3, late(p, q, 3, low, high));
}

/** Blocks [first, first + count) to a byte a code (FORM 0: two); of Q8_0 by digits to two blocks each. */
export function unpack(panel: usize, first: usize, count: usize, to: usize): void {
  if (KIND <= BF16) return;
  const low = lowMask(), high = highMask(), bits = halfBits(), unit = halfUnit();
  for (let b = first; b < first + count; b++, to += UNPACKED) {
    const p = blockAt(panel, b), head = headAt(panel, b);
    const digits = DIGITS ? true : MAY_DIGITS ? WIDE == 0 : false;
    if (KIND == Q8_0 && digits) {
      // code - 128 = low + 16 high - 128: two blocks, of scales s and 16 s
      const mask = digit(), after = to + UNPACKED;
      for (let r: usize = 0; r < 4; r++) {
        const s = scales(head, p, r, 0, bits, unit);
        for (let q: usize = 0; q < 8; q++) {
          const v = early(p, q, r, low, high);
          putCodes(to, q, r, v128.and(v, mask));
          putCodes(after, q, r, v128.and(i16x8.shr_u(v, 4), mask));
        }
        v128.store(to + CODES + 16 * r, s);
        v128.store(to + CODES + 64 + 16 * r, f32x4.mul(s, f32x4.splat(-128)));
        v128.store(after + CODES + 16 * r, f32x4.mul(s, f32x4.splat(16)));
        v128.store(after + CODES + 64 + 16 * r, f32x4.splat(0));
      }
      to = after;
      continue;
    }
    for (let q: usize = 0; q < 4; q++) eightLines(to, p, q, low, high);
    for (let r: usize = 0; r < 4; r++) {
      v128.store(to + CODES + 16 * r, scales(head, p, r, 0, bits, unit));
      if (HALVED) v128.store(to + CODES + 64 + 16 * r, scales(head, p, r, 1, bits, unit));
      if (MIN) v128.store(to + CODES + 64 + 16 * r, minima(head, p, r, bits, unit));
    }
  }
}

// ---- numbers, for f32 activations

/** A vector of codes, four inputs of four outputs, as numbers. */
// @ts-ignore: decorator
@inline
function numbers4(v: v128, to: usize, d: v128, n: v128, z: v128): void {
  for (let i = 0; i < 4; i++, to += 64) {
    let code = i32x4.shl(v, 24 - 8 * i);
    code = KIND == Q8_0 && WIDE == 2 ? i32x4.shr_s(code, 24) : i32x4.shr_u(code, 24);
    const c = f32x4.convert_i32x4_s(code);
    v128.store(to, MIN ? f32x4.add(f32x4.mul(c, d), n) : f32x4.mul(f32x4.sub(c, z), d));
  }
}

/** Inputs [first, first + count) of a panel as f32 `[count][16]`; both multiples of 32 where there are codes. */
export function numbers(panel: usize, first: usize, count: usize, to: usize): void {
  const bits = halfBits(), unit = halfUnit();
  if (KIND <= BF16) {
    for (let k = first; k < first + count; k++, to += 64)
      for (let r: usize = 0; r < 4; r++) v128.store(to + 16 * r, floats(panel, k, r, bits, unit));
    return;
  }
  const z = f32x4.splat(zero()), low = lowMask(), high = highMask();
  for (let b = first / 32; b < (first + count) / 32; b++, to += 2048) {
    const p = blockAt(panel, b), head = headAt(panel, b);
    for (let r: usize = 0; r < 4; r++) {
      const d = scales(head, p, r, 0, bits, unit), e = HALVED ? scales(head, p, r, 1, bits, unit) : d;
      const n = MIN ? minima(head, p, r, bits, unit) : d;
      for (let q: usize = 0; q < 4; q++) {
        numbers4(early(p, q, r, low, high), to + 16 * r + 256 * q, d, n, z);
        numbers4(late(p, q, r, low, high), to + 16 * r + 256 * (q + 4), e, n, z);
      }
    }
  }
}

/** One row of f32 times 16 outputs of `count` inputs of floats, added to out where `more`. */
export function rowOfFloats(panel: usize, count: usize, x: usize, p: usize, out: usize, outputs: usize, bias: usize, more: bool): void {
  if (KIND > BF16) return;
  const bits = halfBits(), unit = halfUnit();
  let a0 = f32x4.splat(0), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
  let k: usize = 0;
  for (; k + 2 <= count; k += 2, x += 8) {
    let s = v128.load32_splat(x);
    a0 = fma(s, floats(panel, k, 0, bits, unit), a0); a1 = fma(s, floats(panel, k, 1, bits, unit), a1);
    a2 = fma(s, floats(panel, k, 2, bits, unit), a2); a3 = fma(s, floats(panel, k, 3, bits, unit), a3);
    s = v128.load32_splat(x, 4);
    b0 = fma(s, floats(panel, k + 1, 0, bits, unit), b0); b1 = fma(s, floats(panel, k + 1, 1, bits, unit), b1);
    b2 = fma(s, floats(panel, k + 1, 2, bits, unit), b2); b3 = fma(s, floats(panel, k + 1, 3, bits, unit), b3);
  }
  if (k < count) {
    const s = v128.load32_splat(x);
    a0 = fma(s, floats(panel, k, 0, bits, unit), a0); a1 = fma(s, floats(panel, k, 1, bits, unit), a1);
    a2 = fma(s, floats(panel, k, 2, bits, unit), a2); a3 = fma(s, floats(panel, k, 3, bits, unit), a3);
  }
  put16(out, outputs, more ? out : bias, p, f32x4.add(a0, b0), f32x4.add(a1, b1), f32x4.add(a2, b2), f32x4.add(a3, b3));
}

// ---- a few rows by digits, each to the bit as by itself

/** acc + codes times what a lane takes of the activations at x, where rows lie in fours. */
// @ts-ignore: decorator
@inline
function dotInFours(x: usize, codes: v128, acc: v128): v128 {
  return dot(v128.load32_splat(x), v128.load32_splat(x, FORM == 0 ? 16 : 0), codes, acc);
}

/** at += a block's products of one row with four outputs, of the sums of its low and its high digits. */
// @ts-ignore: decorator
@inline
function addDigits(at: usize, low: v128, high: v128, meta: usize, negative: v128, d: v128): void {
  const i = f32x4.convert_i32x4_s(i32x4.add(widen(low), i32x4.shl(widen(high), 4)));
  const m = f32x4.mul(v128.load32_splat(meta, 4), negative);
  v128.store(at, fma(fma(i, v128.load32_splat(meta), m), d, v128.load(at)));
}

/** Four rows times four outputs (vector r) of the block at p, added to the sums at acc, 64 bytes a row. */
// @ts-ignore: decorator
@inline
function fourRows(p: usize, r: usize, x: usize, meta: usize, acc: usize, d: v128, low: v128, high: v128, negative: v128): void {
  const mask = digit();
  let a0 = i32x4.splat(0), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
  for (let q: usize = 0; q < 8; q++, x += 16 * XB) {
    const v = early(p, q, r, low, high), l = v128.and(v, mask), h = v128.and(i16x8.shr_u(v, 4), mask);
    a0 = dotInFours(x, l, a0); a1 = dotInFours(x + 4, l, a1); a2 = dotInFours(x + 8, l, a2); a3 = dotInFours(x + 12, l, a3);
    b0 = dotInFours(x, h, b0); b1 = dotInFours(x + 4, h, b1); b2 = dotInFours(x + 8, h, b2); b3 = dotInFours(x + 12, h, b3);
  }
  addDigits(acc, a0, b0, meta, negative, d); addDigits(acc + 64, a1, b1, meta + META, negative, d);
  addDigits(acc + 128, a2, b2, meta + 2 * META, negative, d); addDigits(acc + 192, a3, b3, meta + 3 * META, negative, d);
}

/**
 * Rows in 8 bits, in fours, times panels [from, to) of codes of 8 bits by their digits: of each what `rowProduct` gives.
 * acc: 256 bytes for every four rows.
 */
export function fewByDigits(w: usize, blocks: usize, x: usize, meta: usize, rows: usize, out: usize, ldo: usize, outputs: usize, bias: usize, from: usize, to: usize, acc: usize): void {
  if (KIND != Q8_0) return;
  const size = panelBytes(KIND, <i32>(32 * blocks)), negative = lessMiddle(BITS), fours = (rows + 3) / 4;
  const low = lowMask(), high = highMask(), bits = halfBits(), unit = halfUnit();
  for (let p = from; p < to; p++) {
    memory.fill(acc, 0, 256 * fours);
    for (let b: usize = 0, at = w + p * size; b < blocks; b++, at += BLOCK)
      for (let r: usize = 0; r < 4; r++) {
        const d = scales(at, at, r, 0, bits, unit);
        for (let four: usize = 0; four < fours; four++)
          fourRows(at, r, x + 128 * XB * (four * blocks + b), meta + 4 * META * (four * blocks + b), acc + 256 * four + 16 * r, d, low, high, negative);
      }
    for (let i: usize = 0; i < rows; i++) {
      const f = acc + 64 * i;
      put16(out + i * ldo, outputs, bias, p, v128.load(f), v128.load(f, 16), v128.load(f, 32), v128.load(f, 48));
    }
  }
}
