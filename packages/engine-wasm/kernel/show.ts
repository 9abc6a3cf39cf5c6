// @ts-nocheck: AssemblyScript, not TypeScript
// What a token sees under views: loops of pieces choose slots between its projections and its attention.
//
// A view's words, as cpu/kernel/view.ts names them, then this engine's own: how many loops; scratch of the first thread,
// and bytes of each; where the lists of attention go; how many ranges of slots bounds hide, and their first and end, of
// each KV head; the scales of the keys; and of each loop its own words, and where its functions lie in the table of functions, 0 where it has
// none. Without loops everything is shown that no range hides.

import { appendHead, slotsOf as slotsBefore } from "./attend";
import { activeOf, channelsOf, countOf, fail, groupOf, kvHeadOf, listOf, mostSlotsOf, readOf, slotsOf, word } from "./view";
import { codeBytes, decode, scaleBytes } from "./stored";
import { ME, barrier, claim } from "./team";

const QUERIES: usize = 6, LOOPS: usize = 26, SCRATCH_AT: usize = 27, SCRATCH_BYTES: usize = 28, LISTS: usize = 29, RANGES: usize = 30, RANGES_AT: usize = 31, KEY_SCALES: usize = 32, FIRST_LOOP: usize = 33;
/** Words of a loop: its own words, then its functions. */
const EACH: usize = 7, INDEX: usize = 1, BEFORE: usize = 2, SCORE: usize = 3, CHOOSE: usize = 4, FINISH: usize = 5, AFTER: usize = 6;

/** Slots whose scores are computed together, a multiple of 256. */
const SPAN: usize = 512;

/** Calls a function of every loop that has it. */
function each(view: usize, which: usize, row: usize): void {
  const scratch = word(view, SCRATCH_AT) + <usize>ME * word(view, SCRATCH_BYTES);
  for (let i: usize = 0, at = view + 4 * FIRST_LOOP; i < word(view, LOOPS); i++, at += 4 * EACH) {
    const run = load<u32>(at + 4 * which);
    if (run) call_indirect<void>(run, view, word(at, 0), row, scratch);
  }
}

/** Scores slots [from, to) for the active query heads of a KV head. */
function score(view: usize, g: usize, from: usize, to: usize): void {
  const scratch = word(view, SCRATCH_AT) + <usize>ME * word(view, SCRATCH_BYTES);
  for (let i: usize = 0, at = view + 4 * FIRST_LOOP; i < word(view, LOOPS); i++, at += 4 * EACH) {
    const run = load<u32>(at + 4 * SCORE);
    if (run) call_indirect<void>(run, view, word(at, 0), g, from, to, scratch);
  }
}

function has(view: usize, which: usize): bool {
  for (let i: usize = 0, at = view + 4 * FIRST_LOOP; i < word(view, LOOPS); i++, at += 4 * EACH) if (load<u32>(at + 4 * which)) return true;
  return false;
}

/** The most slots that a view of these rows chooses from. */
function longest(rows: usize, cache: usize, apart: usize): usize {
  let most: usize = 0;
  for (let r: usize = 0; r < rows; r++) {
    const view = viewOf(cache, apart, r);
    if (view != 0 && word(view, LOOPS) > 0) most = max<usize>(most, mostSlotsOf(view));
  }
  return most;
}

/** Whether a range hides a slot of a KV head. */
// @ts-ignore: decorator
@inline
function hidden(view: usize, g: usize, slot: u32): bool {
  const count = word(view, RANGES);
  for (let i: usize = 0, at = word(view, RANGES_AT) + 8 * g * count; i < count; i++, at += 8) if (slot >= load<u32>(at) && slot < load<u32>(at, 4)) return true;
  return false;
}

/** Puts a list of `count` slots of a row, its own among them, where attention reads it. */
function put(view: usize, row: usize, count: usize): void {
  const entry = word(view, LISTS) + 8 * row;
  store<u32>(entry, <u32>count, 4);
  store<u32>(entry, <u32>listOf(view, row), 8);
}

