// @ts-nocheck: AssemblyScript, not TypeScript
// Rows of keys and values as they are stored: @kv/engine's cache/form.ts and cache/encode.ts say how. A row is d numbers
// of a slot; codes of rows lie one after the other, their scales elsewhere. d is a multiple of 4, in Q4 of 32.

import { half, halfBits, halfUnit, halves, larger, largest4, max4, wholes } from "./forms";

export const F32: u32 = 0, F16: u32 = 1, Q8: u32 = 2, Q4: u32 = 3;
/**
 * Keys and values of slots at levels of their own (@kv/engine's cache/records.ts): codes are then words of a table, each
 * of them a level and where a slot's record begins among the bytes at `scales`.
 */
export const RECORD_KEYS: u32 = 4, RECORD_VALUES: u32 = 5;

/** Bytes of a row's codes. */
// @ts-ignore: decorator
@inline
export function codeBytes(form: u32, d: usize): usize {
  return form == F32 ? d << 2 : form == F16 ? d << 1 : form == Q8 ? d : form == Q4 ? d >> 1 : 4;
}
/** Bytes of a row's scales. */
// @ts-ignore: decorator
@inline
export function scaleBytes(form: u32, d: usize): usize {
  return form == Q8 ? 4 : form == Q4 ? d >> 3 : 0;
}

/** Stores n rows `[n, d]`, x bytes `ldx` apart. */
export function encode(form: u32, x: usize, ldx: usize, n: usize, d: usize, codes: usize, scales: usize): void {
  const size = codeBytes(form, d), beside = scaleBytes(form, d);
  for (let r: usize = 0; r < n; r++, x += ldx, codes += size, scales += beside) {
    if (form == F32) memory.copy(codes, x, size);
    else if (form == F16) encode16(x, d, codes);
    else if (form == Q8) encode8(x, d, codes, scales);
    else if (form == Q4) encode4(x, d, codes, scales);
    else inRecord(form, load<u32>(codes), scales, d, x, true);
  }
}

/** Writes n rows to `to`, `[n, d]` f32. */
export function decode(form: u32, codes: usize, scales: usize, n: usize, d: usize, to: usize): void {
  if (form == F32) memory.copy(to, codes, (n * d) << 2);
  else if (form == F16) decode16(codes, n * d, to);
  else if (form == Q8) for (let r: usize = 0; r < n; r++, codes += d, scales += 4, to += d << 2) decode8(codes, scales, d, to);
  else if (form == Q4) decode4(codes, scales, n * d, to);
  else for (let r: usize = 0; r < n; r++, codes += 4, to += d << 2) inRecord(form, load<u32>(codes), scales, d, to, false);
}

/** Stores a row in the record that a word of a table says, or writes it to x. */
function inRecord(part: u32, word: u32, records: usize, d: usize, x: usize, stores: bool): void {
  const level = word >> 29, keys = level < 3 ? level : level == 3 ? Q8 : Q4, values = level < 3 ? level : Q4;
  let at = records + (<usize>(word & 0x1fffffff) << 2), form = keys;
  if (part == RECORD_VALUES) {
    at += codeBytes(keys, d) + scaleBytes(keys, d);
    form = values;
  }
  if (stores) encode(form, x, 0, 1, d, at, at + codeBytes(form, d));
  else decode(form, at, at + codeBytes(form, d), 1, d, x);
}

/** Writes the rows of n slots (words) to `to`. */
export function decodeAt(form: u32, codes: usize, scales: usize, slots: usize, n: usize, d: usize, to: usize): void {
  const size = codeBytes(form, d), beside = scaleBytes(form, d);
  for (const end = slots + 4 * n; slots < end; slots += 4, to += d << 2) {
    const slot = <usize>load<u32>(slots);
    decode(form, codes + slot * size, scales + slot * beside, 1, d, to);
  }
}

/** 2^-112, which takes the exponent of f32 to that of a half. */
const TO_HALF: f32 = 1.925929944387236e-34;
const MOST_HALF: i32 = 0x7bff;

