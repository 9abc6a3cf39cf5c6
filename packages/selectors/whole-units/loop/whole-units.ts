// @ts-nocheck: AssemblyScript, not TypeScript
// Whole units inside a view, units of equal numbers of positions. Rebuild: `node packages/cpu/scripts/build-kernel.mjs`.
// Own words: whether the last unit, which no longer fits, fills the room.

import { above, all, border, finite } from "../../../cpu/kernel/largest";
import { budgetOf, countOf, fail, firstForced, lastForced, listOf, scoresOf, slotsOf, strideOf, unitOf, word } from "../../../cpu/kernel/view";

/** What becomes of a unit's slots: none stays but forced ones, the best of them may, all stay. */
const GONE: u8 = 0, CUT: u8 = 1, WHOLE: u8 = 2;

/** Whether unit a comes before unit b: by its order, then by its number. */
// @ts-ignore: decorator
@inline
function before(means: usize, a: u32, b: u32): bool {
  const x = load<f32>(means + 4 * <usize>a), y = load<f32>(means + 4 * <usize>b);
  return x > y || (x == y && a < b);
}

/** Moves the unit at place i of a heap of n down to where it belongs. */
function sift(heap: usize, n: usize, i: usize, means: usize): void {
  const unit = load<u32>(heap + 4 * i);
  for (;;) {
    let child: usize = 2 * i + 1;
    if (child >= n) break;
    if (child + 1 < n && before(means, load<u32>(heap + 4 * child + 4), load<u32>(heap + 4 * child))) child++;
    const other = load<u32>(heap + 4 * child);
    if (before(means, unit, other)) break;
    store<u32>(heap + 4 * i, other);
    i = child;
  }
  store<u32>(heap + 4 * i, unit);
}

/** Slots of [at, end) that are not forced, [from, to). */
// @ts-ignore: decorator
@inline
function open(at: usize, end: usize, from: usize, to: usize): usize {
  const a = max<usize>(at, from), b = min<usize>(end, to);
  return b > a ? b - a : 0;
}

export function choose(view: usize, own: usize, row: usize, scratch: usize): void {
  const n = slotsOf(view), scores = scoresOf(view, row), size = max<usize>(1, unitOf(view)), count = (n + size - 1) / size;
  const from = min<usize>(firstForced(view), n), to = max<usize>(from, n - min<usize>(lastForced(view), n)), taken = from + n - to;
  let room = budgetOf(view) > taken ? min<usize>(budgetOf(view) - taken, to - from) : 0;
  const bytes: usize = 4 * strideOf(view), means = scratch, heap = means + bytes, states = heap + bytes, work = states + bytes, left = work + bytes;
  if (!finite(scores, n)) return fail(view, row);
  for (let u: usize = 0; u < count; u++) {
    const at = u * size, end = min<usize>(at + size, n);
    let sum: f64 = 0;
    for (let i = at; i < end; i++) sum += <f64>load<f32>(scores + 4 * i);
    const forced = at < from || end > to;
    store<f32>(means + 4 * u, forced ? f32.MAX_VALUE : <f32>(sum / <f64>(end - at)));
  }
  memory.fill(states, GONE, count);
  for (let u: usize = 0; u < count; u++) store<u32>(heap + 4 * u, <u32>u);
  for (let i = count >> 1; i > 0; ) sift(heap, count, --i, means);
  // whole units, best first; the first that does not fit is cut
  const best = <usize>load<u32>(heap);
  let cut = count;
  for (let units = count; units > 0; ) {
    const u = <usize>load<u32>(heap), slots = open(u * size, min<usize>(u * size + size, n), from, to);
    if (slots > room) {
      if (room > 0) cut = u;
      break;
    }
    room -= slots;
    store<u8>(states + u, WHOLE);
    store<u32>(heap, load<u32>(heap + 4 * --units));
    sift(heap, units, 0, means);
  }
  if (word(own, 0)) {
    if (cut < count) store<u8>(states + cut, CUT);
    // forced slots of a unit count as taken, and so does the unit
    for (let u: usize = 0; u < count; u++)
      if (load<u8>(states + u) == GONE && (u * size < from || min<usize>(u * size + size, n) > to)) store<u8>(states + u, CUT);
  } else if (load<u8>(states + best) == GONE) store<u8>(states + best, CUT);
  // the best open slots of cut units
  let some: usize = 0;
  for (let u: usize = 0; u < count; u++)
    if (load<u8>(states + u) == CUT)
      for (let i = max<usize>(u * size, from), end = min<usize>(min<usize>(u * size + size, n), to); i < end; i++, some++)
        store<f32>(means + 4 * some, load<f32>(scores + 4 * i));
  room = min<usize>(room, some);
  let least: f32 = 0, equal: u32 = 0;
  if (room > 0) {
    least = border(means, some, room, work, left);
    equal = load<u32>(left);
  }
  const list = listOf(view, row);
  let end = all(0, from, list);
  for (let u = from / size; u < count && u * size < to; u++) {
    const a = max<usize>(u * size, from), b = min<usize>(min<usize>(u * size + size, n), to), state = load<u8>(states + u);
    if (a >= b) continue;
    if (state == WHOLE) end = all(a, b, end);
    else if (state == CUT && room > 0) {
      const next = above(scores, a, b, least, equal, end);
      for (let i = end; i < next; i += 4) equal -= u32(load<f32>(scores + 4 * <usize>load<u32>(i)) == least);
      end = next;
    }
  }
  end = all(to, n, end);
  store<u32>(countOf(view, row), <u32>((end - list) >> 2));
}
