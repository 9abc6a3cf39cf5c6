// @ts-nocheck: AssemblyScript, not TypeScript
// The loops of LagKV. Rebuild: `node packages/cpu/scripts/build-kernel.mjs`.

import { pair, total } from "../../../cpu/kernel/pairs";

export { base } from "../../../cpu/kernel/kernel";
export { extents } from "../../../cpu/kernel/extents";

/**
 * out[i] = the standard deviation, divided by d - 1, over the channels of row i of x [n, d], each as its share between
 * low and high [parts, d] of every `size` vectors, 0 of a channel without extent. `work` has room for d numbers in f64.
 */
export function spreads(
  x: usize, n: i32, d: i32, size: i32, low: usize, high: usize, work: usize, out: usize,
): void {
  const row = <usize>d << 2, whole = <usize>(d & ~1) << 2;
  for (; n > 0; n -= size, low += row, high += row) {
    for (let c: usize = 0; c < row; c += 4) {
      const extent = <f64>load<f32>(high + c) - <f64>load<f32>(low + c);
      store<f64>(work + 2 * c, extent > 0 ? 1 / extent : 0);
    }
    for (const end = x + <usize>min(n, size) * row; x < end; x += row, out += 4) {
      let shares = f64x2.splat(0), squares = shares;
      for (let c: usize = 0; c < whole; c += 8) {
        const share = f64x2.mul(f64x2.sub(pair(x + c), pair(low + c)), v128.load(work + 2 * c));
        shares = f64x2.add(shares, share);
        squares = f64x2.add(squares, f64x2.mul(share, share));
      }
      let sum = total(shares), square = total(squares);
      if (whole < row) {
        const share = (<f64>load<f32>(x + whole) - <f64>load<f32>(low + whole)) * load<f64>(work + 2 * whole);
        sum += share;
        square += share * share;
      }
      store<f32>(out, <f32>Math.sqrt(Math.max(0, square - sum * sum / <f64>d) / <f64>(d - 1)));
    }
  }
}
