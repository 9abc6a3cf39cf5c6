import { kernel } from '@kv/core';
import type { Products } from '@kv/core';

/** The logit of a stretch that a query does not see, or that nothing was folded into. */
export const NOTHING = -1e30;

// A head's state `[W]`: the positions that a stretch is wide, then of each of `stretches` stretches count, mean key `[d]`,
// mean value `[d]`, the covariance of values with keys `[d, d]` if `cross`, and that of the keys `[d, d]` if `spread`.
const fields = { stretches: 'u32', cross: 'u32', spread: 'u32' } as const;
type Fields = Readonly<Record<keyof typeof fields, number>>;

/** Numbers of a stretch. */
export const recordSize = (d: number, { cross, spread }: Pick<Fields, 'cross' | 'spread'>): number =>
  1 + 2 * d + (cross + spread) * d * d;

const sizes = /* wgsl */ `
fn record_size(d: u32) -> u32 { return 1u + 2u * d + (params.cross + params.spread) * d * d; }`;
const stretchOf = /* wgsl */ `
fn stretch_of(position: u32) -> u32 { return min(params.stretches - 1u, u32(f32(position) / params.width)); }
fn next_of(stretch: u32, width: f32) -> u32 { return u32(f32(stretch) * width / params.width); }`;

const inputs = { s: 'f32', k: 'f32', v: 'f32', p: 'u32', w: 'f32' } as const;
const widths = { ...fields, width: 'f32' } as const;

/** Which stretch each slot with a weight belongs to, and each stretch of a state after it was widened. */
function places(
  {
    p,
    w,
    s,
  }: Readonly<Record<'p' | 'w' | 's', { readonly data: ArrayLike<number>; readonly shape: readonly number[] }>>,
  g: number,
  { stretches, width }: Fields & { readonly width: number },
  length: number,
): { readonly slots: readonly number[][]; readonly before: readonly number[][] } {
  const [, n = 0] = w.shape,
    of = (): number[][] => Array.from({ length: stretches }, () => []),
    [slots, before] = [of(), of()],
    was = s.data[g * (s.shape[1] ?? 0)];
  for (let j = g * n; j < g * n + length; j++)
    if (w.data[j] > 0) slots[Math.min(stretches - 1, Math.floor(p.data[j] / width))].push(j);
  if (was > 0) for (let o = 0; o < stretches; o++) before[Math.floor((o * was) / width)].push(o);
  return { slots, before };
}

/**
 * Count, mean key and mean value of each stretch: those of the state s `[G, W]`, whose stretches become `width` positions
 * wide, together with slots of keys k and values v `[G, n, d]` at positions p `[G, n]` that count w `[G, n]` times.
 * `[G, stretches (1 + 2 d)]`.
 */
export const foldedMeans = kernel({
  id: 'folded-means',
  inputs,
  params: widths,
  ragged: 'w',
  output: { dense: true, shape: ({ k }, { stretches }) => [k[0], stretches * (1 + 2 * k[2])] },
  wgsl: /* wgsl */ `${sizes}${stretchOf}
fn run(index: u32) {
  let n = k_shape.y; let d = k_shape.z; let each = 1u + 2u * d;
  let c = index % each; let part = index / each % params.stretches; let g = index / (each * params.stretches);
  let state = g * s_shape.y;
  var count = 0.0; var sum = 0.0;
  for (var o = 0u; o < params.stretches && s[state] > 0.0; o++) {
    if (next_of(o, s[state]) != part) { continue; }
    let at = state + 1u + o * record_size(d);
    count += s[at];
    sum += s[at] * s[at + c];
  }
  for (var j = g * n; j < g * n + w_lengths[g]; j++) {
    if (w[j] <= 0.0 || stretch_of(p[j]) != part) { continue; }
    count += w[j];
    if (c > 0u) { if (c <= d) { sum += w[j] * k[j * d + c - 1u]; } else { sum += w[j] * v[j * d + c - 1u - d]; } }
  }
  output[index] = count;
  if (c > 0u && count > 0.0) { output[index] = sum / count; }
}`,
  operations: ({ k }) => 4 * k.shape[0] * k.shape[1] * k.shape[2],
  ref({ s, k, v, p, w }, params, out, lengths) {
    const [G = 0, , d = 0] = k.shape,
      { stretches } = params,
      [each, size] = [1 + 2 * d, recordSize(d, params)],
      sum = new Float64Array(each);
    for (let g = 0; g < G; g++) {
      const { slots, before } = places({ p, w, s }, g, params, lengths[g]);
      for (let part = 0; part < stretches; part++) {
        sum.fill(0);
        for (const o of before[part]) {
          const at = g * s.shape[1] + 1 + o * size,
            count = s.data[at];
          sum[0] += count;
          for (let c = 1; c < each; c++) sum[c] += count * s.data[at + c];
        }
        for (const j of slots[part]) {
          sum[0] += w.data[j];
          for (let c = 0; c < d; c++) {
            sum[1 + c] += w.data[j] * k.data[j * d + c];
            sum[1 + d + c] += w.data[j] * v.data[j * d + c];
          }
        }
        const to = (g * stretches + part) * each;
        out[to] = sum[0];
        for (let c = 1; c < each; c++) out[to + c] = sum[0] > 0 ? sum[c] / sum[0] : 0;
      }
    }
  },
});