/** Whether `count` slots, at least one, ascend and are below n. */
function ascend(list: usize, count: usize, n: u32): bool {
  const last = list + 4 * count - 4;
  let pairs = i32x4.splat(-1), at = list;
  for (; at + 16 <= last; at += 16) pairs = v128.and(pairs, i32x4.lt_u(v128.load(at), v128.load(at, 4)));
  let good = i32x4.all_true(pairs) && load<u32>(last) < n;
  for (; at < last; at += 4) good = good && load<u32>(at) < load<u32>(at, 4);
  return good;
}

/** Ends the list of a query head: checks it, drops what ranges hide, adds the token's own slot. */
function end(view: usize, h: usize): void {
  const g = kvHeadOf(view, h), n = <u32>slotsOf(view, g), list = listOf(view, h), count = <usize>load<u32>(countOf(view, h));
  let to = list;
  if (count > <usize>n || (count > 0 && !ascend(list, count, n))) fail(view, h, true);
  else if (word(view, RANGES) > 0) {
    for (let at = list; at < list + 4 * count; at += 4) {
      const slot = load<u32>(at);
      if (hidden(view, g, slot)) continue;
      store<u32>(to, slot);
      to += 4;
    }
  } else to += 4 * count;
  if (to == list || load<u32>(to - 4) != n - 1) {
    store<u32>(to, n - 1);
    to += 4;
  }
  put(view, h, (to - list) >> 2);
}

/** Lists what no range hides from a KV head, which had n slots before the token's own: heads may hold different numbers. */
function open(view: usize, g: usize, n: u32): void {
  const list = listOf(view, g), count = word(view, RANGES), ranges = word(view, RANGES_AT) + 8 * g * count;
  let to = list;
  for (let slot: u32 = 0; slot < n; ) {
    // up to the next range, or past the one that begins before the slot
    let until = n, past = slot;
    for (let i: usize = 0; i < count; i++) {
      const from = load<u32>(ranges + 8 * i), end = load<u32>(ranges + 8 * i, 4);
      if (end <= slot) continue;
      if (from <= slot) past = max<u32>(past, end);
      else until = min<u32>(until, from);
    }
    if (past > slot) {
      slot = past;
      continue;
    }
    for (; slot < until; slot++, to += 4) store<u32>(to, slot);
  }
  store<u32>(to, n);
  put(view, g, ((to - list) >> 2) + 1);
}

/** The view of a row's cache; 0: there is none. */
// @ts-ignore: decorator
@inline
function viewOf(cache: usize, apart: usize, row: usize): usize {
  return load<u32>(cache + row * apart, 20);
}

/** Appends a KV head's key and value, brings its index up to date, and asks its query heads whether they choose. */
function prepare(view: usize, g: usize, cache: usize, d: usize, q: usize, k: usize, v: usize): void {
  const group = groupOf(view), queries = 4 * g * group * d, n = <u32>slotsBefore(cache, g);
  appendHead(cache, g, d, k, 0, v, 0, 0, 1);
  memory.copy(word(view, QUERIES) + queries, q + queries, 4 * group * d);
  if (word(view, LOOPS) == 0) {
    open(view, g, n);
    return;
  }
  each(view, INDEX, g);
  for (let h = g * group; h < (g + 1) * group; h++) {
    store<u32>(activeOf(view, h), 1);
    store<u32>(readOf(view, h), 0);
    store<u32>(countOf(view, h), 0);
    each(view, BEFORE, h);
  }
}

/** Whether a query head of these rows chooses. */
function someActive(rows: usize, cache: usize, apart: usize, heads: usize): bool {
  for (let r: usize = 0; r < rows; r++) {
    const view = viewOf(cache, apart, r);
    if (view != 0 && word(view, LOOPS) > 0) for (let h: usize = 0; h < heads; h++) if (load<u32>(activeOf(view, h))) return true;
  }
  return false;
}