/** Four numbers as halves, in the lower 16 bits of lanes. */
// @ts-ignore: decorator
@inline
function halves4(x: v128): v128 {
  const bits = f32x4.mul(f32x4.abs(x), f32x4.splat(TO_HALF)), odd = v128.and(i32x4.shr_u(bits, 13), i32x4.splat(1));
  const size = i32x4.min_u(i32x4.shr_u(i32x4.add(i32x4.add(bits, i32x4.splat(0xfff)), odd), 13), i32x4.splat(MOST_HALF));
  // the sign of what is below zero, not that of -0
  return v128.or(size, v128.and(f32x4.lt(x, f32x4.splat(0)), i32x4.splat(0x8000)));
}

function encode16(x: usize, d: usize, codes: usize): void {
  for (let i: usize = 0; i < d; i += 4) {
    const four = halves4(v128.load(x + 4 * i));
    v128.store_lane<i64>(codes + 2 * i, v128.shuffle<u16>(four, four, 0, 2, 4, 6, 0, 2, 4, 6), 0);
  }
}

function decode16(codes: usize, n: usize, to: usize): void {
  const bits = halfBits(), unit = halfUnit();
  for (let i: usize = 0; i < n; i += 4) v128.store(to + 4 * i, halves(v128.load_ext<i16>(codes + 2 * i), bits, unit));
}

function encode8(x: usize, d: usize, codes: usize, scale: usize): void {
  const row = d << 2;
  let top = f32x4.splat(0);
  for (let i: usize = 0; i < row; i += 16) top = f32x4.pmax(top, f32x4.abs(v128.load(x + i)));
  const most = max4(top), inverse = f32x4.splat(127 / max<f32>(most, 1e-30));
  store<f32>(scale, most / 127);
  for (let i: usize = 0; i < row; i += 16) {
    const two = wholes(f32x4.mul(v128.load(x + i), inverse)), four = i16x8.narrow_i32x4_s(two, two);
    v128.store_lane<i32>(codes + (i >> 2), i8x16.narrow_i16x8_s(four, four), 0);
  }
}

// @ts-ignore: decorator
@inline
function decode8(codes: usize, scale: usize, d: usize, to: usize): void {
  const s = v128.load32_splat(scale);
  let i: usize = 0;
  for (; i + 8 <= d; i += 8, to += 32) {
    const c = v128.load_ext<i8>(codes + i);
    v128.store(to, f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(c)), s));
    v128.store(to, f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_s(c)), s), 16);
  }
  for (; i < d; i++, to += 4) store<f32>(to, <f32>load<i8>(codes + i) * f32x4.extract_lane(s, 0));
}

function encode4(x: usize, d: usize, codes: usize, scales: usize): void {
  const none = i32x4.splat(0), most = i32x4.splat(15);
  for (let b: usize = 0; b < d; b += 32, x += 128, codes += 16, scales += 4) {
    let low = v128.load(x), high = low;
    for (let i: usize = 16; i < 128; i += 16) {
      const v = v128.load(x + i);
      low = f32x4.pmin(low, v);
      high = f32x4.pmax(high, v);
    }
    low = f32x4.pmin(low, v128.shuffle<f32>(low, low, 2, 3, 0, 1));
    const least = f32x4.pmin(low, v128.shuffle<f32>(low, low, 1, 0, 3, 2));
    store<u16>(scales, <u16>i32x4.extract_lane(halves4(least), 0), 2);
    const from = half(scales + 2);
    store<u16>(scales, <u16>i32x4.extract_lane(halves4(f32x4.splat((max4(high) - from) / 15)), 0));
    const scale = half(scales), inverse = f32x4.splat(scale == 0 ? 0 : 1 / scale), less = f32x4.splat(from);
    for (let i: usize = 0; i < 64; i += 16) {
      const a = i32x4.min_s(i32x4.max_s(wholes(f32x4.mul(f32x4.sub(v128.load(x + i), less), inverse)), none), most);
      const c = i32x4.min_s(i32x4.max_s(wholes(f32x4.mul(f32x4.sub(v128.load(x + i, 64), less), inverse)), none), most);
      const two = i16x8.narrow_i32x4_s(v128.or(a, i32x4.shl(c, 4)), none);
      v128.store_lane<i32>(codes + (i >> 2), i8x16.narrow_i16x8_u(two, two), 0);
    }
  }
}

