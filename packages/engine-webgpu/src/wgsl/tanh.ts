/**
 * tanh within a few ULP, also near 0, where `1 - 2 / (e^2x + 1)` cancels, and far out, where WGSL's own may overflow.
 */
export const TANH: string = /* wgsl */ `
fn tanh_of(x: f32) -> f32 {
  if (abs(x) < 0.25) {
    let z = x * x;
    return x * (1.0 + z * (-1.0 / 3.0 + z * (2.0 / 15.0 + z * (-17.0 / 315.0 + z * (62.0 / 2835.0)))));
  }
  return sign(x) * (1.0 - 2.0 / (exp(2.0 * min(abs(x), 40.0)) + 1.0));
}`;
