// @ts-nocheck: AssemblyScript, not TypeScript
// The three instruction forms of the module; FORM is set where it is compiled.
//   0  plain SIMD: 8-bit numbers are widened to 16 bits and multiplied by i32x4.dot_i16x8_s
//   1  relaxed SIMD, i16x8.relaxed_dot_i8x16_i7x16_s: sums of two products, added up in 16 bits
//   2  relaxed SIMD, i32x4.relaxed_dot_i8x16_i7x16_add_s: sums of four products, added up in 32 bits
// In all of them a lane of 32 bits is an output, its four bytes four inputs.

/** How codes of 8 bits meet the dot of FORM 2: 0 as two digits of 4 bits, 1 unsigned (code + 128), 2 signed. */
export let WIDE: i32 = 0;

// V8 makes about ten instructions of f32x4.max, which passes NaN on, and six of i32x4.trunc_sat_f32x4_s; f32x4.pmax and
// the sum with 1.5 * 2^23 that rounds below are one each.
//
// V8 makes a vector constant anew wherever it is used, from Node 22 on: three instructions, two of them on one port.
// These are loaded instead, from the bytes that the module keeps for itself.
//
// V8 can compile two vectors to one of 256 bits where a pair of stores, side by side and with nothing read in between,
// ends what is the same for both: loads side by side, or of one number for all lanes, and no branch on one of the two.

const TABLE: usize = 256;
const DIGIT: usize = 0, FLIP: usize = 1, FIFTH: usize = 2, UPPER: usize = 3, BITS: usize = 4, UNIT: usize = 5, DEAD: usize = 6,
  LOG2E: usize = 7, LN2: usize = 8, LN2_REST: usize = 9, POWERS: usize = 10, ONE: usize = 16, WHOLE: usize = 17, CUBIC: usize = 18, FAR: usize = 22, ZEROS: usize = 23, PAIR: usize = 25, MIDDLES: usize = 26;

// @ts-ignore: decorator
@inline
function constant(i: usize): v128 {
  return v128.load32_splat(TABLE + 16 * i);
}

function put(i: usize, x: v128): void {
  v128.store(TABLE + 16 * i, x);
}

/** Before anything else: how codes of 8 bits are multiplied; places the constants. */
export function setWide(wide: i32): void {
  WIDE = wide;
  put(DIGIT, i8x16.splat(15));
  put(FLIP, i8x16.splat(wide == 2 ? 0 : -128));
  put(FIFTH, i8x16.splat(16));
  put(UPPER, i8x16.splat(48));
  put(BITS, i32x4.splat(HALF_BITS));
  put(UNIT, f32x4.splat(HALF_UNIT));
  put(DEAD, f32x4.splat(-87.0));
  put(LOG2E, f32x4.splat(1.44269504088896341));
  put(LN2, f32x4.splat(0.693359375));
  put(LN2_REST, f32x4.splat(-2.12194440e-4));
  put(POWERS, f32x4.splat(1.9875691500e-4));
  put(POWERS + 1, f32x4.splat(1.3981999507e-3));
  put(POWERS + 2, f32x4.splat(8.3334519073e-3));
  put(POWERS + 3, f32x4.splat(4.1665795894e-2));
  put(POWERS + 4, f32x4.splat(1.6666665459e-1));
  put(POWERS + 5, f32x4.splat(5.0000001201e-1));
  put(ONE, f32x4.splat(1.0));
  put(WHOLE, f32x4.splat(12582912.0));
  put(CUBIC, f32x4.splat(5.5171669e-2));
  put(CUBIC + 1, f32x4.splat(2.4261113e-1));
  put(CUBIC + 2, f32x4.splat(6.9326099e-1));
  put(CUBIC + 3, f32x4.splat(9.9992807e-1));
  put(FAR, f32x4.splat(-100.0));
  for (let i = 0; i < 2; i++) put(ZEROS + i, f32x4.splat(0));
  put(PAIR, i16x8.splat(1));
  put(MIDDLES, f32x4.splat(-8.0));
  put(MIDDLES + 1, f32x4.splat(-16.0));
  put(MIDDLES + 2, f32x4.splat(-32.0));
  put(MIDDLES + 3, f32x4.splat(wide == 2 ? 0 : -128.0));
}

