/** How weights lie on the device: plain numbers of 32 or 16 bits, or blocks of 32 numbers with quants and scales apart (Q8_0, Q4_0, Q4_1). */
export type Form = 'f32' | 'f16' | 'bf16' | 'q8_0' | 'q4_0' | 'q4_1';

/** A half by its bits, exactly: `unpack2x16float` may take subnormals for 0, and scales of small weights are subnormal. */
const HALF = /* wgsl */ `
fn half(bits: u32) -> f32 {
  let rest = bits & 0x7fffu;
  let sign = (bits & 0x8000u) << 16u;
  if (rest < 0x400u) { return select(1.0, -1.0, sign != 0u) * f32(rest) * 0x1p-24f; }
  return bitcast<f32>(sign | ((rest << 13u) + 0x38000000u));
}
fn halves(word: u32) -> vec2<f32> { return vec2<f32>(half(word & 0xffffu), half(word >> 16u)); }`;
const SCALE = /* wgsl */ `${HALF}
fn scale(octet: u32) -> f32 { let block = octet / 4u; return half((scales[block / 2u] >> (16u * (block % 2u))) & 0xffffu); }`;
const FOURS = /* wgsl */ `
fn fours(word: u32) -> vec4<f32> { return vec4<f32>((vec4<u32>(word) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u)); }`;

interface Layout {
  /** Element type of the buffer `weights`, and whether there are `scales` (u32). */
  readonly type: string;
  readonly scales: boolean;
  /** What gives octet `at` of the matrix: numbers 8 at to 8 at + 7. */
  readonly source: string;
}

const layouts: Readonly<Record<Form, Layout>> = {
  f32: { type: 'vec4<f32>', scales: false, source: /* wgsl */ `
fn weight(at: u32) -> Octet { return Octet(weights[2u * at], weights[2u * at + 1u]); }` },
  f16: { type: 'vec4<u32>', scales: false, source: /* wgsl */ `${HALF}
fn weight(at: u32) -> Octet { let w = weights[at]; return Octet(vec4<f32>(halves(w.x), halves(w.y)), vec4<f32>(halves(w.z), halves(w.w))); }` },
  bf16: { type: 'vec4<u32>', scales: false, source: /* wgsl */ `
fn pair(word: u32) -> vec2<f32> { return vec2<f32>(bitcast<f32>(word << 16u), bitcast<f32>(word & 0xffff0000u)); }
fn weight(at: u32) -> Octet { let w = weights[at]; return Octet(vec4<f32>(pair(w.x), pair(w.y)), vec4<f32>(pair(w.z), pair(w.w))); }` },
  q8_0: { type: 'vec2<u32>', scales: true, source: /* wgsl */ `${SCALE}
fn bytes(word: u32) -> vec4<f32> { return vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(word) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u)); }
fn weight(at: u32) -> Octet { let w = weights[at]; let d = scale(at); return Octet(d * bytes(w.x), d * bytes(w.y)); }` },
  q4_0: { type: 'u32', scales: true, source: /* wgsl */ `${SCALE}${FOURS}
fn weight(at: u32) -> Octet { let w = weights[at]; let d = scale(at); return Octet(d * (fours(w) - 8.0), d * (fours(w >> 16u) - 8.0)); }` },
  q4_1: { type: 'u32', scales: true, source: /* wgsl */ `${HALF}${FOURS}
fn weight(at: u32) -> Octet { let w = weights[at]; let dm = halves(scales[at / 4u]); return Octet(dm.x * fours(w) + dm.y, dm.x * fours(w >> 16u) + dm.y); }` },
};

/** Buffers and text for reading weights in a form, eight numbers at a time. */
export function weightsOf(form: Form): { readonly buffers: { readonly weights: string; readonly scales?: string }; readonly source: string } {
  const { type, scales, source } = layouts[form];
  return { buffers: { weights: type, ...(scales && { scales: 'u32' }) }, source: `struct Octet { a: vec4<f32>, b: vec4<f32> }${source}` };
}

/**
 * What reads eight numbers of row r of `x` from column 8 o on, 0 beyond `inputs`. `whole`: rows are whole octets that begin at multiples of
 * four elements, and `x` is bound as vec4.
 */
export const inputsOf = (whole: boolean): { readonly type: string; readonly source: string } => (whole
  ? { type: 'vec4<f32>', source: /* wgsl */ `
fn input(row: u32, o: u32) -> Octet { let at = (params.x_at + row * params.x_stride) / 4u + 2u * o; return Octet(x[at], x[at + 1u]); }` }
  : { type: 'f32', source: /* wgsl */ `
fn number(at: u32, i: u32) -> f32 { if (i < params.inputs) { return x[at + i]; } return 0.0; }
fn input(row: u32, o: u32) -> Octet {
  let at = params.x_at + row * params.x_stride;
  let i = 8u * o;
  return Octet(vec4<f32>(number(at, i), number(at, i + 1u), number(at, i + 2u), number(at, i + 3u)), vec4<f32>(number(at, i + 4u), number(at, i + 5u), number(at, i + 6u), number(at, i + 7u)));
}` });
