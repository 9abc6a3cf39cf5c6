// @ts-nocheck: AssemblyScript, not TypeScript
// Quest's page bounds inside a view. Rebuild: `node packages/cpu/scripts/build-kernel.mjs`.
// Own words: slots of a page; of the index address, bytes of a KV head, slots known. A page: `[2, d]`, minima and maxima.

import { activeOf, addRead, channelsOf, groupOf, keysAtOnce, keysOf, queryOf, scoresOf, slotsOf, word } from '../../../cpu/kernel/view';

export function index(view: usize, own: usize, g: usize, scratch: usize): void {
  const d = channelsOf(view),
    n = slotsOf(view, g),
    page = word(own, 0),
    row: usize = 4 * d,
    known = word(own, 3) + 4 * g;
  const pages = word(own, 1) + g * word(own, 2),
    step = keysAtOnce(view);
  for (let from = <usize>load<u32>(known); from < n; from += step) {
    const end = min<usize>(from + step, n);
    let key = keysOf(view, g, from, end - from, scratch);
    for (let i = from; i < end; i++, key += row) {
      const low = pages + (i / page) * 2 * row,
        high = low + row;
      if (i % page == 0) {
        memory.copy(low, key, row);
        memory.copy(high, key, row);
      } else
        for (let c: usize = 0; c < row; c += 16) {
          const x = v128.load(key + c);
          v128.store(low + c, f32x4.pmin(v128.load(low + c), x));
          v128.store(high + c, f32x4.pmax(v128.load(high + c), x));
        }
    }
  }
  store<u32>(known, <u32>n);
}

export function score(view: usize, own: usize, g: usize, from: usize, to: usize, scratch: usize): void {
  const group = groupOf(view);
  for (let h = g * group; h < (g + 1) * group; h++) if (load<u32>(activeOf(view, h))) bounds(view, own, g, h, from, to);
}

function bounds(view: usize, own: usize, g: usize, h: usize, from: usize, to: usize): void {
  const d = channelsOf(view), page = word(own, 0), row: usize = 4 * d, q = queryOf(view, h), out = scoresOf(view, h), first = from / page;
  let at = word(own, 1) + g * word(own, 2) + first * 2 * row;
  let pages: usize = 0;
  for (let start = first * page; start < to; start += page, at += 2 * row) {
    let a = f32x4.splat(0), b = a;
    let c: usize = 0;
    for (; c + 32 <= row; c += 32) {
      const x = v128.load(q + c), y = v128.load(q + c, 16);
      a = f32x4.add(a, f32x4.pmax(f32x4.mul(x, v128.load(at + c)), f32x4.mul(x, v128.load(at + row + c))));
      b = f32x4.add(b, f32x4.pmax(f32x4.mul(y, v128.load(at + c, 16)), f32x4.mul(y, v128.load(at + row + c, 16))));
    }
    for (; c < row; c += 16) {
      const x = v128.load(q + c);
      a = f32x4.add(a, f32x4.pmax(f32x4.mul(x, v128.load(at + c)), f32x4.mul(x, v128.load(at + row + c))));
    }
    const pairs = f32x4.add(a, b), two = f32x4.add(pairs, v128.shuffle<f32>(pairs, pairs, 2, 3, 0, 1));
    const all = f32x4.add(two, v128.shuffle<f32>(two, two, 1, 0, 3, 2)), end = min<usize>(start + page, to);
    let i = max<usize>(start, from);
    for (; i + 4 <= end; i += 4) v128.store(out + 4 * i, all);
    for (; i < end; i++) v128.store32_lane(out + 4 * i, all, 0);
    // a page is counted where it begins
    pages += usize(start >= from);
  }
  addRead(view, h, 2 * d * pages);
}