/** 15 in every byte. */
// @ts-ignore: decorator
@inline
export function digit(): v128 {
  return constant(DIGIT);
}
/** What makes signed bytes of 8-bit codes what the dot takes. */
// @ts-ignore: decorator
@inline
export function flip(): v128 {
  return constant(FLIP);
}
/** 16, or 48, in every byte. */
// @ts-ignore: decorator
@inline
export function fifth(): v128 {
  return constant(FIFTH);
}
// @ts-ignore: decorator
@inline
export function upperTwo(): v128 {
  return constant(UPPER);
}
/** Returns minus the code that stands for zero, for codes of this many bits. */
// @ts-ignore: decorator
@inline
export function lessMiddle(bits: i32): v128 {
  return constant(MIDDLES + (bits == 4 ? 0 : bits == 5 ? 1 : bits == 6 ? 2 : 3));
}
/** Where eight zeros lie. */
// @ts-ignore: decorator
@inline
export function zeros(): usize {
  return TABLE + 16 * ZEROS;
}
/** What `halves` wants. */
// @ts-ignore: decorator
@inline
export function halfBits(): v128 {
  return constant(BITS);
}
// @ts-ignore: decorator
@inline
export function halfUnit(): v128 {
  return constant(UNIT);
}

/** Bytes of an activation. */
export const XB: usize = FORM == 0 ? 2 : 1;

/**
 * acc + codes (u8, four a lane) times four activations, the same in every lane; acc as `widen` takes it. In FORM 0 x are
 * those of the first and the third code of a lane, y the others.
 */
// @ts-ignore: decorator
@inline
export function dot(x: v128, y: v128, codes: v128, acc: v128): v128 {
  if (FORM == 2) return i32x4.relaxed_dot_i8x16_i7x16_add_s(x, codes, acc);
  if (FORM == 1) return i16x8.add(acc, i16x8.relaxed_dot_i8x16_i7x16_s(x, codes));
  const even = i32x4.dot_i16x8_s(x, v128.and(codes, i16x8.splat(0xff))), odd = i32x4.dot_i16x8_s(y, i16x8.shr_u(codes, 8));
  return i32x4.add(acc, i32x4.add(even, odd));
}

/** The same without an acc. */
// @ts-ignore: decorator
@inline
export function dot0(x: v128, y: v128, codes: v128): v128 {
  return FORM == 1 ? i16x8.relaxed_dot_i8x16_i7x16_s(x, codes) : dot(x, y, codes, i32x4.splat(0));
}

/** The sums of a few dots, i32 a lane. In FORM 1 sums must fit 16 bits: 8 dots of 4-bit codes, 4 of 5, 2 of 6. */
// @ts-ignore: decorator
@inline
export function widen(acc: v128): v128 {
  return FORM == 1 ? i32x4.dot_i16x8_s(acc, constant(PAIR)) : acc;
}

/** a * b + c, fused where the form allows it. */
// @ts-ignore: decorator
@inline
export function fma(a: v128, b: v128, c: v128): v128 {
  return FORM == 0 ? f32x4.add(f32x4.mul(a, b), c) : f32x4.relaxed_madd(a, b, c);
}

/** Bits of a half that move to their places in f32, and 2^112, which makes up for the bias, of subnormal ones too. */
const HALF_BITS: i32 = 0x8fffe000;
const HALF_UNIT: f32 = 5.192296858534828e33;

/** Four halves (not infinite), whose bits are extended with their sign, as f32; `bits` and `unit` hold the above. */
// @ts-ignore: decorator
@inline
export function halves(v: v128, bits: v128, unit: v128): v128 {
  return f32x4.mul(v128.and(i32x4.shl(v, 13), bits), unit);
}

