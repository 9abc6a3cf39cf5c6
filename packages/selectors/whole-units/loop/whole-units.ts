// @ts-nocheck: AssemblyScript, not TypeScript
// Whole units inside a view, units of equal numbers of positions. Rebuild: `node packages/cpu/scripts/build-kernel.mjs`.
// Own words: whether the last unit, which no longer fits, fills the room. A unit is named by its first slot.

import { above, all, border, finite } from "../../../cpu/kernel/largest";
import { budgetOf, countOf, fail, kvHeadOf, listOf, openFrom, openTo, positionOf, scoresOf, slotsBelow, slotsOf, strideOf, unitOf, word } from "../../../cpu/kernel/view";

/** What becomes of a unit's slots: none stays but forced ones, the best of them may, all stay. */
const GONE: u8 = 0, CUT: u8 = 1, WHOLE: u8 = 2;

/** Whether unit a comes before unit b: by its order, then by its first slot. */
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

/** The end of the unit of a KV head's slot, of `size` positions. */
// @ts-ignore: decorator
@inline
function endOf(view: usize, g: usize, slot: usize, size: usize): usize {
  return slotsBelow(view, g, (positionOf(view, g, slot) / size + 1) * size);
}

/** Slots of [at, end) that are not forced, [from, to). */
// @ts-ignore: decorator
@inline
function open(at: usize, end: usize, from: usize, to: usize): usize {
  const a = max<usize>(at, from), b = min<usize>(end, to);
  return b > a ? b - a : 0;
}

export function choose(view: usize, own: usize, row: usize, scratch: usize): void {
  const g = kvHeadOf(view, row), n = slotsOf(view, g), scores = scoresOf(view, row), size = max<usize>(1, unitOf(view));
  const from = openFrom(view, g), to = openTo(view, g, from), taken = from + n - to;
  let room = budgetOf(view) > taken ? min<usize>(budgetOf(view) - taken, to - from) : 0;
  const bytes: usize = 4 * strideOf(view), means = scratch, heap = means + bytes, states = heap + bytes, work = states + bytes, left = work + bytes;
  if (!finite(scores, n)) return fail(view, row);
  let count: usize = 0;
  for (let unit: usize = 0; unit < n; count++) {
    const end = endOf(view, g, unit, size);
    let sum: f64 = 0;
    for (let i = unit; i < end; i++) sum += <f64>load<f32>(scores + 4 * i);
    const forced = unit < from || end > to;
    store<f32>(means + 4 * unit, forced ? f32.MAX_VALUE : <f32>(sum / <f64>(end - unit)));
    store<u32>(heap + 4 * count, <u32>unit);
    unit = end;
  }
  memory.fill(states, GONE, n);
  for (let i = count >> 1; i > 0; ) sift(heap, count, --i, means);
  // whole units, best first; the first that does not fit is cut
  const best = <usize>load<u32>(heap);
  let cut = n;
  for (let units = count; units > 0; ) {
    const unit = <usize>load<u32>(heap), slots = open(unit, endOf(view, g, unit, size), from, to);
    if (slots > room) {
      if (room > 0) cut = unit;
      break;
    }
    room -= slots;
    store<u8>(states + unit, WHOLE);
    store<u32>(heap, load<u32>(heap + 4 * --units));
    sift(heap, units, 0, means);
  }
  if (word(own, 0)) {
    if (cut < n) store<u8>(states + cut, CUT);
    // forced slots of a unit count as taken, and so does the unit
    for (let unit: usize = 0; unit < n; ) {
      const end = endOf(view, g, unit, size);
      if (load<u8>(states + unit) == GONE && (unit < from || end > to)) store<u8>(states + unit, CUT);
      unit = end;
    }
  } else if (load<u8>(states + best) == GONE) store<u8>(states + best, CUT);
  // the best open slots of cut units
  let some: usize = 0;
  for (let unit: usize = 0; unit < n; ) {
    const end = endOf(view, g, unit, size);
    if (load<u8>(states + unit) == CUT) for (let i = max<usize>(unit, from), stop = min<usize>(end, to); i < stop; i++, some++) store<f32>(means + 4 * some, load<f32>(scores + 4 * i));
    unit = end;
  }
  room = min<usize>(room, some);
  let least: f32 = 0, equal: u32 = 0;
  if (room > 0) {
    least = border(means, some, room, work, left);
    equal = load<u32>(left);
  }
  const list = listOf(view, row);
  let end = all(0, from, list);
  for (let unit: usize = 0; unit < to; ) {
    const next = endOf(view, g, unit, size), a = max<usize>(unit, from), b = min<usize>(next, to), state = load<u8>(states + unit);
    unit = next;
    if (a >= b) continue;
    if (state == WHOLE) end = all(a, b, end);
    else if (state == CUT && room > 0) {
      const cut = above(scores, a, b, least, equal, end);
      for (let i = end; i < cut; i += 4) equal -= u32(load<f32>(scores + 4 * <usize>load<u32>(i)) == least);
      end = cut;
    }
  }
  end = all(to, n, end);
  store<u32>(countOf(view, row), <u32>((end - list) >> 2));
}
