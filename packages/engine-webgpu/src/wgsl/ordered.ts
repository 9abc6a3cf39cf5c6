/** The order of f32 numbers as u32, by their bits: -0 and +0 the same, NaN below everything. */
export const ORDERED: string = /* wgsl */ `
fn ordered(bits: u32) -> u32 {
  if ((bits & 0x7fffffffu) > 0x7f800000u) { return 0u; }
  if ((bits << 1u) == 0u) { return 0x80000000u; }
  return select(bits | 0x80000000u, ~bits, (bits >> 31u) == 1u);
}`;
