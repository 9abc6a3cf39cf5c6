// @ts-nocheck: AssemblyScript, not TypeScript
// CIS inside a view. Rebuild: `node packages/cpu/scripts/build-kernel.mjs`.
// Own words: those of `optionOf`; then address and stride of cis.queries, cis.owners, cis.retrievals, cis.ago, cis.last and
// of each field of cis.sets.

import { all, border } from "../../../cpu/kernel/largest";
import { activeOf, addRead, bySlot, channelsOf, countOf, keysOf, kvHeadOf, lengthOf, listOf, positionOf, queryOf, scoresOf, slotsBelow, slotsOf, stepOf, strideOf, word } from "../../../cpu/kernel/view";

/** Retrievals that a field holds, two bits each. */
const PER_FIELD: u32 = 12;
/** Codes of a slot in a retrieval: 1 of the middle, and 2 of the strongest of it. */
const MIDDLE: f32 = 1, STRONG: f32 = 2;
/** Places of the options. The threshold takes two words, an f64; `strongest` left out is THIRD. */
const BLOCK = 0, THRESHOLD = 1, BY_KEYS = 3, DILATION = 4, STRONGEST = 5, SINKS = 6, LOCAL = 7, ANY = 8, STATES = 9;
const THIRD: usize = 0xffffffff;

/** Row h of a state. */
// @ts-ignore: decorator
@inline
function stateOf(own: usize, i: usize, h: usize): usize {
  return word(own, STATES + 2 * i) + 4 * h * word(own, STATES + 2 * i + 1);
}
// @ts-ignore: decorator
@inline
function queriesOf(own: usize, h: usize): usize { return stateOf(own, 0, h); }
// @ts-ignore: decorator
@inline
function ownersOf(own: usize, h: usize): usize { return stateOf(own, 1, h); }
// @ts-ignore: decorator
@inline
function retrievalsOf(own: usize, h: usize): usize { return stateOf(own, 2, h); }
// @ts-ignore: decorator
@inline
function agoOf(own: usize, h: usize): usize { return stateOf(own, 3, h); }
// @ts-ignore: decorator
@inline
function lastOf(own: usize, h: usize): usize { return stateOf(own, 4, h); }
// @ts-ignore: decorator
@inline
function fieldOf(own: usize, field: usize, h: usize): usize { return stateOf(own, 5 + field, h); }
/** The step of the block. */
// @ts-ignore: decorator
@inline
function nowOf(view: usize, own: usize): usize { return stepOf(view) % word(own, BLOCK); }
/** Whether a block begins: at its first step, and after tokens that were not seen. */
// @ts-ignore: decorator
@inline
function begins(view: usize, own: usize, h: usize): bool { return nowOf(view, own) == 0 || load<f32>(lastOf(own, h)) + 1 != <f32>lengthOf(view); }

/** What is compared of the newest token, f32 `[d]`. */
// @ts-ignore: decorator
@inline
function newestOf(view: usize, own: usize, h: usize, room: usize): usize {
  if (!word(own, BY_KEYS)) return queryOf(view, h);
  const g = kvHeadOf(view, h);
  return keysOf(view, g, slotsOf(view, g) - 1, 1, room);
}

/** Two f32 as f64. */
// @ts-ignore: decorator
@inline
function pair(at: usize): v128 { return f64x2.promote_low_f32x4(v128.load64_zero(at)); }
// @ts-ignore: decorator
@inline
function dot(x: usize, y: usize, d: usize): f64 {
  let a = f64x2.splat(0), b = a;
  for (let c: usize = 0; c < 4 * d; c += 16) {
    a = f64x2.add(a, f64x2.mul(pair(x + c), pair(y + c)));
    b = f64x2.add(b, f64x2.mul(pair(x + c + 8), pair(y + c + 8)));
  }
  const sum = f64x2.add(a, b);
  return f64x2.extract_lane(sum, 0) + f64x2.extract_lane(sum, 1);
}

/**
 * Finds the latest query of the block that the newest one is like, and leaves in cis.ago how long ago its set was
 * retrieved.
 */
export function before(view: usize, own: usize, h: usize, scratch: usize): void {
  const d = channelsOf(view), now = nowOf(view, own), newest = newestOf(view, own, h, scratch), past = queriesOf(own, h), owners = ownersOf(own, h), any = word(own, ANY) != 0;
  const threshold = load<f64>(own + 4 * THRESHOLD, 0, 4), own2 = dot(newest, newest, d);
  if (begins(view, own, h)) memory.fill(owners, 0, 4 * word(own, BLOCK));
  let found: usize = 0;
  for (let j = now; j > 0 && found == 0 && load<f32>(owners + 4 * (j - 1)) > 0; j--) {
    const query = past + 4 * (j - 1) * d, owner = <usize>load<f32>(owners + 4 * (j - 1));
    if ((any || owner == j) && dot(newest, query, d) > threshold * Math.sqrt(own2 * dot(query, query, d))) found = owner;
  }
  store<u32>(activeOf(view, h), u32(found == 0));
  store<f32>(agoOf(own, h), found == 0 ? 0 : <f32>(now + 1 - found));
  memory.copy(past + 4 * now * d, newest, 4 * d);
  store<f32>(owners + 4 * now, <f32>(found == 0 ? now + 1 : found));
  if (word(own, BY_KEYS)) addRead(view, h, d);
}

export function finish(view: usize, own: usize, h: usize, scratch: usize): void {
  if (load<u32>(activeOf(view, h))) remember(view, own, h, scratch);
  else reuse(view, own, h, scratch);
  store<f32>(lastOf(own, h), <f32>lengthOf(view));
}

