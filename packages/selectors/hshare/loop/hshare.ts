// @ts-nocheck: AssemblyScript, not TypeScript
// HShare inside a view, once overlap is measured. Rebuild: `node packages/cpu/scripts/build-kernel.mjs`.
// Own words: tokens that share one retrieval, whether layers share, sinks, local; then address and stride of
// hshare.sets, .last, .uses, .retrievals and, where layers share, .layers.uses and .layers.sets.

import { all } from "../../../cpu/kernel/largest";
import { activeOf, budgetOf, bySlot, countOf, headsOf, kvHeadOf, layerOf, layersOf, lengthOf, listOf, positionOf, slotsBelow, slotsOf, word } from "../../../cpu/kernel/view";

const QUERY = 0, LAYERS = 1, SINKS = 2, LOCAL = 3, STATES = 4;

/** Row h of a state. */
// @ts-ignore: decorator
@inline
function stateOf(own: usize, i: usize, h: usize): usize { return word(own, STATES + 2 * i) + 4 * h * word(own, STATES + 2 * i + 1); }
// @ts-ignore: decorator
@inline
function setOf(own: usize, h: usize): usize { return stateOf(own, 0, h); }
// @ts-ignore: decorator
@inline
function lastOf(own: usize, h: usize): usize { return stateOf(own, 1, h); }
// @ts-ignore: decorator
@inline
function usesOf(own: usize, h: usize): usize { return stateOf(own, 2, h); }
// @ts-ignore: decorator
@inline
function retrievalsOf(own: usize, h: usize): usize { return stateOf(own, 3, h); }

/** Whether sets are chosen again at this token, as they are after tokens that were not seen; every row says the same. */
// @ts-ignore: decorator
@inline
function renews(view: usize, own: usize, h: usize): bool { return lengthOf(view) % word(own, QUERY) == 0 || load<f32>(lastOf(own, h)) + 1 != <f32>lengthOf(view); }
/** Index of the layer whose sets this one takes minus its own. */
// @ts-ignore: decorator
@inline
function offsetOf(view: usize, own: usize, h: usize): f32 {
  const layer = layerOf(view);
  return word(own, LAYERS) != 0 && layer > 0 && renews(view, own, h) ? load<f32>(stateOf(own, 4, 0) + 4 * layer) : 0;
}
/** The entries of a layer's and head's list: 1 + position, ascending, then 0. */
// @ts-ignore: decorator
@inline
function entriesOf(view: usize, own: usize, layer: usize, h: usize): usize {
  return stateOf(own, 5, 0) + 4 * (layer * headsOf(view) + h) * budgetOf(view);
}

export function before(view: usize, own: usize, h: usize, scratch: usize): void {
  store<u32>(activeOf(view, h), u32(renews(view, own, h) && load<f32>(usesOf(own, h)) == 0 && offsetOf(view, own, h) == 0));
}

export function after(view: usize, own: usize, h: usize, scratch: usize): void {
  const due = renews(view, own, h);
  if (due) take(view, own, h);
  if (load<u32>(activeOf(view, h))) store<f32>(retrievalsOf(own, h), load<f32>(retrievalsOf(own, h)) + 1);
  else show(view, own, h, scratch);
  // while every token makes lists longer, old ones do not fit
  if (word(own, LAYERS) && (due || lengthOf(view) <= budgetOf(view)) && layerOf(view) + 1 < layersOf(view)) publish(view, own, h);
  store<f32>(lastOf(own, h), <f32>lengthOf(view));
}

/** Replaces a row's set: by what another layer, or by what its leader has chosen now, or before. */
function take(view: usize, own: usize, h: usize): void {
  const length = lengthOf(view), set = setOf(own, h), offset = offsetOf(view, own, h);
  if (offset < 0) {
    memory.fill(set, 0, 4 * length);
    let entry = entriesOf(view, own, <usize>max<f32>(0, <f32>layerOf(view) + offset), h);
    for (const end = entry + 4 * budgetOf(view); entry < end && load<f32>(entry) >= 1; entry += 4) {
      const position = <usize>load<f32>(entry) - 1;
      if (position < length) store<f32>(set + 4 * position, 1);
    }
    return;
  }
  const leader = <usize>min<f32>(max<f32>(0, <f32>h + load<f32>(usesOf(own, h))), <f32>(headsOf(view) - 1));
  if (load<u32>(activeOf(view, leader)) == 0) {
    if (leader != h) memory.copy(set, setOf(own, leader), 4 * length);
    return;
  }
  const list = listOf(view, leader), g = kvHeadOf(view, leader), n = slotsOf(view, g), sinks = slotsBelow(view, g, word(own, SINKS)), local = n - min<usize>(n, word(own, LOCAL));
  memory.fill(set, 0, 4 * length);
  for (let i: usize = 0, count = <usize>load<u32>(countOf(view, leader)); i < count; i++) {
    const slot = <usize>load<u32>(list + 4 * i);
    if (slot >= sinks && slot < local) store<f32>(set + 4 * positionOf(view, g, slot), 1);
  }
}

/** Lists sinks, a row's set and the local window. */
function show(view: usize, own: usize, h: usize, scratch: usize): void {
  const g = kvHeadOf(view, h), n = slotsOf(view, g), list = listOf(view, h), sinks = slotsBelow(view, g, word(own, SINKS)), local = max<usize>(sinks, n - min<usize>(n, word(own, LOCAL)));
  const end = all(local, n, append(bySlot(view, g, setOf(own, h), scratch), sinks, local, all(0, sinks, list)));
  store<u32>(countOf(view, h), <u32>((end - list) >> 2));
}

/** Writes a row's set for the layers above. */
function publish(view: usize, own: usize, h: usize): void {
  const set = setOf(own, h), length = lengthOf(view), to = entriesOf(view, own, layerOf(view), h), end = to + 4 * budgetOf(view);
  let entry = to;
  for (let position: usize = 0; position < length && entry < end; position++)
    if (load<f32>(set + 4 * position) != 0) {
      store<f32>(entry, <f32>(position + 1));
      entry += 4;
    }
  memory.fill(entry, 0, end - entry);
}

/** Four numbers that are not 0. */
// @ts-ignore: decorator
@inline
function some(at: usize): v128 { return f32x4.ne(v128.load(at), f32x4.splat(0)); }

/** Appends the slots [from, to) of a set to a list; returns its end. */
function append(set: usize, from: usize, to: usize, list: usize): usize {
  let i = from;
  for (; i + 16 <= to; i += 16) {
    const at = set + 4 * i, low = i16x8.narrow_i32x4_s(some(at), some(at + 16)), high = i16x8.narrow_i32x4_s(some(at + 32), some(at + 48));
    for (let lanes = i8x16.bitmask(i8x16.narrow_i16x8_s(low, high)); lanes != 0; lanes &= lanes - 1, list += 4) store<u32>(list, <u32>(i + <usize>ctz(lanes)));
  }
  for (; i < to; i++)
    if (load<f32>(set + 4 * i) != 0) {
      store<u32>(list, <u32>i);
      list += 4;
    }
  return list;
}
