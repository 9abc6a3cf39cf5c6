// @ts-nocheck: AssemblyScript, not TypeScript
// The largest of many numbers: for loops of selectors.

/** Candidates that are compared with one another. */
const FEW: usize = 32;
/** Numbers from which a sample is taken, how many, and how far from the border's place in it bounds are taken. */
const MANY: usize = 256, SAMPLE: usize = 64, APART: f32 = 6;

/** Whether n numbers are all finite. */
export function finite(x: usize, n: usize): bool {
  const most = f32x4.splat(f32.MAX_VALUE);
  let some = i32x4.splat(-1), more = some, i: usize = 0;
  for (; i + 16 <= n; i += 16) {
    const at = x + 4 * i;
    some = v128.and(some, v128.and(f32x4.le(f32x4.abs(v128.load(at)), most), f32x4.le(f32x4.abs(v128.load(at, 16)), most)));
    more = v128.and(more, v128.and(f32x4.le(f32x4.abs(v128.load(at, 32)), most), f32x4.le(f32x4.abs(v128.load(at, 48)), most)));
  }
  let good = i32x4.all_true(v128.and(some, more));
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

/** How many of n numbers equal one. */
function countEqual(x: usize, n: usize, value: f32): usize {
  const v = f32x4.splat(value);
  let some = i32x4.splat(0), i: usize = 0;
  for (; i + 4 <= n; i += 4) some = i32x4.sub(some, f32x4.eq(v128.load(x + 4 * i), v));
  let count = i32x4.extract_lane(some, 0) + i32x4.extract_lane(some, 1) + i32x4.extract_lane(some, 2) + i32x4.extract_lane(some, 3);
  for (; i < n; i++) count += i32(load<f32>(x + 4 * i) == value);
  return <usize>count;
}

/** Copies the numbers in (low, high] to `to`, which may be where they lie, and three that mean nothing after them; returns their end. */
function between(x: usize, n: usize, low: f32, high: f32, to: usize): usize {
  const a = f32x4.splat(low), b = f32x4.splat(high);
  let i: usize = 0;
  for (; i + 4 <= n; i += 4) {
    const v = v128.load(x + 4 * i), lanes = i32x4.bitmask(v128.and(f32x4.gt(v, a), f32x4.le(v, b)));
    // every number is stored, and those that stay out are stored over: no branch that processors must foresee
    v128.store32_lane(to, v, 0);
    to += 4 * <usize>(lanes & 1);
    v128.store32_lane(to, v, 1);
    to += 2 * <usize>(lanes & 2);
    v128.store32_lane(to, v, 2);
    to += <usize>(lanes & 4);
    v128.store32_lane(to, v, 3);
    to += <usize>(lanes & 8) >> 1;
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
 * Writes two numbers of a sample, of which the lower is about APART places below `place` in it and the upper as many
 * above: infinities where it has none.
 */
function bracket(sample: usize, place: f32, to: usize): void {
  let least = -Infinity as f32, most = Infinity as f32;
  for (let i: usize = 0; i < SAMPLE; i++) {
    const v = v128.load32_splat(sample + 4 * i);
    let above = i32x4.splat(0);
    for (let k: usize = 0; k < SAMPLE; k += 4) above = i32x4.sub(above, f32x4.gt(v128.load(sample + 4 * k), v));
    const two = i32x4.add(above, v128.shuffle<i32>(above, above, 2, 3, 0, 1));
    const below = <f32>(i32x4.extract_lane(two, 0) + i32x4.extract_lane(two, 1)) - place, number = f32x4.extract_lane(v, 0);
    least = below >= APART ? max<f32>(least, number) : least;
    most = below <= -APART ? min<f32>(most, number) : most;
  }
  store<f32>(to, least);
  store<f32>(to, most, 4);
}

/**
 * The `room`-th largest of n finite numbers (1 <= room <= n), and to `left` how many that are equal to it belong to the
 * `room` largest. Of many numbers, only those between two of a sample are looked at, if the border is one of them. Halves
 * the range of values that it may have, then ranks the few numbers in it. `work`: room for n + 3, and for a sample.
 */
export function border(x: usize, n: usize, room: usize, work: usize, left: usize): f32 {
  if (n >= MANY) {
    for (let i: usize = 0; i < SAMPLE; i++) store<f32>(work + 4 * i, load<f32>(x + 4 * (i * n / SAMPLE)));
    bracket(work, <f32>SAMPLE * <f32>room / <f32>n, work + 4 * SAMPLE);
    const least = load<f32>(work, 4 * SAMPLE), most = load<f32>(work, 4 * SAMPLE + 4);
    const over = countAbove(x, n, most), some = (between(x, n, least, most, work) - work) >> 2;
    if (over < room && room <= over + some) {
      x = work;
      n = some;
      room -= over;
    }
  }
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
    if (more + countEqual(work, n, v) < room) continue;
    store<u32>(left, <u32>(room - more));
    return v;
  }
}

/**
 * Appends to `list` the slots [from, to) whose number is above the border, and the first `left` that equal it; returns
 * the end of the list, after which room for three more must be. `x` is the address of the number of slot 0.
 */
export function above(x: usize, from: usize, to: usize, border: f32, left: u32, list: usize): usize {
  const b = f32x4.splat(border);
  let i = from;
  for (; i + 4 <= to; i += 4) {
    const v = v128.load(x + 4 * i), equal = i32x4.bitmask(f32x4.eq(v, b));
    let lanes = i32x4.bitmask(f32x4.gt(v, b));
    for (let bits = equal; bits != 0 && left > 0; bits &= bits - 1, left--) lanes |= 1 << ctz(bits);
    store<u32>(list, <u32>i);
    list += 4 * <usize>(lanes & 1);
    store<u32>(list, <u32>i + 1);
    list += 2 * <usize>(lanes & 2);
    store<u32>(list, <u32>i + 2);
    list += <usize>(lanes & 4);
    store<u32>(list, <u32>i + 3);
    list += <usize>(lanes & 8) >> 1;
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
  const four = i32x4(0, 1, 2, 3);
  let i = from;
  for (; i + 4 <= to; i += 4, list += 16) v128.store(list, i32x4.add(four, i32x4.splat(<i32>i)));
  for (; i < to; i++, list += 4) store<u32>(list, <u32>i);
  return list;
}