function decode4(codes: usize, scales: usize, n: usize, to: usize): void {
  for (const end = to + 4 * n; to < end; to += 128, codes += 16, scales += 4) {
    const s = f32x4.splat(half(scales)), low = f32x4.splat(half(scales + 2)), all = v128.load(codes);
    fours(v128.and(all, i8x16.splat(15)), s, low, to);
    fours(i8x16.shr_u(all, 4), s, low, to + 64);
  }
}

/** 16 codes as numbers. */
// @ts-ignore: decorator
@inline
function fours(codes: v128, s: v128, low: v128, to: usize): void {
  const a = i16x8.extend_low_i8x16_u(codes), b = i16x8.extend_high_i8x16_u(codes);
  v128.store(to, f32x4.add(f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(a)), s), low));
  v128.store(to, f32x4.add(f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_s(a)), s), low), 16);
  v128.store(to, f32x4.add(f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_low_i16x8_s(b)), s), low), 32);
  v128.store(to, f32x4.add(f32x4.mul(f32x4.convert_i32x4_s(i32x4.extend_high_i16x8_s(b)), s), low), 48);
}

// ---- products of codes of 8 bits, whole numbers throughout: queries and weights have 16 bits

/** Whether rows are met as codes: sums of d products of 16 and 8 bits fit 32. */
// @ts-ignore: decorator
@inline
export function meetsCodes(form: u32, d: usize): bool {
  return form == Q8 && (d & 15) == 0 && d <= 512;
}

/** `heads` queries `[heads, d]` f32 in 16 bits, at `to`, then their scales, f32, at `scales`. */
export function queries16(q: usize, heads: usize, d: usize, to: usize, scales: usize): void {
  const row = d << 2;
  for (let h: usize = 0; h < heads; h++, q += row, scales += 4) {
    let top = f32x4.splat(0);
    for (let i: usize = 0; i < row; i += 16) top = larger(top, f32x4.abs(v128.load(q + i)));
    const most = largest4(top), inverse = f32x4.splat(32767 / max<f32>(most, 1e-30));
    store<f32>(scales, most / 32767);
    for (let i: usize = 0; i < row; i += 32, to += 16)
      v128.store(to, i16x8.narrow_i32x4_s(wholes(f32x4.mul(v128.load(q + i), inverse)), wholes(f32x4.mul(v128.load(q + i, 16), inverse))));
  }
}

// @ts-ignore: decorator
@inline
function across(a: v128, b: v128, c: v128, d: v128): v128 {
  const ab = i32x4.add(v128.shuffle<i32>(a, b, 0, 4, 1, 5), v128.shuffle<i32>(a, b, 2, 6, 3, 7));
  const cd = i32x4.add(v128.shuffle<i32>(c, d, 0, 4, 1, 5), v128.shuffle<i32>(c, d, 2, 6, 3, 7));
  return i32x4.add(v128.shuffle<i64>(ab, cd, 0, 2), v128.shuffle<i64>(ab, cd, 1, 3));
}

