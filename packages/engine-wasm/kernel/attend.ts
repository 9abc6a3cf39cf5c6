// @ts-nocheck: AssemblyScript, not TypeScript
// Causal attention over a cache. A layer's cache is described by words: codes of keys and of values, rows `[G, capacity]`
// as kernel/stored.ts has them, positions `[G, capacity]` u32, capacity, lists, view, the forms of keys and values, their
// scales, biases `[G, stride]` f32 or 0 for none, their stride, a term or 0 for none, and the slots in use of each KV head.
// A bias joins its slot's score after any soft cap; those of slots that are not in use are 0. d is a multiple of 4.
//
// Term: the address of what joins a token's attention besides slots, of each query head ln of a mass, 3 words that are not
// read, and a value `[d]`.
//
// Lists: 0, or the address of words that say which slots a token sees, its own among those in use: how many lists, one
// for each KV head or for each query head; then of each its length and its address. Slots ascend.
// For a block of rows it is the address of what is hidden from them: how many ranges a row, then of each row those ranges of
// positions [from, until), none with its own position. Empty ones hide nothing.
// View: 0, or what leaves a token's lists (kernel/show.ts).

import { WIDE, codes4, exp4, flip, fma, larger, max4, sum4, tanh4, wholes } from "./forms";
import { F32, codeBytes, addLows, decode, decodeAt, encode, meetsCodes, meetsNibbles, mixBlocks, mixCodes, queries16, scaleBytes, scoreCodes, weights16, weightsOfBlocks } from "./stored";
import { min2, quantise, quantised32, tilesOf8, zero8 } from "./products";
import { ME, THREADS, claim } from "./team";
import { CODES, META, UNPACKED } from "./unpacked";

/** Below every score, and finite, so that a difference of two is a number. */
const LOWEST: f32 = -1e30;

/**
 * Where a softmax's maximum begins; its sum begins at `sumFrom`. Without sinks nothing has been seen. A sink `[H]` is one
 * more score of its query head, of no slot: weights of slots sum to 1 less its own.
 */
// @ts-ignore: decorator
@inline
function topFrom(sinks: usize, h: usize): f32 {
  return sinks ? max<f32>(load<f32>(sinks + 4 * h), LOWEST) : LOWEST;
}
// @ts-ignore: decorator
@inline
function sumFrom(sinks: usize): f32 {
  return sinks ? 1 : 0;
}
const LOG2E: f32 = 1.44269504088896341;

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
function positionsOf(cache: usize, g: usize): usize {
  return <usize>load<u32>(cache, 8) + 4 * g * capacityOf(cache);
}
// @ts-ignore: decorator
@inline
function capacityOf(cache: usize): usize {
  return load<u32>(cache, 12);
}
// @ts-ignore: decorator
@inline
function listsOf(cache: usize): usize {
  return load<u32>(cache, 16);
}
// @ts-ignore: decorator
@inline
function keyFormOf(cache: usize): u32 {
  return load<u32>(cache, 24);
}
// @ts-ignore: decorator
@inline
function valueFormOf(cache: usize): u32 {
  return load<u32>(cache, 28);
}
// @ts-ignore: decorator
@inline
function keyScalesOf(cache: usize): usize {
  return load<u32>(cache, 32);
}
// @ts-ignore: decorator
@inline
function valueScalesOf(cache: usize): usize {
  return load<u32>(cache, 36);
}
// @ts-ignore: decorator
@inline
export function slotsOf(cache: usize, g: usize): usize {
  return load<u32>(cache + 52 + 4 * g);
}
// @ts-ignore: decorator
@inline
function termOf(cache: usize): usize {
  return load<u32>(cache, 48);
}
/** The biases of a KV head's slots; 0 for none. */
// @ts-ignore: decorator
@inline
function biasesOf(cache: usize, g: usize): usize {
  const biases = <usize>load<u32>(cache, 40);
  return biases ? biases + 4 * g * <usize>load<u32>(cache, 44) : 0;
}

/** A KV head's rows: codes and scales of its first slot, and their forms; and its biases. */
let KEYS: usize = 0, KEY_SCALES: usize = 0, KEY_FORM: u32 = 0, VALUES: usize = 0, VALUE_SCALES: usize = 0, VALUE_FORM: u32 = 0, BIASES: usize = 0;

/** Looks at the rows of a KV head. */
function open(cache: usize, g: usize, d: usize): void {
  const first = g * capacityOf(cache);
  KEY_FORM = keyFormOf(cache);
  VALUE_FORM = valueFormOf(cache);
  KEYS = keysOf(cache) + first * codeBytes(KEY_FORM, d);
  KEY_SCALES = keyScalesOf(cache) + first * scaleBytes(KEY_FORM, d);
  VALUES = valuesOf(cache) + first * codeBytes(VALUE_FORM, d);
  VALUE_SCALES = valueScalesOf(cache) + first * scaleBytes(VALUE_FORM, d);
  BIASES = biasesOf(cache, g);
}

/** Stores n keys and values, `ldk` and `ldv` bytes apart, from a slot of the KV head on. */
function put(slot: usize, d: usize, k: usize, ldk: usize, v: usize, ldv: usize, n: usize): void {
  encode(KEY_FORM, k, ldk, n, d, KEYS + slot * codeBytes(KEY_FORM, d), KEY_SCALES + slot * scaleBytes(KEY_FORM, d));
  encode(VALUE_FORM, v, ldv, n, d, VALUES + slot * codeBytes(VALUE_FORM, d), VALUE_SCALES + slot * scaleBytes(VALUE_FORM, d));
}

/** The first of n ascending positions that a query at `position` sees through a window; 0: everything. */
function firstSeen(cache: usize, g: usize, n: usize, position: u32, window: u32): usize {
  if (window == 0 || position < window) return 0;
  const from = positionsOf(cache, g), lower = position - window + 1;
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
  for (let g: usize = 0; g < heads; g++) appendHead(cache, g, d, k, ldk, v, ldv, from, to);
}

/** `append` for one KV head. */
export function appendHead(cache: usize, g: usize, d: usize, k: usize, ldk: usize, v: usize, ldv: usize, from: usize, to: usize): void {
  const row = d << 2;
  open(cache, g, d);
  put(slotsOf(cache, g) + from, d, k + from * ldk + g * row, ldk, v + from * ldv + g * row, ldv, to - from);
}

/**
 * Rows `slots` (n words, ascending) of `from`, one behind the other to `to`, which may be where they lie. `bytes` of a row:
 * a multiple of 4.
 */
