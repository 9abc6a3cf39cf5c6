import { sumOf } from './sum-of.ts';

/**
 * Returns whole numbers near `targets`, between `floor` and `caps`, that add up to `total` where floor and caps allow
 * it: largest remainders, ties to the earlier entry; what exceeds a cap goes to the others in equal parts.
 */
export function apportion(targets: readonly number[], total: number, floor: number, caps: readonly number[]): number[] {
  const low = caps.map((c) => Math.min(floor, c));
  const room = clamp(total, sumOf(low), sumOf(caps));
  let real = targets.map((t, i) => clamp(t, low[i], caps[i]));
  // clamping moved the sum: shift the entries that can still move, by equal parts, until it is met
  for (
    let left = room - sumOf(real), rounds = 0;
    Math.abs(left) > 1e-9 && rounds < 2 * caps.length + 2;
    left = room - sumOf(real), rounds++
  ) {
    const free = real.map((x, i) => (left > 0 ? x < caps[i] : x > low[i]));
    const count = free.filter(Boolean).length;
    if (count === 0) break;
    real = real.map((x, i) => (free[i] ? clamp(x + left / count, low[i], caps[i]) : x));
  }
  const whole = real.map((x) => Math.floor(x + 1e-9));
  const order = real.map((x, i) => ({ i, rest: x - whole[i] })).sort((a, b) => b.rest - a.rest || a.i - b.i);
  let missing = room - sumOf(whole);
  while (missing > 0)
    for (const { i } of order)
      if (missing > 0 && whole[i] < caps[i]) {
        whole[i]++;
        missing--;
      }
  return whole;
}

const clamp = (x: number, low: number, high: number): number => Math.min(high, Math.max(low, x));
