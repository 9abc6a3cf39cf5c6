// @ts-nocheck: AssemblyScript, not TypeScript

/** Σ |x_c| of each channel over x [n, d], in f64, to out [d] f64. */
export function sizes(x: usize, n: i32, d: i32, out: usize): void {
  const row = <usize>d << 2, end = x + <usize>n * row;
  let c: usize = 0;
  for (; c + 16 <= row; c += 16, out += 32) {
    let low = f64x2.splat(0), high = low;
    for (let at = x + c; at < end; at += row) {
      const v = f32x4.abs(v128.load(at));
      low = f64x2.add(low, f64x2.promote_low_f32x4(v));
      high = f64x2.add(high, f64x2.promote_low_f32x4(v128.shuffle<i32>(v, v, 2, 3, 2, 3)));
    }
    v128.store(out, low);
    v128.store(out, high, 16);
  }
  for (; c < row; c += 4, out += 8) {
    let sum: f64 = 0;
    for (let at = x + c; at < end; at += row) sum += <f64>abs(load<f32>(at));
    store<f64>(out, sum);
  }
}
