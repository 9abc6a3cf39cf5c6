// @ts-nocheck: AssemblyScript, not TypeScript
// Numbers of f32 memory in f64, two at a time.

/** Two numbers in f64. */
// @ts-ignore: decorator
@inline
export function pair(at: usize): v128 {
  return f64x2.promote_low_f32x4(v128.load64_zero(at));
}
// @ts-ignore: decorator
@inline
export function total(x: v128): f64 {
  return f64x2.extract_lane(x, 0) + f64x2.extract_lane(x, 1);
}
/** Two numbers in f64 to f32. */
// @ts-ignore: decorator
@inline
export function putPair(at: usize, x: v128): void {
  v128.store64_lane(at, f32x4.demote_f64x2_zero(x), 0);
}
