// @ts-nocheck: AssemblyScript, not TypeScript
// The loop of `jointEviction`. Rebuild: `node packages/cpu/scripts/build-kernel.mjs`.

import { pair, total } from "../../../cpu/kernel/pairs";
import { panel } from "../../../cpu/kernel/panel";

export { base, centre, distances, dots, mix, panels } from "../../../cpu/kernel/kernel";

/** Mass left below which there is none, half an f32 ulp of 1, and what an error counts as then. */
const LEAST: f64 = 5.9604644775390625e-8, LOST: f64 = 1e30;

/**
 * Lets `gone` of n slots leave, one after the other, from the end of names on downwards: the last `ahead` first, then
 * always the one with the least sum over the heads of |S + h (o - v)| / (1 - M - h), of equals the highest name, S and M
 * the sums of h (o - v) and of h over what left.
 *
 * names u32 [n], x their v [n, d] as `panels` makes it, d a multiple of 4; for each head, `ld` bytes of f32 from one to
 * the next: h and near = o·v, f32 [n], along = h |o - v|², f64 [n], up to a multiple of 8 with h -1 and along -Infinity;
 * o f64 [heads, d]; state f64 [heads, d + 5]: 0, 0, 0, 1, and from 0 on S and M. `work` has room for d + 8 numbers, of 0.
 */
export function evict(
  names: usize, n: usize, ahead: i32, gone: i32, x: usize, d: i32, heads: i32, h: usize, near: usize, along: usize,
  ld: usize, o: usize, state: usize, work: usize,
): void {
  const row = <usize>d << 2, width = 2 * row + 40, last = state + <usize>heads * width;
  for (; gone > 0; gone--, ahead--) {
    let at = leastMove(names, n, x, row, h, near, along, ld, state, last, work);
    if (ahead > 0) at = n - 1;
    n--;
    const name = load<u32>(names + (at << 2));
    store<u32>(names + (at << 2), load<u32>(names + (n << 2)));
    store<u32>(names + (n << 2), name);
    let p = x + (at >> 3) * 8 * row + ((at & 7) << 2), q = x + (n >> 3) * 8 * row + ((n & 7) << 2), own = o;
    for (let c: usize = 0; c < row; c += 4, p += 32, q += 32) {
      store<f32>(work + c, load<f32>(p));
      store<f32>(p, load<f32>(q));
    }
    for (let s = state, a = at << 2, z = n << 2; s < last; s += width, a += ld, z += ld, own += 2 * row) {
      const w = <f64>load<f32>(h + a), by = f64x2.splat(w);
      let size = f64x2.splat(0), square = size;
      for (let c: usize = 0; c < row; c += 8) {
        const u = v128.load(own + 2 * c), move = f64x2.sub(u, pair(work + c)), to = s + 32 + 2 * c;
        const sum = f64x2.add(v128.load(to), f64x2.mul(by, move));
        v128.store(to, sum);
        square = f64x2.add(square, f64x2.mul(sum, sum));
        size = f64x2.add(size, f64x2.mul(u, move));
      }
      const mass = load<f64>(s + 32 + 2 * row) + w;
      store<f64>(s, 2 * w);
      store<f64>(s + 8, total(size));
      store<f64>(s + 16, total(square));
      store<f64>(s + 24, 1 - mass);
      store<f64>(s + 32 + 2 * row, mass);
      store<f32>(h + a, load<f32>(h + z));
      store<f32>(near + a, load<f32>(near + z));
      store<f64>(along + 2 * a, load<f64>(along + 2 * z));
      store<f32>(h + z, -1);
      store<f64>(along + 2 * z, -Infinity);
    }
  }
}

/**
 * The place of the least error, once along has grown by what left last, w in `work`: by 2 h_w (o - w)(o - v), of which
 * state has 2 h_w and o·(o - w), and after these |S|² and 1 - M.
 */
function leastMove(
  names: usize, n: usize, x: usize, row: usize, h: usize, near: usize, along: usize, ld: usize, state: usize,
  last: usize, work: usize,
): usize {
  const found = work + row, width = 2 * row + 40, zero = f64x2.splat(0), one = f64x2.splat(1), two = f64x2.splat(2);
  let here = f64x2.replace_lane(zero, 1, 1), least = f64x2.splat(Infinity), place = zero, name = f64x2.splat(Infinity);
  for (let i: usize = 0; i < n << 2; i += 32, x += 8 * row) {
    panel(x, row, work, found);
    for (let j: usize = 0; j < 32; j += 8, here = f64x2.add(here, two)) {
      const y = pair(found + j);
      let top = zero, bottom = one; // of the sum of quotients
      for (let s = state, a = i + j; s < last; s += width, a += ld) {
        const w = pair(h + a), off = f64x2.add(v128.load64_splat(s, 8), f64x2.sub(y, pair(near + a)));
        const move = f64x2.add(v128.load(along + 2 * a), f64x2.mul(v128.load64_splat(s), off));
        v128.store(along + 2 * a, move);
        let rest = f64x2.sub(v128.load64_splat(s, 24), w);
        let size = f64x2.sqrt(f64x2.pmax(zero, f64x2.add(v128.load64_splat(s, 16), f64x2.mul(w, move))));
        const some = f64x2.gt(rest, f64x2.splat(LEAST));
        size = v128.bitselect(size, f64x2.splat(LOST), some);
        rest = v128.bitselect(rest, one, some);
        top = f64x2.add(f64x2.mul(top, rest), f64x2.mul(size, bottom));
        bottom = f64x2.mul(bottom, rest);
      }
      const error = f64x2.div(top, bottom), own = f64x2.convert_low_i32x4_u(v128.load64_zero(names + i + j));
      const less = v128.or(
        f64x2.lt(error, least), v128.and(f64x2.eq(error, least), f64x2.gt(own, name)));
      least = v128.bitselect(error, least, less);
      name = v128.bitselect(own, name, less);
      place = v128.bitselect(here, place, less);
    }
  }
  const a = f64x2.extract_lane(least, 0), b = f64x2.extract_lane(least, 1);
  const second = b < a || (b == a && f64x2.extract_lane(name, 1) > f64x2.extract_lane(name, 0));
  return min(n - 1, <usize>(second ? f64x2.extract_lane(place, 1) : f64x2.extract_lane(place, 0)));
}