export function gather(from: usize, to: usize, bytes: usize, slots: usize, n: usize): void {
  for (const end = slots + 4 * n; slots < end; slots += 4) {
    let p = from + bytes * <usize>load<u32>(slots);
    const stop = to + bytes;
    if (p == to) to = stop;
    for (; to + 16 <= stop; to += 16, p += 16) v128.store(to, v128.load(p));
    for (; to < stop; to += 4, p += 4) store<u32>(to, load<u32>(p));
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

export function dots1(q: usize, row: usize, k: usize, n: usize, out: usize, ldo: usize): void { dots(1, q, row, k, n, out, ldo); }
function dots2(q: usize, row: usize, k: usize, n: usize, out: usize, ldo: usize): void { dots(2, q, row, k, n, out, ldo); }
function dots3(q: usize, row: usize, k: usize, n: usize, out: usize, ldo: usize): void { dots(3, q, row, k, n, out, ldo); }

/** out += weights of n values, of `heads` (1 to 3) rows of weights `ldp` apart and outputs `ldo` apart. */
// @ts-ignore: decorator
@inline
function mix(heads: i32, p: usize, ldp: usize, v: usize, row: usize, n: usize, out: usize, ldo: usize): void {
  let i: usize = 0;
  for (; i + 64 <= row; i += 64, out += 64) {
    let a0 = v128.load(out), a1 = v128.load(out, 16), a2 = v128.load(out, 32), a3 = v128.load(out, 48);
    let b0 = a0, b1 = a0, b2 = a0, b3 = a0, c0 = a0, c1 = a0, c2 = a0, c3 = a0;
    const ob = out + ldo, oc = ob + ldo;
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
      let a = v128.load(out + h * ldo);
      for (let j: usize = 0; j < n; j++) a = fma(v128.load32_splat(p + h * ldp + 4 * j), v128.load(v + j * row + i), a);
      v128.store(out + h * ldo, a);
    }
}

function mix1(p: usize, ldp: usize, v: usize, row: usize, n: usize, out: usize, ldo: usize): void { mix(1, p, ldp, v, row, n, out, ldo); }
function mix2(p: usize, ldp: usize, v: usize, row: usize, n: usize, out: usize, ldo: usize): void { mix(2, p, ldp, v, row, n, out, ldo); }
function mix3(p: usize, ldp: usize, v: usize, row: usize, n: usize, out: usize, ldo: usize): void { mix(3, p, ldp, v, row, n, out, ldo); }

/** Slots whose keys, then values, stay in the first-level cache while all heads of a group meet them. */
const NEAR: usize = 64;
/** Slots whose scores are held at a time. */
const HELD: usize = 256;
/** Most pieces that a KV head's slots are cut into, and slots that make a piece worth it. */
const PIECES: usize = 16, WORTH: usize = 128;

/**
 * Brings so many bytes near, line after line, as processors foresee it: `dots` and `mix` read parts of several rows in
 * turn. What is loaded goes nowhere; that a load may trap keeps it.
 */
function fetch(p: usize, bytes: usize): void {
  for (const end = p + bytes; p < end; p += 64) load<i32>(p);
}

/** Bytes of what pieces of a token's attention leave: of each query head maximum, sum and outputs `[d]`. */
export function partBytes(heads: usize, d: usize): usize {
  return PIECES * heads * recordBytes(d);
}
/**
 * Bytes of scratch for `attendToken` of `group` query heads a KV head: scores; keys or values that are listed or decoded;
 * their scales; queries in 16 bits and what one of them is; weights in 16 bits and what one of them is.
 */
export function tokenScratch(group: usize, d: usize): usize {
  return wholesAt(group, d) + 2 * group * (d + blocksOf(d) * HELD) + 8 * group * blocksOf(d) + 4 * (group + 4) + 4 * HELD;
}

/** Blocks of a row that have weights of their own. */
// @ts-ignore: decorator
@inline
function blocksOf(d: usize): usize {
  return (d + 31) >> 5;
}

/** Where scales of listed rows lie in that scratch, and where whole numbers do. */
// @ts-ignore: decorator
@inline
function scalesAt(group: usize, d: usize): usize {
  return 4 * (group * HELD + NEAR * d);
}
// @ts-ignore: decorator
@inline
function wholesAt(group: usize, d: usize): usize {
  return scalesAt(group, d) + HELD * (d >> 3 > 4 ? d >> 3 : 4);
}

// @ts-ignore: decorator
@inline
function recordBytes(d: usize): usize {
  return (d + 4) << 2;
}

/** Scores times `scale`, soft-capped if there is a cap. */
function capped(s: usize, n: usize, scale: f32, cap: f32): void {
  const factor = f32x4.splat(cap == 0 ? scale : scale / cap), c = f32x4.splat(cap);
  for (let i: usize = 0; i < n << 2; i += 16) {
    const x = f32x4.mul(v128.load(s + i), factor);
    v128.store(s + i, cap == 0 ? x : f32x4.mul(tanh4(x), c));
  }
}

/** Adds the biases of n slots, from slot `first` on or as `some` lists them (0: they are not listed), to their scores. */
function biased(s: usize, biases: usize, some: usize, first: usize, n: usize): void {
  if (some) {
    for (let i: usize = 0; i < n << 2; i += 4) store<f32>(s + i, load<f32>(s + i) + load<f32>(biases + 4 * <usize>load<u32>(some + i)));
    return;
  }
  const from = biases + 4 * first, end = n << 2;
  let i: usize = 0;
  for (; i + 16 <= end; i += 16) v128.store(s + i, f32x4.add(v128.load(s + i), v128.load(from + i)));
  for (; i < end; i += 4) store<f32>(s + i, load<f32>(s + i) + load<f32>(from + i));
}

/** The largest of n numbers, at least LOWEST; behind them there may be anything up to a multiple of sixteen. */
function largest(s: usize, n: usize): f32 {
  for (let i = n; i & 15; i++) store<f32>(s + 4 * i, LOWEST);
  let a = f32x4.splat(LOWEST), b = a, c = a, d = a;
  for (let i: usize = 0; i < n << 2; i += 64) {
    a = f32x4.pmax(a, v128.load(s + i));
    b = f32x4.pmax(b, v128.load(s + i, 16));
    c = f32x4.pmax(c, v128.load(s + i, 32));
    d = f32x4.pmax(d, v128.load(s + i, 48));
  }
  return max4(f32x4.pmax(f32x4.pmax(a, b), f32x4.pmax(c, d)));
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

function scale4(p: usize, bytes: usize, by: f32): void {
  const f = f32x4.splat(by);
  for (let i: usize = 0; i < bytes; i += 16) v128.store(p + i, f32x4.mul(v128.load(p + i), f));
}

/** What a token sees of a KV head: slots [FIRST, END), in pieces of SIZE. Pieces depend on slots alone, not on threads. */
let FIRST: usize = 0, END: usize = 0, SIZE: usize = 0;

/**
 * Looks at a KV head, whose newest slot is the token's own, behind those in use, or at the first of its lists; gives the
 * number of its pieces.
 */
function look(cache: usize, kvHeads: usize, g: usize, position: u32, window: u32): usize {
  const lists = listsOf(cache);
  if (lists) {
    FIRST = 0;
    END = load<u32>(lists + 8 * (g * load<u32>(lists) / kvHeads), 4);
  } else {
    const n = slotsOf(cache, g);
    FIRST = firstSeen(cache, g, n, position, window);
    END = n + 1;
  }
  const count = END - FIRST, pieces = min2(PIECES, (count + WORTH - 1) / WORTH);
  SIZE = ((count + pieces - 1) / pieces + 3) & ~3;
  return (count + SIZE - 1) / SIZE;
}

/** Pieces of one token's attention in all. */
export function tokenPieces(cache: usize, kvHeads: usize, position: u32, window: u32): usize {
  let pieces: usize = 0;
  for (let g: usize = 0; g < kvHeads; g++) pieces += look(cache, kvHeads, g, position, window);
  return pieces;
}

/** Scores of a query with the keys of m slots. */
function dotsAt(q: usize, row: usize, keys: usize, slots: usize, m: usize, out: usize): void {
  let j: usize = 0;
  for (; j + 4 <= m; j += 4, slots += 16, out += 16) {
    const p0 = keys + row * <usize>load<u32>(slots), p1 = keys + row * <usize>load<u32>(slots, 4), p2 = keys + row * <usize>load<u32>(slots, 8), p3 = keys + row * <usize>load<u32>(slots, 12);
    let a0 = f32x4.splat(0), a1 = a0, a2 = a0, a3 = a0;
    for (let i: usize = 0; i < row; i += 16) {
      const x = v128.load(q + i);
      a0 = fma(x, v128.load(p0 + i), a0); a1 = fma(x, v128.load(p1 + i), a1); a2 = fma(x, v128.load(p2 + i), a2); a3 = fma(x, v128.load(p3 + i), a3);
    }
    v128.store(out, across(a0, a1, a2, a3));
  }
  for (; j < m; j++, slots += 4, out += 4) {
    const p = keys + row * <usize>load<u32>(slots);
    let a = f32x4.splat(0);
    for (let i: usize = 0; i < row; i += 16) a = fma(v128.load(q + i), v128.load(p + i), a);
    store<f32>(out, sum4(a));
  }
}

/** out += weights of the values of m slots. */
function mixAt(p: usize, values: usize, row: usize, slots: usize, m: usize, out: usize): void {
  let i: usize = 0;
  for (; i + 64 <= row; i += 64, out += 64) {
    let a0 = v128.load(out), a1 = v128.load(out, 16), a2 = v128.load(out, 32), a3 = v128.load(out, 48);
    for (let j: usize = 0; j < m << 2; j += 4) {
      const at = values + i + row * <usize>load<u32>(slots + j), x = v128.load32_splat(p + j);
      a0 = fma(x, v128.load(at), a0); a1 = fma(x, v128.load(at, 16), a1); a2 = fma(x, v128.load(at, 32), a2); a3 = fma(x, v128.load(at, 48), a3);
    }
    v128.store(out, a0); v128.store(out, a1, 16); v128.store(out, a2, 32); v128.store(out, a3, 48);
  }
  for (; i < row; i += 16, out += 16) {
    let a = v128.load(out);
    for (let j: usize = 0; j < m << 2; j += 4) a = fma(v128.load32_splat(p + j), v128.load(values + i + row * <usize>load<u32>(slots + j)), a);
    v128.store(out, a);
  }
}

/**
 * Brings the rows of m slots near: copies them to `room`, unless they lie one behind the other; gives where they lie. One
 * head alone reads them where they are, which gives 0.
 */
function bring(slots: usize, m: usize, from: usize, row: usize, room: usize, alone: bool): usize {
  const first = <usize>load<u32>(slots);
  if (<usize>load<u32>(slots + 4 * (m - 1)) - first == m - 1) {
    fetch(from + first * row, m * row);
    return from + first * row;
  }
  if (alone) {
    for (let i: usize = 0; i < m << 2; i += 4) fetch(from + row * <usize>load<u32>(slots + i), row);
    return 0;
  }
  gather(from, room, row, slots, m);
  return room;
}

/** The first of n ascending slots that is not below one. */
function notBelow(slots: usize, n: usize, least: u32): usize {
  let low: usize = 0, high = n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (load<u32>(slots + 4 * middle) < least) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Puts the scores of slots [s, s + count), or of those that a list has there, where a head's scores by slot are. */
function scatter(line: usize, count: usize, slots: usize, s: usize, to: usize): void {
  if (slots == 0) memory.copy(to + 4 * s, line, 4 * count);
  else for (let j = 4 * s, end = 4 * (s + count); j < end; j += 4, line += 4) store<f32>(to + 4 * <usize>load<u32>(slots + j), load<f32>(line));
}

/** Hides slots [from, to) of `group` heads' scores by slot. */
function hideAll(shares: usize, stride: usize, group: usize, from: usize, to: usize): void {
  for (let h: usize = 0; h < group; h++) for (let i = shares + 4 * (h * stride + from), end = shares + 4 * (h * stride + to); i < end; i += 4) store<f32>(i, LOWEST);
}

/** Hides the scores of slots [s, s + count) that are not in a list of n slots; gives how many are. */
function hideUnlisted(line: usize, s: usize, count: usize, slots: usize, n: usize): usize {
  let i = notBelow(slots, n, <u32>s), j: usize = 0;
  const first = i;
  for (; j < count; j++) {
    const next = i < n ? min2(<usize>load<u32>(slots + 4 * i) - s, count) : count;
    for (; j < next; j++) store<f32>(line + 4 * j, LOWEST);
    if (j < count) i++;
  }
  return i - first;
}

/** Scales of m rows: where they lie, or, of rows that do not lie one behind the other, copied to `room`. */
function scalesNear(slots: usize, m: usize, from: usize, each: usize, room: usize): usize {
  const first = <usize>load<u32>(slots);
  if (<usize>load<u32>(slots + 4 * (m - 1)) - first == m - 1) return from + each * first;
  gather(from, room, each, slots, m);
  return room;
}

/**
 * Brings m rows of `each` bytes near: those that `some` lists, or, if that is 0, those from row `first` on; gives where they
 * lie. 0: one head alone reads listed rows where they are.
 */
function rowsNear(rows: usize, each: usize, some: usize, first: usize, m: usize, room: usize, alone: bool): usize {
  if (some) return bring(some, m, rows, each, room, alone);
  fetch(rows + first * each, m * each);
  return rows + first * each;
}

/** Like `rowsNear`, for rows of any form, as f32. */
function numbersNear(form: u32, codes: usize, scales: usize, some: usize, first: usize, m: usize, d: usize, room: usize, alone: bool): usize {
  const each = codeBytes(form, d);
  if (form == F32) return rowsNear(codes, each, some, first, m, room, alone);
  if (some) decodeAt(form, codes, scales, some, m, d, room);
  else {
    fetch(codes + first * each, m * each);
    decode(form, codes + first * each, scales + first * scaleBytes(form, d), m, d, room);
  }
  return room;
}

/** Scores of m slots, from slot `first` on or as `some` lists them (0: they are not listed), for a group's queries. */
function scoreNear(some: usize, first: usize, m: usize, group: usize, d: usize, q: usize, q16: usize, room: usize, scales: usize, out: usize): void {
  const row = d << 2;
  if (meetsCodes(KEY_FORM, d)) {
    const key = rowsNear(KEYS, d, some, first, m, room, false), by = some ? scalesNear(some, m, KEY_SCALES, 4, scales) : KEY_SCALES + 4 * first;
    scoreCodes(group, q16, q16 + 2 * group * d, key, by, m, d, out, 4 * HELD);
    return;
  }
  const key = numbersNear(KEY_FORM, KEYS, KEY_SCALES, some, first, m, d, room, group == 1);
  if (key == 0) {
    dotsAt(q, row, KEYS, some, m, out);
    return;
  }
  let h: usize = 0;
  for (; h + 3 <= group && group != h + 4; h += 3) dots3(q + h * row, row, key, m, out + 4 * h * HELD, 4 * HELD);
  for (; h + 2 <= group; h += 2) dots2(q + h * row, row, key, m, out + 4 * h * HELD, 4 * HELD);
  if (h < group) dots1(q + h * row, row, key, m, out + 4 * h * HELD, 4 * HELD);
}

/** Adds weighted values of m slots to the parts of a group: weights at `weights`, or in 16 bits at `w16`. */
function mixNear(some: usize, first: usize, m: usize, group: usize, d: usize, weights: usize, w16: usize, units: usize, room: usize, out: usize): void {
  const row = d << 2, record = recordBytes(d), blocks = blocksOf(d);
  if (meetsNibbles(VALUE_FORM)) {
    mixBlocks(group, w16, 2 * blocks * HELD, 2 * HELD, units, 8 * blocks, rowsNear(VALUES, d >> 1, some, first, m, room, false), m, d, out, record);
    return;
  }
  if (meetsCodes(VALUE_FORM, d)) {
    mixCodes(group, w16, 2 * HELD, units, rowsNear(VALUES, d, some, first, m, room, false), m, d, out, record);
    return;
  }
  const value = numbersNear(VALUE_FORM, VALUES, VALUE_SCALES, some, first, m, d, room, group == 1);
  if (value == 0) {
    mixAt(weights, VALUES, row, some, m, out);
    return;
  }
  let h: usize = 0;
  for (; h + 3 <= group && group != h + 4; h += 3) mix3(weights + 4 * h * HELD, 4 * HELD, value, row, m, out + h * record, record);
  for (; h + 2 <= group; h += 2) mix2(weights + 4 * h * HELD, 4 * HELD, value, row, m, out + h * record, record);
  if (h < group) mix1(weights + 4 * h * HELD, 4 * HELD, value, row, m, out + h * record, record);
}

/**
 * Adds to the parts of `group` query heads, with queries at q, what they see: slots [from, to) of the KV head, of those
 * the ones of the heads' own lists if there are entries `own`; or those of one list. `most`: query heads that scratch is
 * for.
 */
function attendSlots(slots: usize, from: usize, to: usize, group: usize, most: usize, d: usize, q: usize, scale: f32, cap: f32, part: usize, scratch: usize, shares: usize, stride: usize, own: usize = 0): void {
  const row = d << 2, record = recordBytes(d), room = scratch + 4 * most * HELD, scales = scratch + scalesAt(most, d);
  const codes = meetsCodes(VALUE_FORM, d), nibbles = meetsNibbles(VALUE_FORM), blocks = nibbles ? blocksOf(d) : 1;
  const q16 = scratch + wholesAt(most, d), w16 = q16 + 2 * group * d + 4 * ((group + 3) & ~3), units = w16 + 2 * group * blocks * HELD, products = units + 8 * group * blocks;
  if (meetsCodes(KEY_FORM, d)) queries16(q, group, d, q16, q16 + 2 * group * d);
  for (let s = from; s < to; s += HELD) {
    const count = min2(HELD, to - s);
    for (let near: usize = 0; near < count; near += NEAR)
      scoreNear(slots ? slots + 4 * (s + near) : 0, s + near, min2(NEAR, count - near), group, d, q, q16, room, scales, scratch + 4 * near);
    const each = scaleBytes(VALUE_FORM, d), by = !codes && !nibbles ? 0 : slots ? scalesNear(slots + 4 * s, count, VALUE_SCALES, each, scales) : VALUE_SCALES + each * s;
    for (let h: usize = 0; h < group; h++) {
      const line = scratch + 4 * h * HELD, p = part + h * record, before = load<f32>(p);
      capped(line, count, scale, cap);
      if (BIASES) biased(line, BIASES, slots ? slots + 4 * s : 0, s, count);
      const unseen = own != 0 && hideUnlisted(line, s, count, load<u32>(own + 8 * h, 4), load<u32>(own + 8 * h)) == 0;
      if (shares) scatter(line, count, slots, s, shares + 4 * h * stride);
      if (unseen) memory.fill(line, 0, 4 * count);
      else {
        const top = max(before, largest(line, count)), sum = powers(line, count, top);
        if (before == LOWEST) store<f32>(p, sum, 4);
        else {
          const shrunk = exp1(before - top);
          store<f32>(p, load<f32>(p, 4) * shrunk + sum, 4);
          if (shrunk != 1) scale4(p + 16, row, shrunk);
        }
        store<f32>(p, top);
      }
      if (codes) store<f32>(units + 4 * h, weights16(line, by, count, w16 + 2 * h * HELD));
      if (nibbles) {
        weightsOfBlocks(line, by, count, d, w16 + 2 * h * blocks * HELD, 2 * HELD, units + 8 * h * blocks, products);
        addLows(units + 8 * h * blocks + 4 * blocks, d, p + 16);
      }
    }
    for (let near: usize = 0; near < count; near += NEAR)
      mixNear(slots ? slots + 4 * (s + near) : 0, s + near, min2(NEAR, count - near), group, d, scratch + 4 * near, w16 + 2 * near, units, room, part + 16);
  }
}

/**
 * The attention of one token, whose key and value are put behind the slots in use (listed ones hold them already): pieces
 * of it, as they are claimed.
 * q `[H, d]`, k and v `[G, d]`. Unless `shares` is 0, the score of every slot that is seen goes there, `[H, stride]`.
 */
export function attendToken(cache: usize, heads: usize, kvHeads: usize, d: usize, q: usize, k: usize, v: usize, scale: f32, cap: f32, window: u32, sinks: usize, position: u32, parts: usize, scratch: usize, shares: usize, stride: usize): void {
  const pieces = tokenPieces(cache, kvHeads, position, window);
  for (let piece = claim(<i32>pieces); piece >= 0; piece = claim(<i32>pieces))
    attendPiece(<usize>piece, cache, heads, kvHeads, d, q, k, v, scale, cap, window, sinks, position, parts, scratch, shares, stride);
}

/** One of the pieces. Where query heads have lists of their own, it is what all of a group see from one slot to another. */
export function attendPiece(piece: usize, cache: usize, heads: usize, kvHeads: usize, d: usize, q: usize, k: usize, v: usize, scale: f32, cap: f32, window: u32, sinks: usize, position: u32, parts: usize, scratch: usize, shares: usize, stride: usize): void {
  const group = heads / kvHeads, row = d << 2, record = recordBytes(d), lists = listsOf(cache);
  let g: usize = 0, index = piece;
  for (let count = look(cache, kvHeads, 0, position, window); index >= count; count = look(cache, kvHeads, ++g, position, window)) index -= count;
  const from = FIRST + index * SIZE, to = min2(from + SIZE, END), part = parts + (g * PIECES + index) * group * record;
  const qg = q + g * group * row;
  open(cache, g, d);
  const sunk: usize = index == 0 ? sinks : 0, kept: usize = shares ? shares + 4 * g * group * stride : 0; // a sink counts once
  for (let h: usize = 0; h < group; h++) {
    store<f32>(part + h * record, topFrom(sunk, g * group + h));
    store<f32>(part + h * record, sumFrom(sunk), 4);
    memory.fill(part + h * record + 8, 0, record - 8);
  }
  if (lists == 0) {
    if (to == END) put(to - 1, d, k + g * row, 0, v + g * row, 0, 1);
    attendSlots(0, from, to, group, group, d, qg, scale, cap, part, scratch, kept, stride);
    return;
  }
  const each = <usize>load<u32>(lists) / kvHeads, list = lists + 8 * g * each + 4, first = <usize>load<u32>(list, 4), last = to == END;
  const low = from == 0 ? 0 : load<u32>(first + 4 * from), high = last ? 0 : load<u32>(first + 4 * to);
  // of its part of the slots, those that no list has are scored as unseen
  if (kept) hideAll(kept, stride, group, low, last ? slotsOf(cache, g) + 1 : high);
  if (each == 1) {
    attendSlots(first, from, to, group, group, d, qg, scale, cap, part, scratch, kept, stride);
    return;
  }
  let shown: usize = 0, least: usize = usize.MAX_VALUE, most: usize = 0;
  for (let h: usize = 0; h < group; h++) {
    const entry = list + 8 * h, n = <usize>load<u32>(entry), slots = <usize>load<u32>(entry, 4);
    const begin = notBelow(slots, n, low), end = last ? n : notBelow(slots, n, high);
    if (begin >= end) continue;
    shown += end - begin;
    least = min2(least, load<u32>(slots + 4 * begin));
    most = max<usize>(most, load<u32>(slots + 4 * end - 4) + 1);
  }
  // heads that see most slots share their rows
  if ((shown << 1) > (group + 1) * (most - least)) {
    attendSlots(0, least, most, group, group, d, qg, scale, cap, part, scratch, kept, stride, list);
    return;
  }
  for (let h: usize = 0; h < group; h++) {
    const entry = list + 8 * h, n = <usize>load<u32>(entry), slots = <usize>load<u32>(entry, 4);
    const begin = notBelow(slots, n, low), end = last ? n : notBelow(slots, n, high);
    if (begin < end) attendSlots(slots, begin, end, 1, group, d, qg + h * row, scale, cap, part + h * record, scratch, kept ? kept + 4 * h * stride : 0, stride);
  }
}

/** out = (more ? out : 0) + x times f, of `row` bytes. */
// @ts-ignore: decorator
@inline
function addTo(out: usize, x: usize, row: usize, f: f32, more: bool): void {
  const by = f32x4.splat(f);
  for (let j: usize = 0; j < row; j += 16) {
    const y = f32x4.mul(v128.load(x + j), by);
    v128.store(out + j, more ? f32x4.add(v128.load(out + j), y) : y);
  }
}

/**
 * out `[H, d]` of what all pieces left, and of a term; where scores were kept in `shares`, a thread's part of them becomes
 * softmax weights among slots, 0 for those that the token does not see; all of them where it joins `alone`.
 */
export function joinToken(cache: usize, heads: usize, kvHeads: usize, d: usize, window: u32, position: u32, parts: usize, out: usize, shares: usize, stride: usize, alone: bool): void {
  const group = heads / kvHeads, row = d << 2, record = recordBytes(d), terms = termOf(cache);
  for (let g: usize = 0; g < kvHeads; g++) {
    const pieces = look(cache, kvHeads, g, position, window);
    for (let h: usize = 0; h < group; h++, out += row) {
      const p = parts + (g * PIECES * group + h) * record, step = group * record, head = g * group + h;
      let top = LOWEST, sum: f32 = 0;
      for (let i: usize = 0; i < pieces; i++) top = max(top, load<f32>(p + i * step));
      for (let i: usize = 0; i < pieces; i++) sum += load<f32>(p + i * step, 4) * exp1(load<f32>(p + i * step) - top);
      const term = terms + head * (16 + row);
      let most = top, all = sum;
      if (terms) {
        most = max(top, load<f32>(term));
        all = sum * exp1(top - most) + exp1(load<f32>(term) - most);
      }
      for (let i: usize = 0; i < pieces; i++)
        addTo(out, p + i * step + 16, row, exp1(load<f32>(p + i * step) - most) / all, i > 0);
      if (terms) addTo(out, term + 16, row, exp1(load<f32>(term) - most) / all, true);
      if (shares && (alone || <i32>(head % <usize>THREADS) == ME)) {
        const s = shares + 4 * head * stride, end = slotsOf(cache, g) + 1;
        memory.fill(s, 0, 4 * FIRST);
        powers(s + 4 * FIRST, end - FIRST, top);
        scale4(s + 4 * FIRST, (end - FIRST) << 2, 1 / sum);
      }
    }
  }
}

// ---- blocks of tokens

/** Eight rows (those behind `left` as zeros) to `[d][8]`. */
export function transpose(from: usize, row: usize, left: usize, to: usize): void {
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

/** Keys of 8 slots side by side are panels `[ceil(n / 8)][d][8]`. C `[m, n]` = (more ? C : 0) + A `[m, k]` B, m a multiple of 4, n of 8; B's columns in eights, `panel` bytes apart, rows `ldb`. */
export function gemm(m: usize, n: usize, k: usize, a: usize, lda: usize, b: usize, ldb: usize, panel: usize, c: usize, ldc: usize, more: bool): void {
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
/** Bytes between rows of scores. */
const LINE: usize = 4 * (SLOTS + 16);

/** Bytes of scratch for `attendRows`: queries and outputs `[ROWS, d]`, scores, maxima, sums, and weights in 8 bits. */
export function rowsScratch(d: usize): usize {
  return ROWS * (8 * ((d + 31) & ~31) + LINE + 12) + (ROWS / 16) * (SLOTS / 32) * UNPACKED;
}

/**
 * Whether attention in 8 bits pays: keys lie as weights, which queries meet; softmax weights lie as weights too, and
 * values meet them.
 */
export function eights(d: usize): bool {
  return FORM == 2 && WIDE != 0 && (d & 31) == 0;
}

/** Bytes of keys and values packed for `attendRows`, of n slots of a KV head; `decoded`: values are not stored as f32. */
export function packedBytes(eight: bool, d: usize, n: usize, decoded: bool): usize {
  if (eight) return slots32(n) * ((d / 16) * UNPACKED + (d / 4) * FOUR_VALUES);
  return ((n + 7) & ~7) * d * (decoded ? 8 : 4);
}

/** Bytes of 32 slots' values, four numbers of each: codes, then what stands beside them. */
const FOUR_VALUES: usize = 128 + 4 * META;

// @ts-ignore: decorator
@inline
function slots32(n: usize): usize {
  return (n + 31) / 32;
}

/** Slots that are packed at a time. */
const PACKED: usize = 64;

/** Bytes of scratch for `packCache`: a mean key, 32 numbers, and rows that are decoded. */
export function packScratch(d: usize): usize {
  return 4 * (d + 32 + PACKED * d);
}

/**
 * Packs a layer's keys (and in 8 bits values), once m rows have joined them: 64 slots at a time, as they are claimed.
 * In 8 bits a mean key is taken off, which changes every score of a query by as much and no weight (unless `whole`: there
 * is a soft cap, or a sink that stays): what all keys share would coarsen them (Zhang et al. 2024, arXiv:2410.02367, section 4.2).
 */
export function packCache(eight: bool, cache: usize, kvHeads: usize, d: usize, m: usize, whole: bool, packed: usize, scratch: usize): void {
  const row = d << 2, room = scratch + row + 128, decoded = valueFormOf(cache) != F32;
  let pieces: usize = 0;
  for (let g: usize = 0; g < kvHeads; g++) pieces += (slotsOf(cache, g) + m + PACKED - 1) / PACKED;
  for (let piece = claim(<i32>pieces); piece >= 0; piece = claim(<i32>pieces)) {
    let g: usize = 0, index = <usize>piece, at = packed;
    for (; ; g++) {
      const n = slotsOf(cache, g) + m, count = (n + PACKED - 1) / PACKED;
      if (index < count) break;
      index -= count;
      at += packedBytes(eight, d, n, decoded);
    }
    open(cache, g, d);
    const n = slotsOf(cache, g) + m, first = index * PACKED, count = min2(PACKED, n - first);
    if (eight) meanKey(d, n, whole, scratch, room);
    const keys = rowsFrom(KEY_FORM, KEYS, KEY_SCALES, first, count, d, room);
    for (let s: usize = 0; s < count; )
      if (eight) {
        if (FORM == 2) {
          const left = n - first - s, to = at + ((first + s) / 16) * (d / 32) * UNPACKED;
          keys8(keys + s * row, d, left, to, scratch);
          keys8(keys + (s + 16) * row, d, left > 16 ? left - 16 : 0, to + (d / 32) * UNPACKED, scratch);
        }
        s += 32;
      } else {
        transpose(keys + s * row, row, n - first - s, at + (first + s) * row);
        s += 8;
      }
    if (!eight) {
      if (decoded) rowsFrom(VALUE_FORM, VALUES, VALUE_SCALES, first, count, d, at + ((n + 7) & ~7) * row + first * row);
      continue;
    }
    const values = rowsFrom(VALUE_FORM, VALUES, VALUE_SCALES, first, count, d, room), half = at + slots32(n) * (d / 16) * UNPACKED;
    if (FORM == 2) for (let s: usize = 0; s < count; s += 32) values8(values + s * row, d, n - first - s, half, (first + s) / 32, slots32(n));
  }
}

/** Where n rows from one on lie as f32: in the cache, or decoded to `room`. */
// @ts-ignore: decorator
@inline
function rowsFrom(form: u32, codes: usize, scales: usize, first: usize, n: usize, d: usize, room: usize): usize {
  if (form == F32) return codes + first * (d << 2);
  decode(form, codes + first * codeBytes(form, d), scales + first * scaleBytes(form, d), n, d, room);
  return room;
}

/** The mean of up to 64 keys from all over a KV head; zeros where it must not be taken off. */
function meanKey(d: usize, n: usize, whole: bool, mean: usize, room: usize): void {
  const some = min2(64, n), row = d << 2;
  memory.fill(mean, 0, row);
  if (whole) return;
  for (let j: usize = 0; j < some; j++) {
    const key = rowsFrom(KEY_FORM, KEYS, KEY_SCALES, (j * n) / some, 1, d, room);
    for (let i: usize = 0; i < row; i += 16) v128.store(mean + i, f32x4.add(v128.load(mean + i), v128.load(key + i)));
  }
  scale4(mean, row, 1 / <f32>some);
}

/** 16 keys less their mean as a panel: as `unpack` leaves weights of 8 bits; those behind `left` are zeros. */
function keys8(from: usize, d: usize, left: usize, to: usize, mean: usize): void {
  const less = mean + (d << 2);
  for (let block: usize = 0; block < d; block += 32, from += 128, mean += 128, to += UNPACKED) {
    for (let r: usize = 0; r < 16; r++) {
      const scale = to + CODES + 4 * r, key = from + r * (d << 2);
      if (r < left) {
        for (let i: usize = 0; i < 128; i += 16) v128.store(less + i, f32x4.sub(v128.load(key + i), v128.load(mean + i)));
        store<f32>(scale, quantised32(less, to + 4 * r, 64));
      } else {
        store<f32>(scale, 0);
        for (let q: usize = 0; q < 8; q++) store<u32>(to + 64 * q + 4 * r, 0);
      }
    }
    const flipped = flip();
    for (let i: usize = 0; i < 512; i += 16) v128.store(to + i, v128.xor(v128.load(to + i), flipped));
  }
}

/**
 * 32 values as rows in fours: number i of all of them is a row, four such side by side, codes of all `blocks` blocks
 * and then what stands beside them.
 */
function values8(from: usize, d: usize, left: usize, to: usize, block: usize, blocks: usize): void {
  const row = d << 2, n = min2(32, left), low = i32x4.splat(255);
  for (let i: usize = 0; i < row; i += 16, to += blocks * FOUR_VALUES) {
    const v = from + i, codes = to + 128 * block, beside = to + 128 * blocks + 4 * META * block;
    let top = f32x4.splat(0);
    for (let s: usize = 0; s < n; s++) top = larger(top, f32x4.abs(v128.load(v + s * row)));
    const inverse = f32x4.div(f32x4.splat(127), larger(top, f32x4.splat(1e-30))), scales = f32x4.div(top, f32x4.splat(127));
    for (let q: usize = 0; q < 8; q++) {
      let four = i32x4.splat(0);
      for (let k: usize = 0; k < 4; k++) {
        const s = (q << 2) + k;
        if (s >= n) break;
        const code = wholes(f32x4.mul(v128.load(v + s * row), inverse));
        four = v128.or(four, i32x4.shl(v128.and(code, low), <i32>(8 * k)));
      }
      v128.store(codes + 16 * q, four);
    }
    const zero = f32x4.splat(0);
    v128.store(beside, f32x4.replace_lane(zero, 0, f32x4.extract_lane(scales, 0)));
    v128.store(beside, f32x4.replace_lane(zero, 0, f32x4.extract_lane(scales, 1)), 16);
    v128.store(beside, f32x4.replace_lane(zero, 0, f32x4.extract_lane(scales, 2)), 32);
    v128.store(beside, f32x4.replace_lane(zero, 0, f32x4.extract_lane(scales, 3)), 48);
  }
}

/** Scores of a block of rows with slots [s, s + even). */
// @ts-ignore: decorator
@inline
function scores(eight: bool, tall: usize, even: usize, d: usize, qs: usize, keys: usize, s: usize, ss: usize): void {
  if (eight) {
    if (FORM != 2) return;
    const blocks = d / 32, panel = blocks * UNPACKED, meta = qs + ROWS * d;
    for (let p: usize = 0; p < even; p += 16) {
      const w = keys + ((s + p) / 16) * panel;
      tilesOf8(w, blocks, zero8(), qs, d, meta, META * blocks, ss + 4 * p, LINE, tall, false);
      tilesOf8(w + 32, blocks, zero8(), qs, d, meta, META * blocks, ss + 4 * p + 32, LINE, tall, false);
    }
  } else gemm(tall, even, d, qs, 4 * ((d + 7) & ~7), keys + s * (d << 2), 32, 32 * d, ss, LINE, false);
}

/** What is made of weights: `kinds` of src/wasm/sums.ts. */
const SUM: u32 = 0, MAX: u32 = 1, SQUARES: u32 = 2, VOTES: u32 = 3, NORMALIZED: u32 = 4, ENTROPY: u32 = 5;

/** Row of a block from which on one of its sums counts, and what it makes of weights. `sums`: how many, then both of each. */
// @ts-ignore: decorator
@inline
function sinceOf(sums: usize, i: usize): usize {
  return load<u32>(sums + 8 * i, 4);
}
// @ts-ignore: decorator
@inline
function kindOf(sums: usize, i: usize): u32 {
  return load<u32>(sums + 8 * i, 8);
}

/** The first row that something is counted of. */
function firstCounted(sums: usize): usize {
  let first: usize = sinceOf(sums, 0);
  for (let i: usize = 1; i < <usize>load<u32>(sums); i++) first = min2(first, sinceOf(sums, i));
  return first;
}

/**
 * Attention of m rows whose keys and values have joined the cache: pieces of 32 rows of a query head.
 * q `[m, H * d]` at ldq, out the same at ldo; positions [position, position + m). Unless `shares` is 0, what `sums` says
 * of the rows' weights for every slot goes there, `[sums, H, stride]`, and rows that count are one piece a query head.
 */
export function attendRows(eight: bool, cache: usize, heads: usize, kvHeads: usize, d: usize, m: usize, q: usize, ldq: usize, scale: f32, cap: f32, window: u32, sinks: usize, position: u32, packed: usize, out: usize, ldo: usize, scratch: usize, shares: usize, stride: usize, sums: usize): void {
  const blocks = (m + ROWS - 1) / ROWS, plain = shares ? min2(blocks, firstCounted(sums) / ROWS) : blocks, whole = shares ? heads : 0;
  const pieces = <i32>(whole + plain * heads);
  for (let piece = claim(pieces); piece >= 0; piece = claim(pieces)) {
    if (<usize>piece < whole) {
      const h = <usize>piece;
      for (let i: usize = 0; i < <usize>load<u32>(sums); i++) memory.fill(shares + 4 * (i * heads + h) * stride, 0, 4 * stride);
      for (let block = plain; block < blocks; block++)
        rowsOf(eight, cache, heads, kvHeads, d, m, q, ldq, scale, cap, window, sinks, position, packed, out, ldo, scratch, shares, stride, sums, block, h);
      continue;
    }
    // the last rows see most: they come first
    const index = <usize>piece - whole, block = plain - 1 - index / heads, h = index % heads;
    rowsOf(eight, cache, heads, kvHeads, d, m, q, ldq, scale, cap, window, sinks, position, packed, out, ldo, scratch, 0, 0, 0, block, h);
  }
}

function rowsOf(eight: bool, cache: usize, heads: usize, kvHeads: usize, d: usize, m: usize, q: usize, ldq: usize, scale: f32, cap: f32, window: u32, sinks: usize, position: u32, packed: usize, out: usize, ldo: usize, scratch: usize, shares: usize, stride: usize, sums: usize, block: usize, h: usize): void {
  const group = heads / kvHeads, row = d << 2, capacity = capacityOf(cache), g = h / group, ldw = ((d + 31) & ~31) << 2;
  const qs = scratch, os = qs + ROWS * ldw, ss = os + ROWS * ldw, tops = ss + ROWS * LINE, totals = tops + 4 * ROWS, factors = totals + 4 * ROWS;
  const weights = factors + 4 * ROWS, panel = (SLOTS / 32) * UNPACKED;
  const r0 = block * ROWS, count = min2(ROWS, m - r0), tall = (count + 3) & ~3, n = slotsOf(cache, g), all = n + m;
  let keys = packed;
  const decoded = valueFormOf(cache) != F32;
  for (let before: usize = 0; before < g; before++) keys += packedBytes(eight, d, slotsOf(cache, before) + m, decoded);
  const values = eight ? keys + slots32(all) * (d / 16) * UNPACKED : decoded ? keys + ((all + 7) & ~7) * row : valuesOf(cache) + g * capacity * row;
  const factor = f32x4.splat(cap == 0 ? scale : scale / cap);
  for (let r: usize = 0; r < tall; r++) {
    const from = q + (r0 + min2(r, count - 1)) * ldq + h * row, to = eight ? os : qs + r * 4 * ((d + 7) & ~7);
    for (let i: usize = 0; i < row; i += 16) v128.store(to + i, f32x4.mul(v128.load(from + i), factor));
    if (eight) quantise(os, d, qs + (r & ~3) * d + 4 * (r & 3), qs + ROWS * d + META * ((r & ~3) * (d / 32) + (r & 3)), 4);
    store<f32>(tops + 4 * r, topFrom(sinks, h));
    store<f32>(totals + 4 * r, sumFrom(sinks));
  }
  memory.fill(os, 0, ROWS * ldw);
  const end = n + r0 + count, start = firstSeen(cache, g, all, position + <u32>r0, window) & ~31;
  for (let s = seenFrom(cache, g, r0, count, start, end), next: usize = 0; s < end; s = next) {
    const slots = together(cache, g, r0, count, s, end), even = eight ? (slots + 31) & ~31 : (slots + 7) & ~7;
    next = seenFrom(cache, g, r0, count, s + slots, end);
    let raised = false;
    scores(eight, tall, even, d, qs, keys, s, ss);
    for (let r: usize = 0; r < count; r++) {
      const line = ss + r * LINE, before = load<f32>(tops + 4 * r);
      hide(line, cache, g, n, m, s, even, r0 + r, position, window, cap);
      const top = max(before, largest(line, even)), shrunk = exp1(before - top), sum = load<f32>(totals + 4 * r) * shrunk;
      store<f32>(tops + 4 * r, top);
      store<f32>(factors + 4 * r, shrunk);
      if (top != before) raised = true;
      if (eight) store<f32>(totals + 4 * r, sum + weigh8(line, even, top, weights + (r / 16) * panel, r & 15));
      else if (top == LOWEST) memory.fill(line, 0, 4 * even); // nothing is seen so far
      else store<f32>(totals + 4 * r, sum + powers(line, even, top));
    }
    if (eight) {
      if (FORM == 2) {
        const blocks = slots32(all), x = values + (s / 32) * 128, beside = values + 128 * blocks + (s / 32) * 4 * META, each = blocks * (FOUR_VALUES / 4);
        for (let r: usize = 0; r < count; r += 8) {
          if (raised) shrink8(os + 4 * r, d, factors + 4 * r);
          tilesOf8(weights + (r / 16) * panel + 4 * (r & 8), even / 32, 0, x, each, beside, each, os + 4 * r, 4 * ROWS, d, true);
        }
      }
    } else {
      for (let r: usize = 0; raised && r < count; r++) scale4(os + r * ldw, row, load<f32>(factors + 4 * r));
      for (let r = count; r < tall; r++) memory.fill(ss + r * LINE, 0, 4 * even);
      mixRows(tall, slots, ss, LINE, values + s * row, row, os, ldw);
    }
  }
  for (let r: usize = 0; r < count; r++) {
    const f: f32 = 1 / load<f32>(totals + 4 * r), to = out + (r0 + r) * ldo + h * row;
    if (eight) for (let i: usize = 0; i < d; i++) store<f32>(to + 4 * i, load<f32>(os + 4 * (i * ROWS + r)) * f);
    else for (let i: usize = 0; i < row; i += 16) v128.store(to + i, f32x4.mul(v128.load(os + r * ldw + i), f32x4.splat(f)));
  }
  if (!shares) return;
  // the weights once more, now that their sums are known
  const first = firstCounted(sums);
  for (let s = seenFrom(cache, g, r0, count, start, end), next: usize = 0; s < end; s = next) {
    const slots = together(cache, g, r0, count, s, end), even = eight ? (slots + 31) & ~31 : (slots + 7) & ~7;
    next = seenFrom(cache, g, r0, count, s + slots, end);
    scores(eight, tall, even, d, qs, keys, s, ss);
    for (let r: usize = first > r0 ? first - r0 : 0; r < count; r++) {
      const line = ss + r * LINE, top = load<f32>(tops + 4 * r), total = load<f32>(totals + 4 * r);
      hide(line, cache, g, n, m, s, even, r0 + r, position, window, cap);
      memory.copy(os, line, even << 2); // its outputs are away
      powers(line, even, top);
      const seen = <f32>(n + r0 + r + 1 - firstSeen(cache, g, all, position + <u32>(r0 + r), window));
      for (let i: usize = 0; i < <usize>load<u32>(sums); i++)
        if (r0 + r >= sinceOf(sums, i)) count4(kindOf(sums, i), line, os, even, top, total, seen, shares + 4 * ((i * heads + h) * stride + s));
    }
  }
}

/**
 * Adds what `kind` makes of weights e^(score - top) / total, of a query that sees so many slots, to the sums at `to`; or
 * takes the larger.
 */
function count4(kind: u32, powers: usize, scores: usize, n: usize, top: f32, total: f32, seen: f32, to: usize): void {
  const one = f32x4.splat(1), mean = f32x4.splat(1 / seen), f = f32x4.splat(kind == NORMALIZED ? (seen - 1) / total : 1 / total);
  const less = f32x4.splat(kind == ENTROPY ? top + log1(total) : 0);
  for (let i: usize = 0; i < n << 2; i += 16) {
    const e = v128.load(powers + i), sum = v128.load(to + i), a = f32x4.mul(e, f);
    let next = sum;
    if (kind == SUM || kind == NORMALIZED) next = fma(e, f, sum);
    else if (kind == MAX) next = f32x4.pmax(sum, a);
    else if (kind == SQUARES) next = fma(a, a, sum);
    else if (kind == VOTES) next = f32x4.add(sum, v128.and(f32x4.gt(a, mean), one));
    else next = f32x4.sub(sum, f32x4.mul(a, f32x4.sub(v128.load(scores + i), less)));
    v128.store(to + i, next);
  }
}

/** The natural logarithm of x > 0, normal. */
function log1(x: f32): f32 {
  const bits = reinterpret<u32>(x);
  let power = <f64>(<i32>(bits >> 23) - 127), part = <f64>reinterpret<f32>((bits & 0x7fffff) | 0x3f800000);
  if (part > 1.4142135623730951) {
    part *= 0.5;
    power += 1;
  }
  // ln((1 + t) / (1 - t)) = 2 (t + t³ / 3 + ...)
  const t = (part - 1) / (part + 1);
  let sum: f64 = 0;
  for (let i = 13; i > 0; i -= 2) sum = sum * t * t + 1 / <f64>i;
  return <f32>(power * 0.6931471805599453 + 2 * t * sum);
}

/** The largest weight as a code: all of a byte where the dot takes bytes as unsigned. */
// @ts-ignore: decorator
@inline
function most8(): f32 {
  return WIDE == 1 ? 255 : 127;
}
/** Its logarithm to base 2. */
// @ts-ignore: decorator
@inline
function codeBits(): f32 {
  return WIDE == 1 ? 7.994353436858858 : 6.988684686772166;
}

/**
 * Softmax weights of a row of scores, relative to `top`, as codes of output `lane` of a panel: blocks of 32 with a scale
 * each, which makes its largest weight the largest code. Leaves codes where the scores were; gives what they come to.
 */
function weigh8(line: usize, even: usize, top: f32, panel: usize, lane: usize): f32 {
  let sum: f32 = 0;
  for (let s: usize = 0; s < even << 2; s += 128, panel += UNPACKED) {
    const p = line + s, to = panel + 4 * lane;
    let a = f32x4.pmax(v128.load(p), v128.load(p, 16)), b = f32x4.pmax(v128.load(p, 32), v128.load(p, 48));
    a = f32x4.pmax(a, f32x4.pmax(v128.load(p, 64), v128.load(p, 80)));
    b = f32x4.pmax(b, f32x4.pmax(v128.load(p, 96), v128.load(p, 112)));
    const highest = max4(f32x4.pmax(a, b)), scale: f32 = highest == LOWEST ? 0 : exp1(highest - top) / most8();
    store<f32>(panel + CODES + 4 * lane, scale);
    const shift = f32x4.splat(codeBits() - highest * LOG2E);
    for (let i: usize = 0; i < 128; i += 32) {
      const a = codes4(v128.load(p + i), shift), b = codes4(v128.load(p + i, 16), shift);
      v128.store(p + i, a);
      v128.store(p + i, b, 16);
    }
    let count = i32x4.splat(0);
    for (let i: usize = 0; i < 128; i += 64) {
      const c0 = v128.load(p + i), c1 = v128.load(p + i, 16), c2 = v128.load(p + i, 32), c3 = v128.load(p + i, 48);
      count = i32x4.add(count, i32x4.add(i32x4.add(c0, c1), i32x4.add(c2, c3)));
      const v = i8x16.narrow_i16x8_u(i16x8.narrow_i32x4_s(c0, c1), i16x8.narrow_i32x4_s(c2, c3)), at = to + 4 * i;
      v128.store_lane<i32>(at, v, 0);
      v128.store_lane<i32>(at + 64, v, 1);
      v128.store_lane<i32>(at + 128, v, 2);
      v128.store_lane<i32>(at + 192, v, 3);
    }
    sum += scale * sum4(f32x4.convert_i32x4_s(count));
  }
  return sum;
}

/** Eight rows of outputs, side by side `[d][ROWS]`, times a factor each. */
function shrink8(o: usize, d: usize, factors: usize): void {
  const a = v128.load(factors), b = v128.load(factors, 16);
  for (let i: usize = 0; i < d; i++, o += 4 * ROWS) {
    v128.store(o, f32x4.mul(v128.load(o), a));
    v128.store(o, f32x4.mul(v128.load(o, 16), b), 16);
  }
}

/** Scores of slots [s, s + even) of row r, soft-capped and biased; LOWEST where the row does not see the slot. */
function hide(line: usize, cache: usize, g: usize, n: usize, m: usize, s: usize, even: usize, r: usize, position: u32, window: u32, cap: f32): void {
  if (cap != 0) for (let i: usize = 0; i < even << 2; i += 16) v128.store(line + i, f32x4.mul(tanh4(v128.load(line + i)), f32x4.splat(cap)));
  const seen = n + r + 1, to = seen > s ? min2(seen - s, even) : 0, biases = biasesOf(cache, g);
  if (biases) biased(line, biases, 0, s, to);
  for (let j = to; j < even; j++) store<f32>(line + 4 * j, LOWEST);
  const first = firstSeen(cache, g, n + m, position + <u32>r, window);
  for (let j: usize = 0; s + j < first && j < to; j++) store<f32>(line + 4 * j, LOWEST);
  const hidden = listsOf(cache);
  if (hidden == 0 || to == 0) return;
  const positions = positionsOf(cache, g) + 4 * s;
  for (let at = rangesOf(hidden, r), stop = rangesOf(hidden, r + 1); at < stop; at += 8) hideRange(line, positions, to, load<u32>(at), load<u32>(at, 4));
}

/** The ranges of positions that are hidden from row r. */
// @ts-ignore: decorator
@inline
function rangesOf(hidden: usize, r: usize): usize {
  return hidden + 4 + 8 * r * <usize>load<u32>(hidden);
}

/** Hides those of n slots whose positions, which ascend, lie in [from, until). */
function hideRange(line: usize, positions: usize, n: usize, from: u32, until: u32): void {
  if (from >= until || until <= load<u32>(positions) || from > load<u32>(positions + 4 * (n - 1))) return;
  const first = i32x4.splat(from), width = i32x4.splat(until - from), low = f32x4.splat(LOWEST);
  let j: usize = 0;
  for (; j + 4 <= n; j += 4) {
    const inside = i32x4.lt_u(i32x4.sub(v128.load(positions + 4 * j), first), width);
    v128.store(line + 4 * j, v128.bitselect(low, v128.load(line + 4 * j), inside));
  }
  for (; j < n; j++) if (load<u32>(positions + 4 * j) - from < until - from) store<f32>(line + 4 * j, LOWEST);
}

/** The first of slots s, s + 32, ... before `end` from which on a block of rows sees some of 32. */
function seenFrom(cache: usize, g: usize, r0: usize, count: usize, s: usize, end: usize): usize {
  const hidden = listsOf(cache);
  if (hidden) while (s < end && unseen(hidden, positionsOf(cache, g) + 4 * s, min2(32, end - s), r0, count)) s += 32;
  return s;
}

/** Slots from s on, before `end`, that a block of rows meets at once: it sees some of each 32. */
function together(cache: usize, g: usize, r0: usize, count: usize, s: usize, end: usize): usize {
  const to = s + min2(SLOTS, end - s);
  let next = listsOf(cache) ? s + 32 : to;
  while (next < to && seenFrom(cache, g, r0, count, next, to) == next) next += 32;
  return min2(next, to) - s;
}

/** Whether each of these rows has a range that hides all of n slots. */
function unseen(hidden: usize, positions: usize, n: usize, r0: usize, count: usize): bool {
  const first = load<u32>(positions), last = load<u32>(positions + 4 * (n - 1));
  for (let r = r0; r < r0 + count; r++) {
    let hides = false;
    for (let at = rangesOf(hidden, r), stop = rangesOf(hidden, r + 1); at < stop && !hides; at += 8) hides = load<u32>(at) <= first && last < load<u32>(at, 4);
    if (!hides) return false;
  }
  return true;
}

/** out `[m, d]` += weights `[m, n]` values `[n, d]`. */
export function mixRows(m: usize, n: usize, p: usize, ldp: usize, v: usize, row: usize, out: usize, ldo: usize): void {
  const even = row & ~31;
  gemm(m, even / 4, n, p, ldp, v, row, 32, out, ldo, true);
  if (even < row)
    for (let r: usize = 0; r < m; r++) {
      let a = v128.load(out + r * ldo + even);
      for (let j: usize = 0; j < n; j++) a = fma(v128.load32_splat(p + r * ldp + 4 * j), v128.load(v + j * row + even), a);
      v128.store(out + r * ldo + even, a);
    }
}