/** The state after slots are folded, `[G, W]`: inputs of `foldedMeans`, and what it gives. */
export const foldedMoments = kernel({
  id: 'folded-moments',
  inputs: { ...inputs, m: 'f32' },
  params: widths,
  ragged: 'w',
  output: {
    dense: true,
    shape: ({ k }, params) => [k[0], 1 + params.stretches * recordSize(k[2], params)],
  },
  wgsl: /* wgsl */ `${sizes}${stretchOf}
fn run(index: u32) {
  let n = k_shape.y; let d = k_shape.z; let each = 1u + 2u * d; let size = record_size(d); let all = 1u + params.stretches * size;
  let g = index / all; let i = index % all;
  if (i == 0u) { output[index] = params.width; return; }
  let part = (i - 1u) / size; let c = (i - 1u) % size; let mean = (g * params.stretches + part) * each;
  if (c < each) { output[index] = m[mean + c]; return; }
  let keys = params.cross == 0u || c >= each + d * d;
  let a = 1u + (c - each) % (d * d) / d + select(d, 0u, keys); let b = 1u + (c - each) % d;
  let state = g * s_shape.y;
  var sum = 0.0;
  for (var o = 0u; o < params.stretches && s[state] > 0.0; o++) {
    if (next_of(o, s[state]) != part) { continue; }
    let at = state + 1u + o * size;
    sum += s[at] * (s[at + c] + (s[at + a] - m[mean + a]) * (s[at + b] - m[mean + b]));
  }
  for (var j = g * n; j < g * n + w_lengths[g]; j++) {
    if (w[j] <= 0.0 || stretch_of(p[j]) != part) { continue; }
    var x = 0.0;
    if (keys) { x = k[j * d + a - 1u]; } else { x = v[j * d + a - 1u - d]; }
    sum += w[j] * (x - m[mean + a]) * (k[j * d + b - 1u] - m[mean + b]);
  }
  output[index] = 0.0;
  if (m[mean] > 0.0) { output[index] = sum / m[mean]; }
}`,
  operations: ({ k }, { cross, spread }) => 2 * (cross + spread) * k.shape[0] * k.shape[1] * k.shape[2] ** 2,
  ref({ s, k, v, p, w, m }, params, out, lengths, { multiply }) {
    const [G = 0, , d = 0] = k.shape,
      { stretches, width, cross } = params,
      [each, size] = [1 + 2 * d, recordSize(d, params)],
      product = new Float32Array(d * d);
    for (let g = 0; g < G; g++) {
      const { slots, before } = places({ p, w, s }, g, params, lengths[g]),
        row = g * (1 + stretches * size);
      out[row] = width;
      for (let part = 0; part < stretches; part++) {
        const to = row + 1 + part * size,
          mean = m.data.subarray((g * stretches + part) * each, (g * stretches + part + 1) * each),
          [count] = mean,
          own = slots[part];
        out.set(mean, to);
        if (size === each || count === 0) continue;
        /** What slots' channels differ by from their mean, `[d, slots]`, times their weight if `weighed`. */
        const apart = (x: Float32Array, first: number, weighed: boolean): Float32Array => {
          const rows = new Float32Array(d * own.length);
          for (const [i, j] of own.entries())
            for (let c = 0; c < d; c++)
              rows[c * own.length + i] = (weighed ? w.data[j] : 1) * (x[j * d + c] - mean[first + c]);
          return rows;
        };
        const keys = apart(k.data, 1, false);
        for (let block = 0; each + block * d * d < size; block++) {
          const first = cross && block === 0 ? 1 + d : 1,
            at = each + block * d * d;
          if (own.length > 0) multiply(apart(first === 1 ? k.data : v.data, first, true), keys, own.length, product);
          else product.fill(0);
          for (let e = 0; e < d * d; e++) {
            const [a, b] = [first + Math.floor(e / d), 1 + (e % d)];
            let sum = product[e];
            for (const o of before[part]) {
              const from = g * s.shape[1] + 1 + o * size;
              sum +=
                s.data[from] * (s.data[from + at + e] + (s.data[from + a] - mean[a]) * (s.data[from + b] - mean[b]));
            }
            out[to + at + e] = sum / count;
          }
        }
      }
    }
  },
});