/** Scores of `heads` (1 to 3) queries of 16 bits with n keys, which are read up to the next four: out + ldo * head. */
// @ts-ignore: decorator
@inline
function dots16(heads: i32, q: usize, scales: usize, k: usize, keyScales: usize, n: usize, d: usize, out: usize, ldo: usize): void {
  const two = d << 1;
  const s0 = v128.load32_splat(scales), s1 = heads > 1 ? v128.load32_splat(scales + 4) : s0, s2 = heads > 2 ? v128.load32_splat(scales + 8) : s0;
  for (let j: usize = 0; j < n; j += 4, k += 4 * d, keyScales += 16, out += 16) {
    let a0 = i32x4.splat(0), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0, c0 = a0, c1 = a0, c2 = a0, c3 = a0;
    for (let i: usize = 0, p = q; i < d; i += 8, p += 16) {
      const at = k + i, k0 = v128.load_ext<i8>(at), k1 = v128.load_ext<i8>(at + d), k2 = v128.load_ext<i8>(at + 2 * d), k3 = v128.load_ext<i8>(at + 3 * d);
      const x = v128.load(p);
      a0 = i32x4.add(a0, i32x4.dot_i16x8_s(x, k0)); a1 = i32x4.add(a1, i32x4.dot_i16x8_s(x, k1));
      a2 = i32x4.add(a2, i32x4.dot_i16x8_s(x, k2)); a3 = i32x4.add(a3, i32x4.dot_i16x8_s(x, k3));
      if (heads > 1) {
        const y = v128.load(p + two);
        b0 = i32x4.add(b0, i32x4.dot_i16x8_s(y, k0)); b1 = i32x4.add(b1, i32x4.dot_i16x8_s(y, k1));
        b2 = i32x4.add(b2, i32x4.dot_i16x8_s(y, k2)); b3 = i32x4.add(b3, i32x4.dot_i16x8_s(y, k3));
      }
      if (heads > 2) {
        const z = v128.load(p + 2 * two);
        c0 = i32x4.add(c0, i32x4.dot_i16x8_s(z, k0)); c1 = i32x4.add(c1, i32x4.dot_i16x8_s(z, k1));
        c2 = i32x4.add(c2, i32x4.dot_i16x8_s(z, k2)); c3 = i32x4.add(c3, i32x4.dot_i16x8_s(z, k3));
      }
    }
    const by = v128.load(keyScales);
    v128.store(out, f32x4.mul(f32x4.mul(f32x4.convert_i32x4_s(across(a0, a1, a2, a3)), s0), by));
    if (heads > 1) v128.store(out + ldo, f32x4.mul(f32x4.mul(f32x4.convert_i32x4_s(across(b0, b1, b2, b3)), s1), by));
    if (heads > 2) v128.store(out + 2 * ldo, f32x4.mul(f32x4.mul(f32x4.convert_i32x4_s(across(c0, c1, c2, c3)), s2), by));
  }
}

function dots16x1(q: usize, scales: usize, k: usize, keyScales: usize, n: usize, d: usize, out: usize, ldo: usize): void { dots16(1, q, scales, k, keyScales, n, d, out, ldo); }
function dots16x2(q: usize, scales: usize, k: usize, keyScales: usize, n: usize, d: usize, out: usize, ldo: usize): void { dots16(2, q, scales, k, keyScales, n, d, out, ldo); }
function dots16x3(q: usize, scales: usize, k: usize, keyScales: usize, n: usize, d: usize, out: usize, ldo: usize): void { dots16(3, q, scales, k, keyScales, n, d, out, ldo); }

/** Scores of queries with n keys of 8 bits: out + ldo * head, written up to the next four. */
export function scoreCodes(heads: usize, q: usize, scales: usize, k: usize, keyScales: usize, n: usize, d: usize, out: usize, ldo: usize): void {
  let h: usize = 0;
  for (; h + 3 <= heads && heads != h + 4; h += 3) dots16x3(q + 2 * h * d, scales + 4 * h, k, keyScales, n, d, out + h * ldo, ldo);
  for (; h + 2 <= heads; h += 2) dots16x2(q + 2 * h * d, scales + 4 * h, k, keyScales, n, d, out + h * ldo, ldo);
  if (h < heads) dots16x1(q + 2 * h * d, scales + 4 * h, k, keyScales, n, d, out + h * ldo, ldo);
}

/**
 * Weights of n slots, f32 at `line`, times the scales of their values, as whole numbers of 16 bits at `to`, with zeros up
 * to the next multiple of eight; gives what one of them is. Products with the scales stay at `line`.
 */
