// @ts-nocheck: AssemblyScript, not TypeScript
// Storing outputs, where a last panel may have fewer than 16.

/** Stores the outputs of panel p, plus their bias. */
// @ts-ignore: decorator
@inline
export function put16(out: usize, outputs: usize, bias: usize, p: usize, f0: v128, f1: v128, f2: v128, f3: v128): void {
  const o = 64 * p;
  if (p * 16 + 16 <= outputs) {
    if (bias) {
      f0 = f32x4.add(f0, v128.load(bias + o));
      f1 = f32x4.add(f1, v128.load(bias + o, 16));
      f2 = f32x4.add(f2, v128.load(bias + o, 32));
      f3 = f32x4.add(f3, v128.load(bias + o, 48));
    }
    v128.store(out + o, f0);
    v128.store(out + o, f1, 16);
    v128.store(out + o, f2, 32);
    v128.store(out + o, f3, 48);
    return;
  }
  const left = outputs - p * 16, b = bias ? bias + o : 0;
  put4(out + o, left, b, f0);
  if (left > 4) put4(out + o + 16, left - 4, b ? b + 16 : 0, f1);
  if (left > 8) put4(out + o + 32, left - 8, b ? b + 32 : 0, f2);
  if (left > 12) put4(out + o + 48, left - 12, b ? b + 48 : 0, f3);
}

/** Stores at most four numbers, plus their bias. */
export function put4(out: usize, left: usize, bias: usize, f: v128): void {
  if (bias) f = f32x4.add(f, some(bias, left));
  if (left >= 4) {
    v128.store(out, f);
    return;
  }
  store<f32>(out, f32x4.extract_lane(f, 0));
  if (left > 1) store<f32>(out, f32x4.extract_lane(f, 1), 4);
  if (left > 2) store<f32>(out, f32x4.extract_lane(f, 2), 8);
}

/** At most four numbers, none behind the last one read. */
export function some(p: usize, left: usize): v128 {
  if (left >= 4) return v128.load(p);
  let v = v128.load32_zero(p);
  if (left > 1) v = f32x4.replace_lane(v, 1, load<f32>(p, 4));
  if (left > 2) v = f32x4.replace_lane(v, 2, load<f32>(p, 8));
  return v;
}