/**
 * For rows that views act on, whose caches lie `apart` bytes apart: appends their keys and values, and leaves lists of
 * what they see. Of every other row nothing changes.
 */
export function show(rows: usize, cache: usize, apart: usize, heads: usize, kvHeads: usize, d: usize, q: usize, ldq: usize, k: usize, ldk: usize, v: usize, ldv: usize): void {
  let some = false, chooses = false, after = false;
  for (let r: usize = 0; r < rows; r++) {
    const view = viewOf(cache, apart, r);
    if (view == 0) continue;
    some = true;
    chooses = chooses || word(view, LOOPS) > 0;
    after = after || has(view, AFTER);
  }
  if (!some) return;
  // threads wait for one another as seldom as may be: a wait costs as much as a short cache's scores
  const spans = (longest(rows, cache, apart) + SPAN - 1) / SPAN;
  for (let piece = claim(<i32>(rows * kvHeads)); piece >= 0; piece = claim(<i32>(rows * kvHeads))) {
    const r = <usize>piece / kvHeads, g = <usize>piece % kvHeads, view = viewOf(cache, apart, r);
    if (view == 0) continue;
    prepare(view, g, cache + r * apart, d, q + r * ldq, k + r * ldk, v + r * ldv);
    if (spans == 1 && word(view, LOOPS) > 0) score(view, g, 0, slotsOf(view, g));
  }
  barrier();
  if (!chooses) return;
  if (spans > 1 && someActive(rows, cache, apart, heads)) {
    const pieces = <i32>(rows * kvHeads * spans);
    for (let piece = claim(pieces); piece >= 0; piece = claim(pieces)) {
      const row = <usize>piece / spans, view = viewOf(cache, apart, row / kvHeads), g = row % kvHeads, from = (<usize>piece % spans) * SPAN;
      if (view == 0 || word(view, LOOPS) == 0 || from >= slotsOf(view, g)) continue;
      score(view, g, from, min<usize>(from + SPAN, slotsOf(view, g)));
    }
    barrier();
  }
  for (let piece = claim(<i32>(rows * heads)); piece >= 0; piece = claim(<i32>(rows * heads))) {
    const view = viewOf(cache, apart, <usize>piece / heads), h = <usize>piece % heads;
    if (view == 0 || word(view, LOOPS) == 0) continue;
    if (load<u32>(activeOf(view, h))) each(view, CHOOSE, h);
    each(view, FINISH, h);
    if (!after) end(view, h);
  }
  barrier();
  if (!after) return;
  for (let piece = claim(<i32>(rows * heads)); piece >= 0; piece = claim(<i32>(rows * heads))) {
    const view = viewOf(cache, apart, <usize>piece / heads), h = <usize>piece % heads;
    if (view == 0 || word(view, LOOPS) == 0) continue;
    each(view, AFTER, h);
  }
  barrier();
  for (let piece = claim(<i32>(rows * heads)); piece >= 0; piece = claim(<i32>(rows * heads))) {
    const view = viewOf(cache, apart, <usize>piece / heads), h = <usize>piece % heads;
    if (view != 0 && word(view, LOOPS) > 0) end(view, h);
  }
  barrier();
}

/** Keys [from, from + n) of a KV head as f32, for loops. */
export function viewKeys(view: usize, g: usize, from: usize, n: usize, to: usize): void {
  const form = <u32>word(view, 23), d = channelsOf(view), at = g * word(view, 5) + from;
  decode(form, word(view, 4) + at * codeBytes(form, d), word(view, KEY_SCALES) + at * scaleBytes(form, d), n, d, to);
}

// @ts-ignore: decorator
@external("env", "load")
declare function loadLoop(at: usize, bytes: usize): void;

/** Adds the functions of a loop's module, whose bytes these are, to this thread's table of functions. */
export function addLoop(at: usize, bytes: usize): void {
  loadLoop(at, bytes);
}
