// @ts-nocheck: AssemblyScript, not TypeScript
// Products of the newest query with every key, inside a view. Rebuild: `node packages/cpu/scripts/build-kernel.mjs`.

import { activeOf, addRead, channelsOf, groupOf, keysAtOnce, keysOf, queryOf, scoresOf } from "../../../cpu/kernel/view";

// @ts-ignore: decorator
@inline
function total(x: v128): f32 {
  const two = f32x4.add(x, v128.shuffle<f32>(x, x, 2, 3, 0, 1));
  return f32x4.extract_lane(two, 0) + f32x4.extract_lane(two, 1);
}

export function score(view: usize, own: usize, g: usize, from: usize, to: usize, scratch: usize): void {
  const group = groupOf(view), step = keysAtOnce(view);
  let some = false;
  for (let h = g * group; h < (g + 1) * group; h++) some = some || load<u32>(activeOf(view, h)) != 0;
  if (!some) return;
  for (; from < to; from += step) {
    const end = min<usize>(from + step, to), keys = keysOf(view, g, from, end - from, scratch);
    for (let h = g * group; h < (g + 1) * group; h++) if (load<u32>(activeOf(view, h))) products(view, keys, h, from, end);
  }
}

function products(view: usize, key: usize, h: usize, from: usize, to: usize): void {
  const d = channelsOf(view), row: usize = 4 * d, q = queryOf(view, h), by = 1.0 / Math.sqrt(<f64>d), both = f64x2.splat(by);
  let out = scoresOf(view, h) + 4 * from;
  const end = out + 4 * (to - from);
  // four keys together: each channel of the query is loaded once for them
  for (; out + 16 <= end; out += 16, key += 4 * row) {
    let a = f32x4.splat(0), b = a, c = a, e = a;
    for (let i: usize = 0; i < row; i += 16) {
      const x = v128.load(q + i), at = key + i;
      a = f32x4.add(a, f32x4.mul(x, v128.load(at)));
      b = f32x4.add(b, f32x4.mul(x, v128.load(at + row)));
      c = f32x4.add(c, f32x4.mul(x, v128.load(at + 2 * row)));
      e = f32x4.add(e, f32x4.mul(x, v128.load(at + 3 * row)));
    }
    const ab = f32x4.add(v128.shuffle<f32>(a, b, 0, 4, 1, 5), v128.shuffle<f32>(a, b, 2, 6, 3, 7));
    const ce = f32x4.add(v128.shuffle<f32>(c, e, 0, 4, 1, 5), v128.shuffle<f32>(c, e, 2, 6, 3, 7));
    const sums = f32x4.add(v128.shuffle<f32>(ab, ce, 0, 1, 4, 5), v128.shuffle<f32>(ab, ce, 2, 3, 6, 7));
    // in f64, so that equal products stay equal whatever d is
    const low = f32x4.demote_f64x2_zero(f64x2.mul(f64x2.promote_low_f32x4(sums), both));
    const high = f32x4.demote_f64x2_zero(f64x2.mul(f64x2.promote_low_f32x4(v128.shuffle<f32>(sums, sums, 2, 3, 0, 1)), both));
    v128.store(out, v128.shuffle<f32>(low, high, 0, 1, 4, 5));
  }
  for (; out < end; out += 4, key += row) {
    let a = f32x4.splat(0);
    for (let i: usize = 0; i < row; i += 16) a = f32x4.add(a, f32x4.mul(v128.load(q + i), v128.load(key + i)));
    store<f32>(out, <f32>(<f64>total(a) * by));
  }
  addRead(view, h, d * (to - from));
}
