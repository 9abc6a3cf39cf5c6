import type { ScoreKind } from './visible.ts';

/** How many slots of a head lie below a position: a binary search of the ascending positions. */
export const SLOTS_BELOW = /* wgsl */ `
fn slots_below(g: u32, limit: u32) -> u32 {
  var low = 0u;
  var high = lengths[g];
  while (low < high) {
    let middle = (low + high) / 2u;
    if (positions[g * params.capacity + middle] < limit) { low = middle + 1u; } else { high = middle; }
  }
  return low;
}`;

/**
 * Slots that some of the rows see, but for what a mask hides: those of a KV head from `begin` on, without the longest
 * range that views hide from all of them. Positions of slots and of queries ascend, and every query sees its own.
 */
export const rangesSource = ({ single = false }: ScoreKind): string => /* wgsl */ `${SLOTS_BELOW}
struct Ranges { begin: u32, gap: u32, skip: u32, count: u32 }
fn ranges_of(g: u32, first: u32, last: u32) -> Ranges {
  let oldest = ${single ? 'min(params.own, params.past_at)' : 'position_of(first)'};
  var begin = 0u;
  if (oldest >= params.window) { begin = slots_below(g, oldest - params.window + 1u); }
  var gap = begin;
  var skip = 0u;
  ${
    single
      ? ''
      : /* wgsl */ `var hidden = vec2<u32>();
  for (var v = 0u; v < params.views; v++) {
    var above = 0u;
    var below = oldest;
    for (var r = first; r <= last; r++) {
      let at = r * (1u + 2u * params.views) + 1u + 2u * v;
      above = max(above, rows[at]);
      below = min(below, rows[at + 1u]);
    }
    if (above < below) {
      if (above <= hidden.y && below >= hidden.x) { hidden = vec2(min(above, hidden.x), max(below, hidden.y)); }
      else if (below - above > hidden.y - hidden.x) { hidden = vec2(above, below); }
    }
  }
  if (hidden.x < hidden.y) {
    gap = max(begin, slots_below(g, hidden.x));
    skip = max(gap, slots_below(g, hidden.y)) - gap;
  }`
  }
  return Ranges(begin, gap, skip, lengths[g] - begin - skip);
}
fn slot_of(i: u32, ranges: Ranges) -> u32 {
  let j = ranges.begin + i;
  return select(j, j + ranges.skip, j >= ranges.gap);
}`;