const reading = { ...fields, scale: 'f32', cap: 'f32' } as const;
const logitOf = /* wgsl */ `
fn logit_of(row: u32, at: u32) -> f32 {
  let d = q_shape.z;
  var x = 0.0;
  for (var c = 0u; c < d; c++) { x += q[row * d + c] * s[at + 1u + c]; }
  return x * params.scale;
}
fn slope_of(x: f32) -> f32 {
  if (params.cap == 0.0) { return 1.0; }
  let t = 1.0 - 2.0 / (exp(2.0 * x / params.cap) + 1.0);
  return 1.0 - t * t;
}
// 1 + z'K z / 2
fn spread_of(row: u32, at: u32, slope: f32) -> f32 {
  if (params.spread == 0u) { return 1.0; }
  let d = q_shape.z; let first = at + 1u + 2u * d + params.cross * d * d;
  var sum = 0.0;
  for (var a = 0u; a < d; a++) { for (var b = 0u; b < d; b++) { sum += q[row * d + a] * s[first + a * d + b] * q[row * d + b]; } }
  return 1.0 + max(0.0, 0.5 * sum * slope * slope * params.scale * params.scale);
}`;

/** Logit and slope of its cap of a query with a mean key. */
function logit(q: Float32Array, keys: Float32Array, scale: number, cap: number): readonly [x: number, slope: number] {
  let x = 0;
  for (let c = 0; c < keys.length; c++) x += q[c] * keys[c];
  if (cap === 0) return [x * scale, 1];
  const t = Math.tanh((x * scale) / cap);
  return [cap * t, 1 - t * t];
}
/** qᵀK q of each of m queries q `[m, d]` with covariance K `[d, d]`. */
function spreads(q: Float32Array, covariance: Float32Array, d: number, multiply: Products['multiply']): Float64Array {
  const m = q.length / d,
    mixed = new Float32Array(m * d);
  multiply(q, covariance, d, mixed);
  return Float64Array.from({ length: m }, (_, i) => {
    let sum = 0;
    for (let c = i * d; c < (i + 1) * d; c++) sum += q[c] * mixed[c];
    return sum;
  });
}

/**
 * ln of the mass of each stretch for queries q `[H, m, d]` at positions p `[1, m]`: z·k + ln n + ln(1 + zᵀK z / 2), z =
 * `scale` q, z·k capped to `cap` (0: not); `NOTHING` for a stretch that is empty, or whose middle lies `window` positions
 * (0: any) or more before the query. `[H m, stretches]`.
 */