export function weights16(line: usize, valueScales: usize, n: usize, to: usize): f32 {
  for (let j = n; j & 7; j++) store<f32>(line + 4 * j, 0);
  let top = f32x4.splat(0);
  let j: usize = 0;
  for (; j + 4 <= n; j += 4) {
    const w = f32x4.mul(v128.load(line + 4 * j), v128.load(valueScales + 4 * j));
    v128.store(line + 4 * j, w);
    top = f32x4.pmax(top, w);
  }
  for (; j < n; j++) {
    const w = load<f32>(line + 4 * j) * load<f32>(valueScales + 4 * j);
    store<f32>(line + 4 * j, w);
    top = f32x4.pmax(top, f32x4.splat(w));
  }
  const most = max4(top), inverse = f32x4.splat(32767 / max<f32>(most, 1e-30));
  for (let i: usize = 0; i < n; i += 8)
    v128.store(to + 2 * i, i16x8.narrow_i32x4_s(wholes(f32x4.mul(v128.load(line + 4 * i), inverse)), wholes(f32x4.mul(v128.load(line + 4 * i, 16), inverse))));
  return most / 32767;
}

/** Codes of values: of 8 bits, or the lower or the upper four bits of a byte. */
const BYTES: i32 = 0, LOWER: i32 = 1, UPPER: i32 = 2;

/** 16 codes of a row as signed bytes. */
// @ts-ignore: decorator
@inline
function codesOf(how: i32, at: usize): v128 {
  const all = v128.load(at);
  return how == BYTES ? all : how == UPPER ? i8x16.shr_u(all, 4) : v128.and(all, i8x16.splat(15));
}

/**
 * out += weights of n values, 16 channels of them: codes at v, `row` bytes a slot; of `heads` (1 to 3) rows of weights of 16
 * bits `ldp` apart, each of them worth what is at `units`, `ldu` apart, and outputs `ldo` apart. An odd last slot is read
 * with the next one, whose weight is 0.
 */
