import { kernel } from './kernel.ts';

/** Σ over the valid vectors of x xᵀ: `[r, n, d]` to `[r, d, d]`. */
export const gram = /* @__PURE__ */ kernel({
  id: 'gram',
  inputs: { x: 'f32' },
  ragged: 'x',
  output: { dense: true, shape: ({ x }) => [x[0], x[2], x[2]] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = x_shape.y; let d = x_shape.z; let r = index / (d * d); let a = index / d % d; let b = index % d;
  var sum = 0.0;
  for (var i = 0u; i < x_lengths[r]; i++) { let at = (r * n + i) * d; sum += x[at + a] * x[at + b]; }
  output[index] = sum;
}`,
  operations: ({ x }) => {
    const [r = 0, n = 0, d = 0] = x.shape;
    return 2 * r * n * d * d;
  },
  ref({ x }, _, out, lengths) {
    const [r = 0, n = 0, d = 0] = x.shape,
      sums = new Float64Array(d * d);
    for (let h = 0; h < r; h++) {
      sums.fill(0);
      for (let i = 0; i < lengths[h]; i++) {
        const at = (h * n + i) * d;
        for (let a = 0; a < d; a++) {
          const v = x.data[at + a];
          if (v !== 0) for (let b = 0; b < d; b++) sums[a * d + b] += v * x.data[at + b];
        }
      }
      out.set(sums, h * d * d);
    }
  },
});

/** Covariance over N of the valid vectors from `skip` on: `[r, n, d]` to `[r, d, d]`; 0 of none. */
export const covariance = /* @__PURE__ */ kernel({
  id: 'covariance',
  inputs: { x: 'f32' },
  params: { skip: 'u32' },
  ragged: 'x',
  output: { dense: true, shape: ({ x }) => [x[0], x[2], x[2]] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = x_shape.y; let d = x_shape.z; let r = index / (d * d); let a = index / d % d; let b = index % d;
  output[index] = 0.0;
  if (x_lengths[r] <= params.skip) { return; }
  let count = f32(x_lengths[r] - params.skip);
  var p = 0.0; var q = 0.0; var sum = 0.0;
  for (var i = params.skip; i < x_lengths[r]; i++) { let at = (r * n + i) * d; p += x[at + a]; q += x[at + b]; }
  p /= count; q /= count;
  for (var i = params.skip; i < x_lengths[r]; i++) { let at = (r * n + i) * d; sum += (x[at + a] - p) * (x[at + b] - q); }
  output[index] = sum / count;
}`,
  operations: ({ x }) => {
    const [r = 0, n = 0, d = 0] = x.shape;
    return 6 * r * n * d * d;
  },
  ref({ x }, { skip }, out, lengths) {
    const [r = 0, n = 0, d = 0] = x.shape,
      means = new Float64Array(d),
      sums = new Float64Array(d * d);
    for (let h = 0; h < r; h++) {
      const count = Math.max(1, lengths[h] - skip);
      means.fill(0);
      sums.fill(0);
      for (let i = skip; i < lengths[h]; i++)
        for (let c = 0; c < d; c++) means[c] += x.data[(h * n + i) * d + c] / count;
      for (let i = skip; i < lengths[h]; i++) {
        const at = (h * n + i) * d;
        for (let a = 0; a < d; a++) {
          const v = (x.data[at + a] - means[a]) / count;
          for (let b = 0; b < d; b++) sums[a * d + b] += v * (x.data[at + b] - means[b]);
        }
      }
      out.set(sums, h * d * d);
    }
  },
});

/**
 * (M + jitter I)^-1 of symmetric positive semidefinite matrices `[r, d, d]`, by Gauss-Jordan elimination in place; one
 * invocation a matrix, O(d³). A pivot below what f32 tells from 0 beside the largest diagonal entry counts as that.
 */
