// @ts-nocheck: AssemblyScript, not TypeScript
// The largest of many numbers: for loops of selectors.

/** Candidates that are compared with one another. */
const FEW: usize = 48;

/** Whether n numbers are all finite. */
export function finite(x: usize, n: usize): bool {
  const most = f32x4.splat(f32.MAX_VALUE);
  let all = i32x4.splat(-1), i: usize = 0;
  for (; i + 4 <= n; i += 4) all = v128.and(all, f32x4.le(f32x4.abs(v128.load(x + 4 * i)), most));
  let good = i32x4.bitmask(all) == 15;
  for (; i < n; i++) good = good && Mathf.abs(load<f32>(x + 4 * i)) <= f32.MAX_VALUE;
  return good;
}

/** How many of n numbers are above one. */
function countAbove(x: usize, n: usize, border: f32): usize {
  const b = f32x4.splat(border);
  let some = i32x4.splat(0), more = some, i: usize = 0;
  for (; i + 8 <= n; i += 8) {
    some = i32x4.sub(some, f32x4.gt(v128.load(x + 4 * i), b));
    more = i32x4.sub(more, f32x4.gt(v128.load(x + 4 * i, 16), b));
  }
  some = i32x4.add(some, more);
  let count = i32x4.extract_lane(some, 0) + i32x4.extract_lane(some, 1) + i32x4.extract_lane(some, 2) + i32x4.extract_lane(some, 3);
  for (; i < n; i++) count += i32(load<f32>(x + 4 * i) > border);
  return <usize>count;
}

/** Copies the numbers in (low, high] to `to`, which may be where they lie; returns their end. */
function between(x: usize, n: usize, low: f32, high: f32, to: usize): usize {
  const a = f32x4.splat(low), b = f32x4.splat(high);
  let i: usize = 0;
  for (; i + 4 <= n; i += 4) {
    const v = v128.load(x + 4 * i);
    for (let bits = i32x4.bitmask(v128.and(f32x4.gt(v, a), f32x4.le(v, b))); bits != 0; bits &= bits - 1, to += 4)
      store<f32>(to, load<f32>(x + 4 * (i + <usize>ctz(bits))));
  }
  for (; i < n; i++) {
    const v = load<f32>(x + 4 * i);
    if (v > low && v <= high) {
      store<f32>(to, v);
      to += 4;
    }
  }
  return to;
}

/**
 * The `room`-th largest of n finite numbers (1 <= room <= n), and to `left` how many that are equal to it belong to the
 * `room` largest. Halves the range of values that it may have, then ranks the few numbers in it. `work`: room for n.
 */
export function border(x: usize, n: usize, room: usize, work: usize, left: usize): f32 {
  let lows = f32x4.splat(Infinity), highs = f32x4.splat(-Infinity), at: usize = 0;
  for (; at + 4 <= n; at += 4) {
    const v = v128.load(x + 4 * at);
    lows = f32x4.pmin(lows, v);
    highs = f32x4.pmax(highs, v);
  }
  let low = min<f32>(min<f32>(f32x4.extract_lane(lows, 0), f32x4.extract_lane(lows, 1)), min<f32>(f32x4.extract_lane(lows, 2), f32x4.extract_lane(lows, 3)));
  let high = max<f32>(max<f32>(f32x4.extract_lane(highs, 0), f32x4.extract_lane(highs, 1)), max<f32>(f32x4.extract_lane(highs, 2), f32x4.extract_lane(highs, 3)));
  for (let i = at; i < n; i++) {
    const v = load<f32>(x + 4 * i);
    low = min<f32>(low, v);
    high = max<f32>(high, v);
  }
  // the border is in (low, high]: numbers above `low`, of which `over` are above `high`
  const least = countAbove(x, n, low);
  if (least < room) {
    store<u32>(left, <u32>(room - least));
    return low;
  }
  let some = least, over: usize = 0;
  while (some - over > FEW) {
    const middle = low * <f32>0.5 + high * <f32>0.5;
    if (!(middle > low && middle < high)) {
      // neighbours: all of them are equal
      store<u32>(left, <u32>(room - over));
      return high;
    }
    const count = countAbove(x, n, middle);
    if (count >= room) {
      low = middle;
      some = count;
    } else {
      high = middle;
      over = count;
    }
    if ((some - over) << 2 < n) {
      n = (between(x, n, low, high, work) - work) >> 2;
      x = work;
      room -= over;
      some = n;
      over = 0;
    }
  }
  n = (between(x, n, low, high, work) - work) >> 2;
  room -= over;
  for (let i: usize = 0; ; i++) {
    const v = load<f32>(work + 4 * i), more = countAbove(work, n, v);
    if (more >= room) continue;
    let equal: usize = 0;
    for (let k: usize = 0; k < n; k++) equal += usize(load<f32>(work + 4 * k) == v);
    if (more + equal < room) continue;
    store<u32>(left, <u32>(room - more));
    return v;
  }
}

/**
 * Appends to `list` the slots [from, to) whose number is above the border, and the first `left` that equal it; returns
 * the end of the list. `x` is the address of the number of slot 0.
 */
export function above(x: usize, from: usize, to: usize, border: f32, left: u32, list: usize): usize {
  const b = f32x4.splat(border);
  let i = from;
  for (; i + 4 <= to; i += 4)
    for (let bits = i32x4.bitmask(f32x4.ge(v128.load(x + 4 * i), b)); bits != 0; bits &= bits - 1) {
      const slot = i + <usize>ctz(bits);
      if (load<f32>(x + 4 * slot) == border) {
        if (left == 0) continue;
        left--;
      }
      store<u32>(list, <u32>slot);
      list += 4;
    }
  for (; i < to; i++) {
    const v = load<f32>(x + 4 * i);
    if (v < border || (v == border && left == 0)) continue;
    left -= u32(v == border);
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
