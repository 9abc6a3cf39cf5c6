/** 1 / (1 + e^-x), whose exponent never overflows. */
export const SIGMOID: string = /* wgsl */ `
fn sigmoid_of(x: f32) -> f32 {
  let e = exp(-abs(x));
  return select(e, 1.0, x >= 0.0) / (1.0 + e);
}`;
