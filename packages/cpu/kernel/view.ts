// @ts-nocheck: AssemblyScript, not TypeScript
// Words of a view, as the loops of pieces read them (`ViewLoop` of @kv/core). Addresses are bytes. KV heads may hold
// different numbers of slots, whose positions ascend; where nothing was evicted, slots are positions.
//
// A loop's functions: (view, own, row, scratch), but for score: (view, own, g, from, to, scratch), which writes the scores
// of slots [from, to) of every active query head of a KV head, and no others; from is a multiple of 256, to one too or its slots.
// `own` are the loop's own words: those of its options; of each state
// its address and stride in numbers; of its index the address, the bytes of a KV head, and the address of u32 `[G]`, the
// slots of each KV head that it knows; of its window the address of f32 `[H, room, d]`, room, and the first and the
// number of the queries before the newest: query i lies at (first + i) % room. `scratch` is 16 bytes for each of
// `strideOf` numbers and 16 KiB more, the thread's own.

// @ts-ignore: decorator
@inline
export function word(at: usize, i: usize): usize {
  return <usize>load<u32>(at + 4 * i);
}
// @ts-ignore: decorator
@inline
export function real(at: usize, i: usize): f32 {
  return load<f32>(at + 4 * i);
}

/** Query heads, KV heads, channels of a head, slots of the KV head that has most, the newest among them. */
// @ts-ignore: decorator
@inline
export function headsOf(view: usize): usize { return word(view, 0); }
// @ts-ignore: decorator
@inline
export function kvHeadsOf(view: usize): usize { return word(view, 1); }
// @ts-ignore: decorator
@inline
export function channelsOf(view: usize): usize { return word(view, 2); }
// @ts-ignore: decorator
@inline
export function mostSlotsOf(view: usize): usize { return word(view, 3); }
// @ts-ignore: decorator
@external("env", "keys")
declare function decodeKeys(view: usize, g: usize, from: usize, n: usize, to: usize): void;

/** Bytes of keys that `room` must have, and how many keys these are. */
export const ROOM: usize = 16384;
// @ts-ignore: decorator
@inline
export function keysAtOnce(view: usize): usize { return ROOM / (4 * channelsOf(view)); }

/** Keys [from, from + n) of a KV head, f32 `[n, d]`: where they lie, or, if they are stored otherwise, decoded to `room`. */
// @ts-ignore: decorator
@inline
export function keysOf(view: usize, g: usize, from: usize, n: usize, room: usize): usize {
  if (word(view, 23) == 0) return word(view, 4) + 4 * (g * word(view, 5) + from) * channelsOf(view);
  decodeKeys(view, g, from, n, room);
  return room;
}
/** The newest query of a query head, f32 `[d]`. */
// @ts-ignore: decorator
@inline
export function queryOf(view: usize, h: usize): usize { return word(view, 6) + 4 * h * channelsOf(view); }
/** Slots that a row may choose, forced ones among them; at most the tokens, not those in use. */
// @ts-ignore: decorator
@inline
export function budgetOf(view: usize): usize { return word(view, 7); }
/** Tokens generated; tokens in all, the positions; this layer; layers. */
// @ts-ignore: decorator
@inline
export function stepOf(view: usize): usize { return word(view, 8); }
// @ts-ignore: decorator
@inline
export function lengthOf(view: usize): usize { return word(view, 9); }
// @ts-ignore: decorator
@inline
export function layerOf(view: usize): usize { return word(view, 10); }
// @ts-ignore: decorator
@inline
export function layersOf(view: usize): usize { return word(view, 11); }
/** Scores of a row, f32, which `score` writes; between rows of scores and of lists lie `strideOf` numbers, at least most slots + 64 and 1024. */
// @ts-ignore: decorator
@inline
export function scoresOf(view: usize, h: usize): usize { return word(view, 12) + 4 * h * strideOf(view); }
// @ts-ignore: decorator
@inline
export function strideOf(view: usize): usize { return word(view, 13); }
/** The list of a row, u32, ascending, which `choose` writes and `after` may replace, and its length. */
// @ts-ignore: decorator
@inline
export function listOf(view: usize, h: usize): usize { return word(view, 14) + 4 * h * strideOf(view); }
// @ts-ignore: decorator
@inline
export function countOf(view: usize, h: usize): usize { return word(view, 15) + 4 * h; }
/** u32: whether a row scores and chooses; 1 unless `before` writes 0. */
// @ts-ignore: decorator
@inline
export function activeOf(view: usize, h: usize): usize { return word(view, 16) + 4 * h; }
/** First and last positions that are forced. */
// @ts-ignore: decorator
@inline
function firstForced(view: usize): usize { return word(view, 17); }
// @ts-ignore: decorator
@inline
function lastForced(view: usize): usize { return word(view, 18); }
/** Positions of a unit; 0: every slot is its own. */
// @ts-ignore: decorator
@inline
export function unitOf(view: usize): usize { return word(view, 19); }
/** u32: numbers of keys and of indexes that a row has read, to which every function adds its own. */
// @ts-ignore: decorator
@inline
export function readOf(view: usize, h: usize): usize { return word(view, 20) + 4 * h; }
// @ts-ignore: decorator
@inline
export function addRead(view: usize, h: usize, numbers: usize): void { atomic.add<u32>(readOf(view, h), <u32>numbers); }

