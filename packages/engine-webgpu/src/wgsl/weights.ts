import { HALF } from './halves.ts';

/**
 * Forms of weights on the device: plain numbers of 32 or 16 bits, or blocks with quants and scales in separate buffers,
 * of 32 numbers with one scale, which of MXFP4 is a power of two, or of 256 with eight or sixteen scales (K).
 */
export type WeightFormat =
  | 'f32'
  | 'f16'
  | 'bf16'
  | 'q8_0'
  | 'q4_0'
  | 'q4_1'
  | 'q5_0'
  | 'q5_1'
  | 'q4_k'
  | 'q5_k'
  | 'q6_k'
  | 'mxfp4';

const SCALE = /* wgsl */ `${HALF}
fn scale(octet: u32) -> f32 { let block = octet / 4u; return half((scales[block / 2u] >> (16u * (block % 2u))) & 0xffffu); }`;
const FOURS = /* wgsl */ `
fn fours(word: u32) -> vec4<f32> { return vec4<f32>((vec4<u32>(word) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u)); }`;

/** Octets of 5 bits: four words of low bits, then one of the fifth bits of all 32 numbers. */
const FIVES = /* wgsl */ `${FOURS}
fn fifth(bits: u32) -> vec4<f32> { return vec4<f32>((vec4<u32>(bits) << vec4<u32>(4u, 3u, 2u, 1u)) & vec4<u32>(16u)); }
fn quants(at: u32) -> Octet {
  let block = at / 4u * 5u;
  let w = weights[block + at % 4u];
  let high = weights[block + 4u] >> (8u * (at % 4u));
  return Octet(fours(w) + fifth(high), fours(w >> 16u) + fifth(high >> 4u));
}`;
const KS = /* wgsl */ `${HALF}
// scale and minimum of 32 numbers: halves of the block, each times 6 bits, those of eight in 12 bytes
fn scales_of(octet: u32) -> vec2<f32> {
  let block = octet / 32u * 4u;
  let shift = octet / 4u % 4u * 8u;
  let a = (scales[block + 1u] >> shift) & 255u;
  let b = (scales[block + 2u] >> shift) & 255u;
  let c = (scales[block + 3u] >> shift) & 255u;
  let six = select(vec2<u32>((c & 15u) | ((a >> 6u) << 4u), (c >> 4u) | ((b >> 6u) << 4u)), vec2<u32>(a & 63u, b & 63u), octet % 32u < 16u);
  return halves(scales[block]) * vec2<f32>(six);
}`;

interface Layout {
  /** Element type of the buffer `weights`, and whether there are `scales` (u32). */
  readonly type: string;
  readonly scales: boolean;
  /** Source of a function that returns octet `at` of the matrix: numbers 8 at to 8 at + 7. */
  readonly source: string;
}