/** A half (not infinite) as f32. */
export function half(p: usize): f32 {
  return reinterpret<f32>((<i32>load<i16>(p) << 13) & HALF_BITS) * HALF_UNIT;
}

/** Four bfloat16 as f32. */
// @ts-ignore: decorator
@inline
export function brains(p: usize): v128 {
  return i32x4.shl(v128.load_ext<u16>(p), 16);
}

// @ts-ignore: decorator
@inline
export function sum4(s: v128): f32 {
  return f32x4.extract_lane(s, 0) + f32x4.extract_lane(s, 1) + (f32x4.extract_lane(s, 2) + f32x4.extract_lane(s, 3));
}

/** The largest of four numbers; a NaN may be passed over. */
// @ts-ignore: decorator
@inline
export function max4(s: v128): f32 {
  const t = f32x4.pmax(s, v128.shuffle<f32>(s, s, 2, 3, 0, 1));
  return f32x4.extract_lane(f32x4.pmax(t, v128.shuffle<f32>(t, t, 1, 0, 3, 2)), 0);
}

/** The larger of magnitudes, compared as integers, which have the same order: a NaN is the largest. */
// @ts-ignore: decorator
@inline
export function larger(a: v128, b: v128): v128 {
  return i32x4.max_s(a, b);
}

/** The largest of four magnitudes. */
// @ts-ignore: decorator
@inline
export function largest4(s: v128): f32 {
  const t = larger(s, v128.shuffle<f32>(s, s, 2, 3, 0, 1));
  return f32x4.extract_lane(larger(t, v128.shuffle<f32>(t, t, 1, 0, 3, 2)), 0);
}

/** c - a * b, fused where the form allows it. */
// @ts-ignore: decorator
@inline
function less(a: v128, b: v128, c: v128): v128 {
  return FORM == 0 ? f32x4.sub(c, f32x4.mul(a, b)) : f32x4.relaxed_nmadd(a, b, c);
}

/** x + 1.5 * 2^23, for |x| < 2^22: its last bits are the nearest whole number. */
// @ts-ignore: decorator
@inline
function shifted(x: v128): v128 {
  return f32x4.add(x, constant(WHOLE));
}

/** The nearest whole numbers, i32, for |x| < 2^22. */
// @ts-ignore: decorator
@inline
export function wholes(x: v128): v128 {
  return i32x4.sub(shifted(x), constant(WHOLE));
}

/** e^x for x <= 0, about 1 ulp; exactly 0 below -87 (and at -Infinity). */
// @ts-ignore: decorator
@inline
export function exp4(x: v128): v128 {
  const dead = f32x4.lt(x, constant(DEAD));
  x = f32x4.pmax(x, constant(DEAD));
  const power = shifted(f32x4.mul(x, constant(LOG2E))), n = f32x4.sub(power, constant(WHOLE));
  x = less(n, constant(LN2_REST), less(n, constant(LN2), x));
  let y = constant(POWERS);
  y = fma(y, x, constant(POWERS + 1));
  y = fma(y, x, constant(POWERS + 2));
  y = fma(y, x, constant(POWERS + 3));
  y = fma(y, x, constant(POWERS + 4));
  y = fma(y, x, constant(POWERS + 5));
  y = f32x4.add(fma(y, f32x4.mul(x, x), x), constant(ONE));
  return v128.andnot(i32x4.add(y, i32x4.shl(power, 23)), dead);
}

/** The whole numbers nearest to e^x * 2^shift, below 2^22: the power is exact to 0.01 %. */
// @ts-ignore: decorator
@inline
export function codes4(x: v128, shift: v128): v128 {
  x = f32x4.pmax(fma(x, constant(LOG2E), shift), constant(FAR));
  const power = shifted(x);
  x = f32x4.sub(x, f32x4.sub(power, constant(WHOLE)));
  const y = fma(fma(fma(constant(CUBIC), x, constant(CUBIC + 1)), x, constant(CUBIC + 2)), x, constant(CUBIC + 3));
  return wholes(i32x4.add(y, i32x4.shl(power, 23)));
}

