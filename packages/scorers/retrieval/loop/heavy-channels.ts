// @ts-nocheck: AssemblyScript, not TypeScript
// Double Sparsity's labels inside a view. Rebuild: `node packages/cpu/scripts/build-kernel.mjs`.
// Own words: channels; of the index address, bytes of a KV head, slots known; of the window address, room, first, count.
// The index of a part of 256 slots: keys by channel `[d, 256]`, then Σ |k_c| in f64 `[d]`.

import { above, border } from "../../../cpu/kernel/largest";
import { activeOf, addRead, channelsOf, groupOf, keysAtOnce, keysOf, kvHeadOf, listOf, queryOf, scoresOf, slotsOf, word } from "../../../cpu/kernel/view";

const PART: usize = 256;

// @ts-expect-error: decorator
@inline
function partBytes(d: usize): usize {
  return d * (4 * PART + 8);
}

export function index(view: usize, own: usize, g: usize, scratch: usize): void {
  const d = channelsOf(view), n = slotsOf(view, g), known = word(own, 3) + 4 * g, step = keysAtOnce(view);
  for (let from = <usize>load<u32>(known); from < n; from += step) {
    const end = min<usize>(from + step, n);
    let key = keysOf(view, g, from, end - from, scratch);
    for (let i = from; i < end; i++) {
      const part = word(own, 1) + g * word(own, 2) + (i / PART) * partBytes(d), sums = part + 4 * PART * d, at = part + 4 * (i % PART);
      if (i % PART == 0) memory.fill(sums, 0, 8 * d);
      for (let c: usize = 0; c < d; c++, key += 4) {
        const x = load<f32>(key);
        store<f32>(at + 4 * PART * c, x);
        store<f64>(sums + 8 * c, load<f64>(sums + 8 * c) + Math.abs(<f64>x));
      }
    }
  }
  store<u32>(known, <u32>n);
}

/** Adds numbers 0 and 1, or 2 and 3, of a vector as f64. */
// @ts-expect-error: decorator
@inline
function addPair(sum: v128, x: v128, second: bool): v128 {
  return f64x2.add(sum, f64x2.promote_low_f32x4(second ? v128.shuffle<f32>(x, x, 2, 3, 0, 1) : x));
}

// @ts-expect-error: decorator
@inline
function asF32(low: v128, high: v128): v128 {
  return v128.shuffle<f64>(f32x4.demote_f64x2_zero(low), f32x4.demote_f64x2_zero(high), 0, 2);
}

/**
 * Writes the channels with the largest Σ |q_c| Σ |k_c| of a head, in their order, ties to the lower one; returns how many.
 * `to`: room for three more. `sizes`: scratch of 16 bytes a channel.
 */
function heavy(view: usize, own: usize, h: usize, to: usize, sizes: usize): usize {
  const d = channelsOf(view), g = kvHeadOf(view, h), n = slotsOf(view, g), most = min<usize>(word(own, 0), d), row: usize = 4 * d;
  const labels = word(own, 1) + g * word(own, 2) + 4 * PART * d, room = word(own, 5), earlier = word(own, 4) + h * room * row, first = word(own, 6) % room, count = word(own, 7);
  for (let c: usize = 0; c < d; c += 4) {
    let q0 = f64x2.splat(0), q1 = q0, k0 = q0, k1 = q0;
    for (let i: usize = 0, at = first; i < count; i++, at = at + 1 == room ? 0 : at + 1) {
      const x = f32x4.abs(v128.load(earlier + at * row + 4 * c));
      q0 = addPair(q0, x, false);
      q1 = addPair(q1, x, true);
    }
    const x = f32x4.abs(v128.load(queryOf(view, h) + 4 * c));
    for (let at: usize = 0, part = labels + 8 * c; at < n; at += PART, part += partBytes(d)) {
      const keys = asF32(v128.load(part), v128.load(part, 16));
      k0 = addPair(k0, keys, false);
      k1 = addPair(k1, keys, true);
    }
    // sums that overflow are ties
    v128.store(sizes + 4 * c, f32x4.pmin(f32x4.splat(f32.MAX_VALUE), f32x4.mul(asF32(addPair(q0, x, false), addPair(q1, x, true)), asF32(k0, k1))));
  }
  const work = sizes + row, left = work + row + 16, least = border(sizes, d, most, work, left);
  return (above(sizes, 0, d, least, load<u32>(left), to) - to) >> 2;
}

/** Leaves in the row's list how many channels are heavy, then where each lies in a part, and what its labels weigh. */
export function before(view: usize, own: usize, h: usize, scratch: usize): void {
  const d = channelsOf(view), q = queryOf(view, h), list = listOf(view, h), channels = list + 16, weights = channels + 4 * d + 16;
  const some = heavy(view, own, h, channels, scratch);
  store<u32>(list, <u32>some);
  for (let i: usize = 0; i < some; i++) {
    const c = <usize>load<u32>(channels + 4 * i);
    store<f32>(weights + 4 * i, load<f32>(q + 4 * c));
    store<u32>(channels + 4 * i, <u32>(4 * PART * c));
  }
}

export function score(view: usize, own: usize, g: usize, from: usize, to: usize, scratch: usize): void {
  const d = channelsOf(view), group = groupOf(view);
  for (; from < to; from += PART) {
    const labels = word(own, 1) + g * word(own, 2) + (from / PART) * partBytes(d), count = min<usize>(PART, to - from);
    for (let h = g * group; h < (g + 1) * group; h++) if (load<u32>(activeOf(view, h))) products(view, h, labels, from, count);
  }
}

/** The scores of the slots of a part, from its labels. */
function products(view: usize, h: usize, labels: usize, from: usize, count: usize): void {
  const list = listOf(view, h), channels = list + 16, weights = channels + 4 * channelsOf(view) + 16, out = scoresOf(view, h) + 4 * from;
  const some = <usize>load<u32>(list), by = f32x4.splat(<f32>(1.0 / Math.sqrt(<f64>some))), end: usize = ((count + 15) >> 4) << 6;
  // lines are asked for before they are needed: processors do not foresee many short runs
  for (let k: usize = 0; k < some; k++) for (let at = labels + <usize>load<u32>(channels + 4 * k), stop = at + end; at < stop; at += 64) load<i32>(at);
  for (let i: usize = 0; i < end; i += 64) {
    let s0 = f32x4.splat(0), s1 = s0, s2 = s0, s3 = s0;
    for (let k: usize = 0; k < some; k++) {
      const x = v128.load32_splat(weights + 4 * k), at = labels + <usize>load<u32>(channels + 4 * k) + i;
      s0 = f32x4.add(s0, f32x4.mul(x, v128.load(at)));
      s1 = f32x4.add(s1, f32x4.mul(x, v128.load(at, 16)));
      s2 = f32x4.add(s2, f32x4.mul(x, v128.load(at, 32)));
      s3 = f32x4.add(s3, f32x4.mul(x, v128.load(at, 48)));
    }
    v128.store(out + i, f32x4.mul(s0, by));
    v128.store(out + i, f32x4.mul(s1, by), 16);
    v128.store(out + i, f32x4.mul(s2, by), 32);
    v128.store(out + i, f32x4.mul(s3, by), 48);
  }
  addRead(view, h, some * count);
}