// @ts-ignore: decorator
@inline
function mix16(heads: i32, how: i32, p: usize, ldp: usize, units: usize, ldu: usize, v: usize, n: usize, row: usize, out: usize, ldo: usize): void {
  let a0 = i32x4.splat(0), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0, c0 = a0, c1 = a0, c2 = a0, c3 = a0;
  for (let j: usize = 0, at = v, w = p; j < n; j += 2, at += 2 * row, w += 4) {
    const x = codesOf(how, at), y = codesOf(how, at + row);
    const low = v128.shuffle<i8>(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const high = v128.shuffle<i8>(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    const wa = v128.load32_splat(w), wb = heads > 1 ? v128.load32_splat(w + ldp) : wa, wc = heads > 2 ? v128.load32_splat(w + 2 * ldp) : wa;
    let e = i16x8.extend_low_i8x16_s(low);
    a0 = i32x4.add(a0, i32x4.dot_i16x8_s(e, wa));
    if (heads > 1) b0 = i32x4.add(b0, i32x4.dot_i16x8_s(e, wb));
    if (heads > 2) c0 = i32x4.add(c0, i32x4.dot_i16x8_s(e, wc));
    e = i16x8.extend_high_i8x16_s(low);
    a1 = i32x4.add(a1, i32x4.dot_i16x8_s(e, wa));
    if (heads > 1) b1 = i32x4.add(b1, i32x4.dot_i16x8_s(e, wb));
    if (heads > 2) c1 = i32x4.add(c1, i32x4.dot_i16x8_s(e, wc));
    e = i16x8.extend_low_i8x16_s(high);
    a2 = i32x4.add(a2, i32x4.dot_i16x8_s(e, wa));
    if (heads > 1) b2 = i32x4.add(b2, i32x4.dot_i16x8_s(e, wb));
    if (heads > 2) c2 = i32x4.add(c2, i32x4.dot_i16x8_s(e, wc));
    e = i16x8.extend_high_i8x16_s(high);
    a3 = i32x4.add(a3, i32x4.dot_i16x8_s(e, wa));
    if (heads > 1) b3 = i32x4.add(b3, i32x4.dot_i16x8_s(e, wb));
    if (heads > 2) c3 = i32x4.add(c3, i32x4.dot_i16x8_s(e, wc));
  }
  add16(out, v128.load32_splat(units), a0, a1, a2, a3);
  if (heads > 1) add16(out + ldo, v128.load32_splat(units + ldu), b0, b1, b2, b3);
  if (heads > 2) add16(out + 2 * ldo, v128.load32_splat(units + 2 * ldu), c0, c1, c2, c3);
}

// @ts-ignore: decorator
@inline
function add16(out: usize, unit: v128, a: v128, b: v128, c: v128, d: v128): void {
  v128.store(out, f32x4.add(v128.load(out), f32x4.mul(f32x4.convert_i32x4_s(a), unit)));
  v128.store(out, f32x4.add(v128.load(out, 16), f32x4.mul(f32x4.convert_i32x4_s(b), unit)), 16);
  v128.store(out, f32x4.add(v128.load(out, 32), f32x4.mul(f32x4.convert_i32x4_s(c), unit)), 32);
  v128.store(out, f32x4.add(v128.load(out, 48), f32x4.mul(f32x4.convert_i32x4_s(d), unit)), 48);
}

function mix16x1(p: usize, ldp: usize, units: usize, v: usize, n: usize, d: usize, out: usize, ldo: usize): void {
  for (let i: usize = 0; i < d; i += 16) mix16(1, BYTES, p, ldp, units, 4, v + i, n, d, out + 4 * i, ldo);
}
function mix16x2(p: usize, ldp: usize, units: usize, v: usize, n: usize, d: usize, out: usize, ldo: usize): void {
  for (let i: usize = 0; i < d; i += 16) mix16(2, BYTES, p, ldp, units, 4, v + i, n, d, out + 4 * i, ldo);
}
function mix16x3(p: usize, ldp: usize, units: usize, v: usize, n: usize, d: usize, out: usize, ldo: usize): void {
  for (let i: usize = 0; i < d; i += 16) mix16(3, BYTES, p, ldp, units, 4, v + i, n, d, out + 4 * i, ldo);
}

/** out + ldo * head += what `weights16` left of each head, times n values of 8 bits, at most 256. */
export function mixCodes(heads: usize, p: usize, ldp: usize, units: usize, v: usize, n: usize, d: usize, out: usize, ldo: usize): void {
  let h: usize = 0;
  for (; h + 3 <= heads && heads != h + 4; h += 3) mix16x3(p + h * ldp, ldp, units + 4 * h, v, n, d, out + h * ldo, ldo);
  for (; h + 2 <= heads; h += 2) mix16x2(p + h * ldp, ldp, units + 4 * h, v, n, d, out + h * ldo, ldo);
  if (h < heads) mix16x1(p + h * ldp, ldp, units + 4 * h, v, n, d, out + h * ldo, ldo);
}

// ---- values of 4 bits: a weight is multiplied with the scale of each block, minima are added up apart

/** Whether values are met as codes of 4 bits. */
// @ts-ignore: decorator
@inline
export function meetsNibbles(form: u32): bool {
  return form == Q4;
}

/**
 * Weights of n slots, f32 at `line`, times the scales of each block of 32 channels of their values, as whole numbers of 16
 * bits: those of block b at `to + b * apart`, with zeros up to the next multiple of eight. Leaves what one of them is at
 * `units`, and behind those, for each block, the weighted sum of the minima. `room`: n numbers up to a multiple of eight.
 */
export function weightsOfBlocks(line: usize, scales: usize, n: usize, d: usize, to: usize, apart: usize, units: usize, room: usize): void {
  const each = d >> 3, blocks = d >> 5, bits = halfBits(), unit = halfUnit(), even = (n + 7) & ~7;
  for (let j = n; j < even; j++) store<f32>(line + 4 * j, 0);
  for (let b: usize = 0; b < blocks; b++, scales += 4, to += apart) {
    let top = f32x4.splat(0), lows = top;
    for (let j: usize = 0, at = scales; j < even; j += 4, at += 4 * each) {
      let pairs = v128.load32_zero(at);
      // what lies behind the last slot is not read
      if (j + 1 < n) pairs = v128.load32_lane(at + each, pairs, 1);
      if (j + 2 < n) pairs = v128.load32_lane(at + 2 * each, pairs, 2);
      if (j + 3 < n) pairs = v128.load32_lane(at + 3 * each, pairs, 3);
      const w = v128.load(line + 4 * j);
      const scale = f32x4.mul(v128.and(i32x4.shr_s(i32x4.shl(pairs, 16), 3), bits), unit), low = f32x4.mul(v128.and(i32x4.shl(i32x4.shr_s(pairs, 16), 13), bits), unit);
      const product = f32x4.mul(w, scale);
      lows = f32x4.add(lows, f32x4.mul(w, low));
      top = f32x4.pmax(top, product);
      v128.store(room + 4 * j, product);
    }
    const most = max4(top), inverse = f32x4.splat(32767 / max<f32>(most, 1e-30));
    for (let i: usize = 0; i < even; i += 8)
      v128.store(to + 2 * i, i16x8.narrow_i32x4_s(wholes(f32x4.mul(v128.load(room + 4 * i), inverse)), wholes(f32x4.mul(v128.load(room + 4 * i, 16), inverse))));
    store<f32>(units + 4 * b, most / 32767);
    store<f32>(units + 4 * (blocks + b), f32x4.extract_lane(lows, 0) + f32x4.extract_lane(lows, 1) + (f32x4.extract_lane(lows, 2) + f32x4.extract_lane(lows, 3)));
  }
}

function mixNibbles(heads: i32, p: usize, ldp: usize, apart: usize, units: usize, ldu: usize, v: usize, n: usize, d: usize, out: usize, ldo: usize): void {
  for (let b: usize = 0; b < d; b += 32, p += apart, units += 4, v += 16, out += 128) {
    if (heads == 1) {
      mix16(1, LOWER, p, ldp, units, ldu, v, n, d >> 1, out, ldo);
      mix16(1, UPPER, p, ldp, units, ldu, v, n, d >> 1, out + 64, ldo);
    } else if (heads == 2) {
      mix16(2, LOWER, p, ldp, units, ldu, v, n, d >> 1, out, ldo);
      mix16(2, UPPER, p, ldp, units, ldu, v, n, d >> 1, out + 64, ldo);
    } else {
      mix16(3, LOWER, p, ldp, units, ldu, v, n, d >> 1, out, ldo);
      mix16(3, UPPER, p, ldp, units, ldu, v, n, d >> 1, out + 64, ldo);
    }
  }
}

/**
 * out + ldo * head += what `weightsOfBlocks` left of each head (weights `ldp` apart, units `ldu`), times n values of 4 bits,
 * at most 256; without the minima.
 */
export function mixBlocks(heads: usize, p: usize, ldp: usize, apart: usize, units: usize, ldu: usize, v: usize, n: usize, d: usize, out: usize, ldo: usize): void {
  let h: usize = 0;
  for (; h + 3 <= heads && heads != h + 4; h += 3) mixNibbles(3, p + h * ldp, ldp, apart, units + h * ldu, ldu, v, n, d, out + h * ldo, ldo);
  for (; h + 2 <= heads; h += 2) mixNibbles(2, p + h * ldp, ldp, apart, units + h * ldu, ldu, v, n, d, out + h * ldo, ldo);
  if (h < heads) mixNibbles(1, p + h * ldp, ldp, apart, units + h * ldu, ldu, v, n, d, out + h * ldo, ldo);
}

/** Adds the weighted sums of the minima, one for every 32 of d outputs. */
export function addLows(lows: usize, d: usize, out: usize): void {
  for (let b: usize = 0; b < d; b += 32, lows += 4) {
    const low = v128.load32_splat(lows);
    for (let i: usize = 0; i < 128; i += 16, out += 16) v128.store(out, f32x4.add(v128.load(out), low));
  }
}
