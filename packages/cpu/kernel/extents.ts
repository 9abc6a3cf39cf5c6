// @ts-nocheck: AssemblyScript, not TypeScript

/** The least and the largest number of each channel in every `size` vectors of x [n, d], to low and high [parts, d]. */
export function extents(x: usize, n: i32, d: i32, size: i32, low: usize, high: usize): void {
  const row = <usize>d << 2;
  for (; n > 0; n -= size, low += row, high += row) {
    const end = x + <usize>min(n, size) * row;
    let c: usize = 0;
    for (; c + 16 <= row; c += 16) {
      let l = v128.load(x + c), h = l;
      for (let at = x + c + row; at < end; at += row) {
        const v = v128.load(at);
        l = f32x4.pmin(l, v);
        h = f32x4.pmax(h, v);
      }
      v128.store(low + c, l);
      v128.store(high + c, h);
    }
    for (; c < row; c += 4) {
      let l = load<f32>(x + c), h = l;
      for (let at = x + c + row; at < end; at += row) {
        const v = load<f32>(at);
        l = min(l, v);
        h = max(h, v);
      }
      store<f32>(low + c, l);
      store<f32>(high + c, h);
    }
    x = end;
  }
}