const layouts: Readonly<Record<WeightFormat, Layout>> = {
  f32: {
    type: 'vec4<f32>',
    scales: false,
    source: /* wgsl */ `
fn weight(at: u32) -> Octet { return Octet(weights[2u * at], weights[2u * at + 1u]); }`,
  },
  f16: {
    type: 'vec4<u32>',
    scales: false,
    source: /* wgsl */ `${HALF}
fn weight(at: u32) -> Octet { let w = weights[at]; return Octet(vec4<f32>(halves(w.x), halves(w.y)), vec4<f32>(halves(w.z), halves(w.w))); }`,
  },
  bf16: {
    type: 'vec4<u32>',
    scales: false,
    source: /* wgsl */ `
fn pair(word: u32) -> vec2<f32> { return vec2<f32>(bitcast<f32>(word << 16u), bitcast<f32>(word & 0xffff0000u)); }
fn weight(at: u32) -> Octet { let w = weights[at]; return Octet(vec4<f32>(pair(w.x), pair(w.y)), vec4<f32>(pair(w.z), pair(w.w))); }`,
  },
  q8_0: {
    type: 'vec2<u32>',
    scales: true,
    source: /* wgsl */ `${SCALE}
fn bytes(word: u32) -> vec4<f32> { return vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(word) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u)); }
fn weight(at: u32) -> Octet { let w = weights[at]; let d = scale(at); return Octet(d * bytes(w.x), d * bytes(w.y)); }`,
  },
  q4_0: {
    type: 'u32',
    scales: true,
    source: /* wgsl */ `${SCALE}${FOURS}
fn weight(at: u32) -> Octet { let w = weights[at]; let d = scale(at); return Octet(d * (fours(w) - 8.0), d * (fours(w >> 16u) - 8.0)); }`,
  },
  q4_1: {
    type: 'u32',
    scales: true,
    source: /* wgsl */ `${HALF}${FOURS}
fn weight(at: u32) -> Octet { let w = weights[at]; let dm = halves(scales[at / 4u]); return Octet(dm.x * fours(w) + dm.y, dm.x * fours(w >> 16u) + dm.y); }`,
  },
  q5_0: {
    type: 'u32',
    scales: true,
    source: /* wgsl */ `${SCALE}${FIVES}
fn weight(at: u32) -> Octet { let q = quants(at); let d = scale(at); return Octet(d * (q.a - 16.0), d * (q.b - 16.0)); }`,
  },
  q5_1: {
    type: 'u32',
    scales: true,
    source: /* wgsl */ `${HALF}${FIVES}
fn weight(at: u32) -> Octet { let q = quants(at); let dm = halves(scales[at / 4u]); return Octet(dm.x * q.a + dm.y, dm.x * q.b + dm.y); }`,
  },
  q4_k: {
    type: 'u32',
    scales: true,
    source: /* wgsl */ `${KS}${FOURS}
fn weight(at: u32) -> Octet { let w = weights[at]; let dm = scales_of(at); return Octet(dm.x * fours(w) - dm.y, dm.x * fours(w >> 16u) - dm.y); }`,
  },
  q5_k: {
    type: 'u32',
    scales: true,
    source: /* wgsl */ `${KS}${FIVES}
fn weight(at: u32) -> Octet { let q = quants(at); let dm = scales_of(at); return Octet(dm.x * q.a - dm.y, dm.x * q.b - dm.y); }`,
  },
  q6_k: {
    type: 'u32',
    scales: true,
    source: /* wgsl */ `${HALF}${FOURS}
fn word16(at: u32) -> u32 { return (scales[at / 2u] >> (16u * (at % 2u))) & 0xffffu; }
fn upper(bits: u32) -> vec4<f32> { return vec4<f32>(((vec4<u32>(bits) << vec4<u32>(4u, 2u, 0u, 0u)) >> vec4<u32>(0u, 0u, 0u, 2u)) & vec4<u32>(48u)); }
// low bits of 32 numbers in four words, their upper two bits in two; the scale of a block, then 16 of 8 bits
fn weight(at: u32) -> Octet {
  let block = at / 4u * 6u;
  let w = weights[block + at % 4u];
  let high = weights[block + 4u + at % 4u / 2u] >> (16u * (at % 2u));
  let from_ = at / 32u * 9u;
  let sub = at % 32u / 2u;
  let own = bitcast<i32>(word16(from_ + 1u + sub / 2u) << (24u - 8u * (sub % 2u))) >> 24u;
  let d = half(word16(from_)) * f32(own);
  return Octet(d * (fours(w) + upper(high) - 32.0), d * (fours(w >> 16u) + upper(high >> 8u) - 32.0));
}`,
  },
  mxfp4: {
    type: 'u32',
    scales: true,
    source: /* wgsl */ `
// 2^(e - 127) in two factors, of which neither is subnormal
fn power(at: u32) -> vec2<f32> {
  let block = at / 4u;
  let e = (scales[block / 2u] >> (16u * (block % 2u))) & 255u;
  return vec2<f32>(bitcast<f32>((e / 2u + 64u) << 23u), bitcast<f32>((e - e / 2u + 63u) << 23u));
}
// twice the sizes 0, .5, 1, 1.5, 2, 3, 4, 6, with their signs
fn floats(word: u32) -> vec4<f32> {
  let n = vec4<u32>(word) >> vec4<u32>(0u, 4u, 8u, 12u);
  let size = n & vec4<u32>(7u);
  let large = (vec4<u32>(2u) + (size & vec4<u32>(1u))) << (max(size >> vec4<u32>(1u), vec4<u32>(1u)) - vec4<u32>(1u));
  let twice = vec4<f32>(select(size, large, size > vec4<u32>(3u)));
  return select(twice, -twice, (n & vec4<u32>(8u)) != vec4<u32>());
}
fn weight(at: u32) -> Octet {
  let w = weights[at];
  let d = power(at);
  return Octet(d.x * (0.5 * d.y * floats(w)), d.x * (0.5 * d.y * floats(w >> 16u)));
}`,
  },
};

/** Returns buffers and source for reading weights of a form, eight numbers at a time. */
export function weightsOf(form: WeightFormat): {
  readonly buffers: { readonly weights: string; readonly scales?: string };
  readonly source: string;
} {
  const { type, scales, source } = layouts[form];
  return {
    buffers: { weights: type, ...(scales && { scales: 'u32' }) },
    source: `struct Octet { a: vec4<f32>, b: vec4<f32> }${source}`,
  };
}

/**
 * Returns source that reads eight numbers of row r of `x` from column 8 o on, 0 beyond `inputs`. `whole`: rows are
 * whole octets that begin at multiples of four elements, and `x` is bound as vec4.
 */
export const inputsOf = (whole: boolean): { readonly type: string; readonly source: string } =>
  whole
    ? {
        type: 'vec4<f32>',
        source: /* wgsl */ `
fn input(row: u32, o: u32) -> Octet { let at = (params.x_at + row * params.x_stride) / 4u + 2u * o; return Octet(x[at], x[at + 1u]); }`,
      }
    : {
        type: 'f32',
        source: /* wgsl */ `
fn number(at: u32, i: u32) -> f32 { if (i < params.inputs) { return x[at + i]; } return 0.0; }
fn input(row: u32, o: u32) -> Octet {
  let at = params.x_at + row * params.x_stride;
  let i = 8u * o;
  return Octet(vec4<f32>(number(at, i), number(at, i + 1u), number(at, i + 2u), number(at, i + 3u)), vec4<f32>(number(at, i + 4u), number(at, i + 5u), number(at, i + 6u), number(at, i + 7u)));
}`,
      };
