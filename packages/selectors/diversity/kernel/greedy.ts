// @ts-nocheck: AssemblyScript, not TypeScript
// The loop of `diversity`. Rebuild: `node packages/cpu/scripts/build-kernel.mjs`.

import { panel } from "../../../cpu/kernel/panel";

export { base, panels, rank } from "../../../cpu/kernel/kernel";

/**
 * Picks slots one after the other until there are `count`, behind the `first` whose vectors `picked` begins with: always
 * the one with the most s - lambda times the largest product of its vector with one of the picked, 0 at least, of equals
 * the lowest name. names u32 [n] and s f32 [n], largest first, up to a multiple of 8 with -Infinity; x their vectors
 * [n, d] as `panels` makes it, d even, and likeness f32 as many of 0. Names go to out; `work` has room for 2 n + 56 bytes.
 * A panel is compared with what was picked when the most that it had is the most there is.
 */
export function pick(
  names: usize, n: i32, x: usize, d: i32, s: usize, likeness: usize, lambda: f64, picked: usize, first: u32, count: u32,
  work: usize, out: usize,
): void {
  const row = <usize>d << 2, end = <usize>(n + 7) >> 3, found = work + 16 * end;
  for (let p: usize = 0; p < end; p++) {
    store<f64>(work + 16 * p, <f64>load<f32>(s + 32 * p));
    store<u32>(work + 16 * p, 0, 8);
  }
  for (let t = first; t < count; t++, out += 4) {
    let most = -Infinity, name: u32 = 0, at: usize = 0;
    for (let p: usize = 0, w = work; p < end; p++, w += 16) {
      if (load<f64>(w) < most) continue;
      const own = likeness + 32 * p;
      for (let u = load<u32>(w, 8); u < t; u++) {
        panel(x + 8 * p * row, row, picked + <usize>u * row, found);
        v128.store(own, f32x4.pmax(v128.load(own), v128.load(found)));
        v128.store(own, f32x4.pmax(v128.load(own, 16), v128.load(found, 16)), 16);
      }
      let top = -Infinity;
      for (let i: usize = 8 * p; i < 8 * p + 8; i++) {
        const worth = <f64>load<f32>(s + (i << 2)) - lambda * <f64>load<f32>(likeness + (i << 2));
        top = Math.max(top, worth);
        if (worth > most || (worth == most && load<u32>(names + (i << 2)) < name)) {
          most = worth;
          name = load<u32>(names + (i << 2));
          at = i;
        }
      }
      store<f64>(w, top);
      store<u32>(w, t, 8);
    }
    store<u32>(out, name);
    store<f32>(s + (at << 2), -Infinity);
    let from = x + (at >> 3) * 8 * row + ((at & 7) << 2), to = picked + <usize>t * row;
    for (const stop = to + row; to < stop; to += 4, from += 32) store<f32>(to, load<f32>(from));
  }
}
