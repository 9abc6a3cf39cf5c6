// @ts-nocheck: AssemblyScript, not TypeScript
// Quest's page bounds inside a view. Rebuild: `node packages/cpu/scripts/build-kernel.mjs`.
// Own words: slots of a page; of the index address, bytes of a KV head, slots known. A page: `[2, d]`, minima and maxima.

import { addRead, channelsOf, keysOf, kvHeadOf, queryOf, scoresOf, slotsOf, word } from '../../../cpu/kernel/view';

export function index(view: usize, own: usize, g: usize, scratch: usize): void {
  const d = channelsOf(view),
    n = slotsOf(view),
    page = word(own, 0),
    row: usize = 4 * d,
    known = word(own, 3) + 4 * g;
  const pages = word(own, 1) + g * word(own, 2),
    keys = keysOf(view, g);
  for (let i = <usize>load<u32>(known); i < n; i++) {
    const key = keys + i * row,
      low = pages + (i / page) * 2 * row,
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
  store<u32>(known, <u32>n);
}

export function score(view: usize, own: usize, h: usize, scratch: usize): void {
  const d = channelsOf(view),
    n = slotsOf(view),
    page = word(own, 0),
    row: usize = 4 * d,
    q = queryOf(view, h),
    out = scoresOf(view, h);
  let at = word(own, 1) + kvHeadOf(view, h) * word(own, 2);
  for (let first: usize = 0; first < n; first += page, at += 2 * row) {
    let a = f32x4.splat(0),
      b = a;
    let c: usize = 0;
    for (; c + 32 <= row; c += 32) {
      const x = v128.load(q + c),
        y = v128.load(q + c, 16);
      a = f32x4.add(a, f32x4.pmax(f32x4.mul(x, v128.load(at + c)), f32x4.mul(x, v128.load(at + row + c))));
      b = f32x4.add(b, f32x4.pmax(f32x4.mul(y, v128.load(at + c, 16)), f32x4.mul(y, v128.load(at + row + c, 16))));
    }
    for (; c < row; c += 16) {
      const x = v128.load(q + c);
      a = f32x4.add(a, f32x4.pmax(f32x4.mul(x, v128.load(at + c)), f32x4.mul(x, v128.load(at + row + c))));
    }
    const pairs = f32x4.add(a, b),
      two = f32x4.add(pairs, v128.shuffle<f32>(pairs, pairs, 2, 3, 0, 1));
    const all = f32x4.add(two, v128.shuffle<f32>(two, two, 1, 0, 3, 2));
    // up to 3 numbers past the page, which the next one overwrites
    for (let i = first, end = min<usize>(first + page, n); i < end; i += 4) v128.store(out + 4 * i, all);
  }
  addRead(view, h, ((n + page - 1) / page) * 2 * d);
}