/** Writes the codes of what a row has chosen into the field of this step. */
function remember(view: usize, own: usize, h: usize, scratch: usize): void {
  const now = nowOf(view, own), g = kvHeadOf(view, h), n = slotsOf(view, g), scores = scoresOf(view, h), sinks = slotsBelow(view, g, word(own, SINKS)), end = n - min<usize>(n, word(own, LOCAL));
  store<f32>(retrievalsOf(own, h), load<f32>(retrievalsOf(own, h)) + 1);
  if (begins(view, own, h))
    for (let f: usize = 0; f * PER_FIELD < word(own, BLOCK); f++) memory.fill(fieldOf(own, f, h), 0, 4 * lengthOf(view));
  let from = listOf(view, h), to = from + 4 * <usize>load<u32>(countOf(view, h));
  while (from < to && <usize>load<u32>(from) < sinks) from += 4;
  while (from < to && <usize>load<u32>(to - 4) >= end) to -= 4;
  const count = (to - from) >> 2, most = min<usize>(count, word(own, STRONGEST) == THIRD ? count / 3 : word(own, STRONGEST));
  const values = scratch, work = values + 4 * strideOf(view), left = work + 4 * strideOf(view);
  for (let i: usize = 0; i < count; i++) store<f32>(values + 4 * i, load<f32>(scores + 4 * <usize>load<u32>(from + 4 * i)));
  const least = most > 0 ? border(values, count, most, work, left) : <f32>Infinity;
  let equal: u32 = most > 0 ? load<u32>(left) : 0;
  const field = fieldOf(own, now / PER_FIELD, h), place = <f32>(1 << (2 * (<u32>now % PER_FIELD)));
  for (let i: usize = 0; i < count; i++) {
    const at = field + 4 * positionOf(view, g, <usize>load<u32>(from + 4 * i)), value = load<f32>(values + 4 * i), ties = value == least && equal > 0;
    equal -= u32(ties);
    store<f32>(at, load<f32>(at) + place * (value > least || ties ? STRONG : MIDDLE));
  }
}

/** Four numbers below 2^24 as bits; if all are below 2^23, in fewer steps and with other bits above theirs. */
// @ts-ignore: decorator
@inline
function bitsOf(at: usize, few: bool): v128 {
  return few ? f32x4.add(v128.load(at), f32x4.splat(8388608)) : i32x4.trunc_sat_f32x4_s(v128.load(at));
}
/** Which of 16 whole numbers have a bit of the mask. */
// @ts-ignore: decorator
@inline
function having(a: v128, b: v128, c: v128, d: v128, mask: v128): i32 {
  const zero = i32x4.splat(0), ab = i16x8.narrow_i32x4_s(i32x4.ne(v128.and(a, mask), zero), i32x4.ne(v128.and(b, mask), zero));
  const cd = i16x8.narrow_i32x4_s(i32x4.ne(v128.and(c, mask), zero), i32x4.ne(v128.and(d, mask), zero));
  return i8x16.bitmask(i8x16.narrow_i16x8_s(ab, cd));
}

/** Lists what a row retrieved `ago` steps before, with the neighbours of its strongest, sinks and the local window. */
function reuse(view: usize, own: usize, h: usize, scratch: usize): void {
  const g = kvHeadOf(view, h), n = slotsOf(view, g), list = listOf(view, h), dilation = word(own, DILATION), sinks = slotsBelow(view, g, word(own, SINKS)), local = n - min<usize>(n, word(own, LOCAL));
  const j = nowOf(view, own) - <usize>load<f32>(agoOf(own, h)), field = bySlot(view, g, fieldOf(own, j / PER_FIELD, h), scratch + 64), shift = 2 * (<i32>j % PER_FIELD);
  const code = i32x4.splat(3 << shift), strong = i32x4.splat(2 << shift), few = word(own, BLOCK) < PER_FIELD;
  let end = all(0, sinks, list), next = sinks; // slots below it are listed or stay out
  for (let i: usize = 0; i < n; i += 16) {
    let at = field + 4 * i;
    if (i + 16 > n) {
      memory.fill(scratch, 0, 64);
      memory.copy(scratch, at, 4 * (n - i));
      at = scratch;
    }
    const a = bitsOf(at, few), b = bitsOf(at + 16, few), c = bitsOf(at + 32, few), d = bitsOf(at + 48, few);
    let lanes = having(a, b, c, d, code);
    if (lanes == 0) continue;
    const wide = having(a, b, c, d, strong);
    for (; lanes != 0; lanes &= lanes - 1) {
      const lane = ctz(lanes), slot = i + <usize>lane;
      if ((wide >> lane) & 1) {
        const to = max<usize>(next, min<usize>(n, slot + dilation + 1));
        end = append(slot - min<usize>(slot, dilation), to, list, end, next);
        next = to;
      } else if (slot >= next) {
        store<u32>(end, <u32>slot);
        end += 4;
        next = slot + 1;
      }
    }
  }
  end = append(local, n, list, end, next);
  store<u32>(countOf(view, h), <u32>((end - list) >> 2));
}

/** Adds the slots [from, to) to an ascending list of slots below `next`, which is at most `to`; returns its end. */
// @ts-ignore: decorator
@inline
function append(from: usize, to: usize, list: usize, end: usize, next: usize): usize {
  if (from < next) while (end > list && <usize>load<u32>(end - 4) >= from) end -= 4;
  for (let i = from; i < to; i++, end += 4) store<u32>(end, <u32>i);
  return end;
}
