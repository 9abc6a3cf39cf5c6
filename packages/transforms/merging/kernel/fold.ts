// @ts-nocheck: AssemblyScript, not TypeScript
// The loop of merging. Rebuild: `node packages/cpu/scripts/build-kernel.mjs`.

import { pair, putPair } from "../../../cpu/kernel/pairs";

export { base } from "../../../cpu/kernel/kernel";

/**
 * x[i] = (x[i] + the sum of w[e] x[e]) / (1 + the sum of w[e]) over the rows e with into[e] = i: x [n, d], d even; acc
 * has room for f64 [n, d + 1].
 */
export function blend(x: usize, n: u32, d: i32, into: usize, w: usize, acc: usize): void {
  const row = <usize>d << 2, wide = 2 * row + 8, end = x + <usize>n * row;
  for (let p = x, to = acc; p < end; p += row, to += wide) {
    for (let c: usize = 0; c < row; c += 8) v128.store(to + 2 * c, pair(p + c));
    store<f64>(to + 2 * row, 1);
  }
  for (let p = x; p < end; p += row, into += 4, w += 4) {
    const weight = <f64>load<f32>(w), by = f64x2.splat(weight), to = acc + <usize>min(load<u32>(into), n - 1) * wide;
    if (weight == 0) continue;
    for (let c: usize = 0; c < row; c += 8)
      v128.store(to + 2 * c, f64x2.add(v128.load(to + 2 * c), f64x2.mul(by, pair(p + c))));
    store<f64>(to + 2 * row, load<f64>(to + 2 * row) + weight);
  }
  for (let p = x, from = acc; p < end; p += row, from += wide) {
    const mass = v128.load64_splat(from + 2 * row);
    for (let c: usize = 0; c < row; c += 8) putPair(p + c, f64x2.div(v128.load(from + 2 * c), mass));
  }
}
