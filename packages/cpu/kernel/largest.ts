// @ts-nocheck: AssemblyScript, not TypeScript
// The largest of many numbers, by their order as whole numbers: for loops of selectors.

/** Bins of a pass over 11 bits, and bytes of the counts. */
const BINS: usize = 2048;

// @ts-ignore: decorator
@inline
function orderOf(bits: v128): v128 {
  return v128.xor(bits, v128.or(i32x4.shr_s(bits, 31), i32x4.splat(<i32>0x80000000)));
}

/** Writes n numbers in an order of u32, -0 as 0, to `to`, which has room for 3 more; returns whether all are finite. */
export function ordered(from: usize, n: usize, to: usize): bool {
  const zero = f32x4.splat(0), most = f32x4.splat(f32.MAX_VALUE);
  let bad = i32x4.splat(0);
  let i: usize = 0;
  for (; i + 4 <= n; i += 4) {
    const x = f32x4.add(v128.load(from + 4 * i), zero);
    bad = v128.or(bad, v128.not(f32x4.le(f32x4.abs(x), most)));
    v128.store(to + 4 * i, orderOf(x));
  }
  let some = v128.any_true(bad);
  for (; i < n; i++) {
    const x = load<f32>(from + 4 * i) + <f32>0;
    if (!(Mathf.abs(x) <= f32.MAX_VALUE)) some = true;
    const bits = reinterpret<u32>(x);
    store<u32>(to + 4 * i, bits ^ (<u32>(<i32>bits >> 31) | 0x80000000));
  }
  return !some;
}

/**
 * The `room`-th largest of n ordered numbers (1 <= room <= n), and to `left` how many that are equal to it belong to the
 * `room` largest. `keys` are overwritten; `counts` has room for 2048 words. Bits are met from the highest down, those of
 * the numbers that may be it alone.
 */
export function border(keys: usize, n: usize, room: usize, counts: usize, left: usize): u32 {
  let known: u32 = 0;
  for (let shift: i32 = 21; ; ) {
    const bits: u32 = shift == 0 ? 1023 : 2047, bins: usize = shift == 0 ? 1024 : BINS;
    memory.fill(counts, 0, 4 * bins);
    for (let i: usize = 0; i < n; i++) {
      const at = counts + 4 * <usize>((load<u32>(keys + 4 * i) >> shift) & bits);
      store<u32>(at, load<u32>(at) + 1);
    }
    let bin = bins;
    for (let count: usize = 0; ; room -= count) {
      count = <usize>load<u32>(counts + 4 * --bin);
      if (count >= room) break;
    }
    known |= <u32>bin << shift;
    if (shift == 0) break;
    let some: usize = 0;
    for (let i: usize = 0; i < n; i++) {
      const key = load<u32>(keys + 4 * i);
      store<u32>(keys + 4 * some, key);
      some += usize(((key >> shift) & bits) == <u32>bin);
    }
    n = some;
    shift = shift == 21 ? 10 : 0;
  }
  store<u32>(left, <u32>room);
  return known;
}

/**
 * Appends to `list` the slots [from, to) whose number is above the border, and the first `left` that equal it; returns
 * the end of the list. `keys` is that of slot 0.
 */
export function above(keys: usize, from: usize, to: usize, border: u32, left: u32, list: usize): usize {
  const b = i32x4.splat(<i32>border);
  let i = from;
  for (; i + 4 <= to; i += 4) {
    let bits = i32x4.bitmask(i32x4.ge_u(v128.load(keys + 4 * i), b));
    for (; bits != 0; bits &= bits - 1) {
      const slot = i + <usize>ctz(bits);
      if (load<u32>(keys + 4 * slot) == border) {
        if (left == 0) continue;
        left--;
      }
      store<u32>(list, <u32>slot);
      list += 4;
    }
  }
  for (; i < to; i++) {
    const key = load<u32>(keys + 4 * i);
    if (key < border || (key == border && left == 0)) continue;
    if (key == border) left--;
    store<u32>(list, <u32>i);
    list += 4;
  }
  return list;
}

/** Appends the slots [from, to) to a list; returns its end. */
export function all(from: usize, to: usize, list: usize): usize {
  for (let i = from; i < to; i++, list += 4) store<u32>(list, <u32>i);
  return list;
}
