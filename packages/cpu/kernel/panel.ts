// @ts-nocheck: AssemblyScript, not TypeScript
// Vectors in panels of eight, as `panels` of kernel.ts makes them.

/** The products of a panel x [d][8], d even, with q, to out. */
// @ts-ignore: decorator
@inline
export function panel(x: usize, row: usize, q: usize, out: usize): void {
  let s0 = f32x4.splat(0), s1 = s0, t0 = s0, t1 = s0;
  for (const end = q + row; q < end; q += 8, x += 64) {
    let y = v128.load32_splat(q);
    s0 = f32x4.add(s0, f32x4.mul(y, v128.load(x)));
    t0 = f32x4.add(t0, f32x4.mul(y, v128.load(x, 16)));
    y = v128.load32_splat(q, 4);
    s1 = f32x4.add(s1, f32x4.mul(y, v128.load(x, 32)));
    t1 = f32x4.add(t1, f32x4.mul(y, v128.load(x, 48)));
  }
  v128.store(out, f32x4.add(s0, s1));
  v128.store(out, f32x4.add(t0, t1), 16);
}