/** 1 / (1 + e^-x), for any x. */
// @ts-ignore: decorator
@inline
export function sigmoid4(x: v128): v128 {
  const e = exp4(f32x4.neg(f32x4.abs(x))), one = constant(ONE);
  return f32x4.div(v128.bitselect(one, e, f32x4.ge(x, f32x4.splat(0))), f32x4.add(one, e));
}

/** tanh(x) for any x, within 2e-7. */
// @ts-ignore: decorator
@inline
export function tanh4(x: v128): v128 {
  // of |x|: (1 - e) / (1 + e), e = exp(-2 |x|); near 0, where 1 - e cancels, x - x³ / 3 + 2 x⁵ / 15
  const size = f32x4.abs(x), one = constant(ONE), e = exp4(f32x4.mul(size, f32x4.splat(-2.0)));
  const far = f32x4.div(f32x4.sub(one, e), f32x4.add(one, e)), square = f32x4.mul(x, x);
  const near = f32x4.mul(size, fma(square, fma(square, f32x4.splat(0.13333334), f32x4.splat(-0.33333334)), one));
  const y = v128.bitselect(near, far, f32x4.lt(size, f32x4.splat(0.05)));
  return v128.bitselect(x, y, i32x4.splat(0x80000000));
}

// Not fused in any form, so that @kv/engine's f32.ts gives the same to the bit.

/** e^x, within about 1 ulp: exactly 0 below -87, and e^88 above 88. */
// @ts-ignore: decorator
@inline
export function plainExp4(x: v128): v128 {
  const dead = f32x4.lt(x, constant(DEAD));
  x = f32x4.pmin(f32x4.pmax(x, constant(DEAD)), f32x4.splat(88.0));
  const power = shifted(f32x4.mul(x, constant(LOG2E))), n = f32x4.sub(power, constant(WHOLE));
  x = f32x4.sub(f32x4.sub(x, f32x4.mul(n, constant(LN2))), f32x4.mul(n, constant(LN2_REST)));
  let y = constant(POWERS);
  y = f32x4.add(f32x4.mul(y, x), constant(POWERS + 1));
  y = f32x4.add(f32x4.mul(y, x), constant(POWERS + 2));
  y = f32x4.add(f32x4.mul(y, x), constant(POWERS + 3));
  y = f32x4.add(f32x4.mul(y, x), constant(POWERS + 4));
  y = f32x4.add(f32x4.mul(y, x), constant(POWERS + 5));
  y = f32x4.add(f32x4.add(f32x4.mul(y, f32x4.mul(x, x)), x), constant(ONE));
  return v128.andnot(i32x4.add(y, i32x4.shl(power, 23)), dead);
}

/** 1 / (1 + e^-x) */
// @ts-ignore: decorator
@inline
export function plainSigmoid4(x: v128): v128 {
  const e = plainExp4(f32x4.neg(f32x4.abs(x))), one = constant(ONE);
  return f32x4.div(v128.bitselect(one, e, f32x4.ge(x, f32x4.splat(0))), f32x4.add(one, e));
}

/** ln(1 + e^x) */
export function plainSoftplus4(x: v128): v128 {
  const e = plainExp4(f32x4.neg(f32x4.abs(x))), s = f32x4.div(e, f32x4.add(f32x4.splat(2), e)), square = f32x4.mul(s, s);
  let y = f32x4.splat(1.0 / 15.0);
  for (let n: f32 = 13; n > 2; n -= 2) y = f32x4.add(f32x4.mul(y, square), f32x4.splat(1 / n));
  const log = f32x4.mul(f32x4.mul(f32x4.splat(2), s), f32x4.add(f32x4.mul(y, square), constant(ONE)));
  return f32x4.add(f32x4.pmax(x, f32x4.splat(0)), log);
}
