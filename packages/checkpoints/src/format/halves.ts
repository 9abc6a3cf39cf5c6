let table: Float32Array | undefined;

/** Returns the f32 value of every IEEE half, indexed by its 16 bits; 256 KiB, made on the first call. */
export function halves(): Float32Array {
  if (table !== undefined) return table;
  table = new Float32Array(65_536);
  const bits = new Uint32Array(table.buffer);
  for (let half = 0; half < 65_536; half++) bits[half] = widened(half);
  return table;
}

/** Converts the bits of an IEEE half to those of the same number in single precision. */
function widened(half: number): number {
  const sign = (half & 0x8000) << 16;
  const exponent = (half >> 10) & 31;
  const mantissa = half & 0x3ff;
  if (exponent === 31) return sign | 0x7f800000 | (mantissa << 13);
  if (exponent > 0) return sign | ((exponent + 112) << 23) | (mantissa << 13);
  if (mantissa === 0) return sign;
  const shift = Math.clz32(mantissa) - 21;
  return sign | ((113 - shift) << 23) | (((mantissa << shift) & 0x3ff) << 13);
}