export const inverse = /* @__PURE__ */ kernel({
  id: 'inverse',
  inputs: { m: 'f32' },
  params: { jitter: 'f32' },
  per: 'row',
  output: { shape: ({ m }) => m },
  wgsl: /* wgsl */ `
fn run(r: u32) {
  let d = m_shape.z; let at = r * d * d;
  for (var i = 0u; i < d * d; i++) { output[at + i] = m[at + i] + select(0.0, params.jitter, i % (d + 1u) == 0u); }
  var top = 1e-13;
  for (var k = 0u; k < d; k++) { top = max(top, output[at + k * d + k]); }
  for (var k = 0u; k < d; k++) {
    let p = 1.0 / max(output[at + k * d + k], 1e-7 * top);
    output[at + k * d + k] = 1.0;
    for (var j = 0u; j < d; j++) { output[at + k * d + j] *= p; }
    for (var i = 0u; i < d; i++) { if (i != k) {
      let f = output[at + i * d + k];
      output[at + i * d + k] = 0.0;
      for (var j = 0u; j < d; j++) { output[at + i * d + j] -= f * output[at + k * d + j]; }
    } }
  }
}`,
  operations: ({ m }) => {
    const [r = 0, d = 0] = m.shape;
    return 2 * r * d ** 3;
  },
  ref({ m }, { jitter = 0 }, out) {
    const [r = 0, d = 0] = m.shape;
    for (let h = 0; h < r; h++) {
      const a = Float64Array.from(m.data.subarray(h * d * d, (h + 1) * d * d));
      for (let k = 0; k < d; k++) a[k * d + k] += jitter;
      const least = 1e-7 * a.reduce((top, x, i) => (i % (d + 1) === 0 ? Math.max(top, x) : top), 1e-13);
      for (let k = 0; k < d; k++) {
        const p = 1 / Math.max(a[k * d + k], least);
        a[k * d + k] = 1;
        for (let j = 0; j < d; j++) a[k * d + j] *= p;
        for (let i = 0; i < d; i++)
          if (i !== k) {
            const f = a[i * d + k];
            a[i * d + k] = 0;
            for (let j = 0; j < d; j++) a[i * d + j] -= f * a[k * d + j];
          }
      }
      out.set(a, h * d * d);
    }
  },
});

/** xᵀ M x of every vector: x `[r', n, d]`, m `[r, d, d]`, r a multiple of r', to `[r, n]`. */
export const quadratic = /* @__PURE__ */ kernel({
  id: 'quadratic',
  inputs: { x: 'f32', m: 'f32' },
  ragged: 'x',
  output: { shape: ({ x, m }) => [m[0], x[1]] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = x_shape.y; let d = x_shape.z; let r = index / n; let at = (r / (m_shape.x / x_shape.x) * n + index % n) * d;
  output[index] = 0.0;
  if (index % n >= x_lengths[r / (m_shape.x / x_shape.x)]) { return; }
  var sum = 0.0;
  for (var a = 0u; a < d; a++) { var y = 0.0; for (var b = 0u; b < d; b++) { y += m[(r * d + a) * d + b] * x[at + b]; } sum += x[at + a] * y; }
  output[index] = sum;
}`,
  operations: ({ x, m }) => {
    const [, n = 0, d = 0] = x.shape;
    return 2 * m.shape[0] * n * d * (d + 1);
  },
  ref({ x, m }, _, out, lengths) {
    const [rows = 0, n = 0, d = 0] = x.shape,
      r = m.shape[0],
      both = new Float64Array(d * d); // of a pair of channels, below the diagonal
    for (let h = 0; h < r; h++) {
      const g = Math.floor((h * rows) / r),
        own = m.data.subarray(h * d * d, (h + 1) * d * d);
      for (let a = 0; a < d; a++)
        for (let b = 0; b <= a; b++) both[a * d + b] = own[a * d + b] + (b < a ? own[b * d + a] : 0);
      for (let i = 0; i < lengths[g]; i++) {
        const at = (g * n + i) * d;
        let sum = 0;
        for (let a = 0; a < d; a++) {
          let y = 0;
          for (let b = 0; b <= a; b++) y += both[a * d + b] * x.data[at + b];
          sum += x.data[at + a] * y;
        }
        out[h * n + i] = sum;
      }
    }
  },
});