export const stretchLogits = kernel({
  id: 'stretch-logits',
  inputs: { q: 'f32', p: 'u32', s: 'f32' },
  params: { ...reading, window: 'f32' },
  output: { shape: ({ q }, { stretches }) => [q[0] * q[1], stretches] },
  wgsl: /* wgsl */ `${sizes}${logitOf}
fn run(index: u32) {
  let row = index / params.stretches; let part = index % params.stretches;
  let state = row / q_shape.y * s_shape.x / q_shape.x * s_shape.y; let at = state + 1u + part * record_size(q_shape.z);
  let age = f32(p[row % q_shape.y]) - (f32(part) + 0.5) * s[state];
  output[index] = ${NOTHING.toExponential()};
  if (s[at] <= 0.0 || (params.window > 0.0 && age >= params.window)) { return; }
  let x = logit_of(row, at);
  var capped = x;
  if (params.cap > 0.0) { capped = params.cap * (1.0 - 2.0 / (exp(2.0 * x / params.cap) + 1.0)); }
  output[index] = capped + log(s[at]) + log(spread_of(row, at, slope_of(x)));
}`,
  operations: ({ q }, { stretches, spread }) =>
    2 * q.shape[0] * q.shape[1] * q.shape[2] * stretches * (1 + spread * q.shape[2]),
  ref({ q, p, s }, params, out, _, { multiply }) {
    const [H = 0, m = 0, d = 0] = q.shape,
      [G = 1, W = 0] = s.shape,
      { stretches, cross, spread, scale, cap, window } = params,
      size = recordSize(d, params),
      rows = (H / G) * m;
    for (let g = 0; g < G; g++)
      for (let part = 0; part < stretches; part++) {
        const at = g * W + 1 + part * size,
          own = q.data.subarray(g * rows * d, (g + 1) * rows * d),
          first = at + 1 + 2 * d + cross * d * d,
          squares =
            spread && s.data[at] > 0 ? spreads(own, s.data.subarray(first, first + d * d), d, multiply) : undefined;
        for (let i = 0; i < rows; i++) {
          const age = p.data[i % m] - (part + 0.5) * s.data[g * W],
            to = (g * rows + i) * stretches + part;
          out[to] = NOTHING;
          if (s.data[at] <= 0 || (window > 0 && age >= window)) continue;
          const [x, slope] = logit(own.subarray(i * d, (i + 1) * d), s.data.subarray(at + 1, at + 1 + d), scale, cap);
          out[to] =
            x + Math.log(s.data[at]) + Math.log1p(Math.max(0, 0.5 * (squares?.[i] ?? 0) * (slope * scale) ** 2));
        }
      }
  },
});

/**
 * Values of queries q `[H, m, d]` by shares `[H m, stretches]`: Σ share (v + C z) / (1 + zᵀK z / 2), z = `scale` q times the
 * slope of the cap. `[H, m, d]`.
 */
export const stretchValues = kernel({
  id: 'stretch-values',
  inputs: { share: 'f32', q: 'f32', s: 'f32' },
  params: reading,
  output: { shape: ({ q }) => q },
  wgsl: /* wgsl */ `${sizes}${logitOf}
fn run(index: u32) {
  let d = q_shape.z; let row = index / d; let c = index % d;
  let state = row / q_shape.y * s_shape.x / q_shape.x * s_shape.y;
  var sum = 0.0;
  for (var part = 0u; part < params.stretches; part++) {
    let at = state + 1u + part * record_size(d); let share_ = share[row * params.stretches + part];
    if (share_ == 0.0 || s[at] <= 0.0) { continue; }
    let slope = slope_of(logit_of(row, at));
    var value = 0.0;
    if (params.cross == 1u) { for (var b = 0u; b < d; b++) { value += s[at + 1u + 2u * d + c * d + b] * q[row * d + b]; } }
    sum += share_ * (s[at + 1u + d + c] + value * slope * params.scale) / spread_of(row, at, slope);
  }
  output[index] = sum;
}`,
  operations: ({ q }, { stretches, cross, spread }) =>
    2 * q.shape[0] * q.shape[1] * q.shape[2] * stretches * (1 + (cross + spread) * q.shape[2]),
  ref({ share, q, s }, params, out, _, { multiply }) {
    const [H = 0, m = 0, d = 0] = q.shape,
      [G = 1, W = 0] = s.shape,
      { stretches, cross, spread, scale, cap } = params,
      size = recordSize(d, params),
      rows = (H / G) * m,
      turned = new Float32Array(rows * d);
    for (let g = 0; g < G; g++)
      for (let part = 0; part < stretches; part++) {
        const at = g * W + 1 + part * size,
          own = q.data.subarray(g * rows * d, (g + 1) * rows * d),
          pairs = at + 1 + 2 * d,
          first = pairs + cross * d * d;
        if (s.data[at] <= 0) continue;
        if (cross) multiply(own, s.data.subarray(pairs, pairs + d * d), d, turned);
        const squares = spread ? spreads(own, s.data.subarray(first, first + d * d), d, multiply) : undefined;
        for (let i = 0; i < rows; i++) {
          const part_ = share.data[(g * rows + i) * stretches + part];
          if (part_ === 0) continue;
          const [, slope] = logit(own.subarray(i * d, (i + 1) * d), s.data.subarray(at + 1, at + 1 + d), scale, cap),
            by = part_ / (1 + Math.max(0, 0.5 * (squares?.[i] ?? 0) * (slope * scale) ** 2)),
            to = (g * rows + i) * d;
          for (let c = 0; c < d; c++) out[to + c] += by * (s.data[at + 1 + d + c] + turned[i * d + c] * slope * scale);
        }
      }
  },
});