/** Says that a row's list is not one of ascending slots in use, or that a score of the row is not finite. */
// @ts-ignore: decorator
@inline
export function fail(view: usize, row: usize, list: bool = false): void { store<u32>(view + (list ? 88 : 84), <u32>row + 1); }

/** Slots of a KV head, the newest among them. */
// @ts-ignore: decorator
@inline
export function slotsOf(view: usize, g: usize): usize { return word(word(view, 24), g); }
/** Where the positions of a KV head's slots lie, u32, ascending; 0: slots are positions. */
// @ts-ignore: decorator
@inline
function positionsOf(view: usize, g: usize): usize {
  const all = word(view, 25);
  return all == 0 ? 0 : all + 4 * g * word(view, 5);
}
/** The position of a KV head's slot. */
// @ts-ignore: decorator
@inline
export function positionOf(view: usize, g: usize, slot: usize): usize {
  const positions = positionsOf(view, g);
  return positions == 0 ? slot : word(positions, slot);
}
/** How many slots of a KV head have positions below `end`: the first of those that have not. */
export function slotsBelow(view: usize, g: usize, end: usize): usize {
  const positions = positionsOf(view, g), n = slotsOf(view, g);
  if (positions == 0) return min<usize>(n, end);
  let from: usize = 0, to = n;
  while (from < to) {
    const middle = (from + to) >> 1;
    if (word(positions, middle) < end) from = middle + 1;
    else to = middle;
  }
  return from;
}
/** The first slot of a KV head that is not forced. */
export function openFrom(view: usize, g: usize): usize {
  return slotsBelow(view, g, firstForced(view));
}
/** The end of its slots that are not forced, of which `from` is the first. */
export function openTo(view: usize, g: usize, from: usize): usize {
  const length = lengthOf(view);
  return max<usize>(from, slotsBelow(view, g, length - min<usize>(lastForced(view), length)));
}
/** Numbers by position as numbers by slot of a KV head: where they lie, or, if slots are not positions, copied to `room`. */
export function bySlot(view: usize, g: usize, numbers: usize, room: usize): usize {
  const positions = positionsOf(view, g);
  if (positions == 0) return numbers;
  for (let slot: usize = 0, n = slotsOf(view, g); slot < n; slot++) store<u32>(room + 4 * slot, load<u32>(numbers + 4 * word(positions, slot)));
  return room;
}

/** Query heads of a KV head. */
// @ts-ignore: decorator
@inline
export function groupOf(view: usize): usize { return headsOf(view) / kvHeadsOf(view); }

/** The KV head of a query head. */
// @ts-ignore: decorator
@inline
export function kvHeadOf(view: usize, h: usize): usize { return h / (headsOf(view) / kvHeadsOf(view)); }
