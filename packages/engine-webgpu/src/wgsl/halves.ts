/**
 * Decodes an f16 number from its bits, exactly: `unpack2x16float` may flush subnormals to 0, and scales of small
 * numbers are subnormal.
 */
export const HALF: string = /* wgsl */ `
fn half(bits: u32) -> f32 {
  let rest = bits & 0x7fffu;
  let sign = (bits & 0x8000u) << 16u;
  if (rest < 0x400u) { return select(1.0, -1.0, sign != 0u) * f32(rest) * 0x1p-24f; }
  return bitcast<f32>(sign | ((rest << 13u) + 0x38000000u));
}
fn halves(word: u32) -> vec2<f32> { return vec2<f32>(half(word & 0xffffu), half(word >> 16u)); }`;

/**
 * Encodes an f16 number, as the host's `toHalf` does: to the nearest, ties to even, at most 65504 in size.
 * `pack2x16float` may round either way, and to infinity.
 */
export const TO_HALF: string = /* wgsl */ `
fn to_half(x: f32) -> u32 {
  let bits = bitcast<u32>(x) & 0x7fffffffu;
  var code = u32(round(abs(x) * 0x1p24f)); // subnormal, or the least normal one
  if (bits >= 0x38800000u) { code = min(0x7bffu, (bits - 0x38000000u + 0xfffu + ((bits >> 13u) & 1u)) >> 13u); }
  return select(code, code | 0x8000u, x < 0.0);
}`;
