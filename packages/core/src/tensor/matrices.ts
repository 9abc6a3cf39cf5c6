import { kernel } from './kernel.ts';

/**
 * Σ w (x - c)(x - c)ᵀ over the valid vectors: x `[r', n, d]`, w `[r, n]` and c `[r", d]`, r' and r" dividing r and r'
 * (w of one row serves all), to `[r, d, d]`.
 */
export const gram = /* @__PURE__ */ kernel({
  id: 'gram',
  inputs: { x: 'f32', w: 'f32', c: 'f32' },
  ragged: 'x',
  output: { dense: true, shape: ({ x, w }) => [Math.max(x[0], w[0]), x[2], x[2]] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = x_shape.y; let d = x_shape.z; let r = index / (d * d); let a = index / d % d; let b = index % d;
  let rows = max(x_shape.x, w_shape.x); let g = r / (rows / x_shape.x); let weights = r / (rows / w_shape.x) * n;
  let own = g / (x_shape.x / c_shape.x) * d;
  var sum = 0.0;
  for (var i = 0u; i < x_lengths[g]; i++) {
    let at = (g * n + i) * d;
    sum += w[weights + i] * (x[at + a] - c[own + a]) * (x[at + b] - c[own + b]);
  }
  output[index] = sum;
}`,
  operations: ({ x, w }) => {
    const [rows = 0, n = 0, d = 0] = x.shape;
    return 5 * Math.max(rows, w.shape[0]) * n * d * d;
  },
  ref({ x, w, c }, _, out, lengths) {
    const [heads = 0, n = 0, d = 0] = x.shape,
      rows = Math.max(heads, w.shape[0]),
      sums = new Float64Array(d * d);
    for (let r = 0; r < rows; r++) {
      const g = Math.floor((r * heads) / rows),
        weights = Math.floor((r * w.shape[0]) / rows) * n,
        own = Math.floor((g * c.shape[0]) / heads) * d;
      sums.fill(0);
      for (let i = 0; i < lengths[g]; i++) {
        const at = (g * n + i) * d;
        for (let a = 0; a < d; a++) {
          const v = w.data[weights + i] * (x.data[at + a] - c.data[own + a]);
          if (v !== 0) for (let b = 0; b < d; b++) sums[a * d + b] += v * (x.data[at + b] - c.data[own + b]);
        }
      }
      out.set(sums, r * d * d);
    }
  },
});

/**
 * (M + jitter I)^-1 of symmetric positive semidefinite matrices `[r, d, d]`, by Gauss-Jordan elimination in place; one
 * invocation per matrix, O(d³). Pivots are at least 1e-7 times the largest diagonal entry, about what f32 can tell from
 * 0.
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

/**
 * (x - c)ᵀ M (x - c) of every vector and symmetric matrix: x `[r', n, d]`, m `[r, d, d]` and c `[r", d]`, r' and r"
 * dividing r and r', to `[r, n]`.
 */
export const quadratic = /* @__PURE__ */ kernel({
  id: 'quadratic',
  inputs: { x: 'f32', m: 'f32', c: 'f32' },
  ragged: 'x',
  output: { shape: ({ x, m }) => [m[0], x[1]] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = x_shape.y; let d = x_shape.z; let r = index / n; let g = r / (m_shape.x / x_shape.x);
  let at = (g * n + index % n) * d; let own = g / (x_shape.x / c_shape.x) * d;
  output[index] = 0.0;
  if (index % n >= x_lengths[g]) { return; }
  var sum = 0.0;
  for (var a = 0u; a < d; a++) {
    var y = 0.0;
    for (var b = 0u; b < d; b++) { y += m[(r * d + a) * d + b] * (x[at + b] - c[own + b]); }
    sum += (x[at + a] - c[own + a]) * y;
  }
  output[index] = sum;
}`,
  operations: ({ x, m }) => {
    const [, n = 0, d = 0] = x.shape;
    return 3 * m.shape[0] * n * d * (d + 1);
  },
  ref({ x, m, c }, _, out, lengths) {
    const [heads = 0, n = 0, d = 0] = x.shape,
      [rows = 0] = m.shape,
      e = new Float64Array(d);
    for (let r = 0; r < rows; r++) {
      const g = Math.floor((r * heads) / rows),
        own = Math.floor((g * c.shape[0]) / heads) * d;
      for (let i = 0; i < lengths[g]; i++) {
        for (let a = 0; a < d; a++) e[a] = x.data[(g * n + i) * d + a] - c.data[own + a];
        let sum = 0;
        for (let a = 0; a < d; a++) {
          let y = 0;
          for (let b = 0; b < d; b++) y += m.data[(r * d + a) * d + b] * e[b];
          sum += e[a] * y;
        }
        out[r * n + i] = sum;
      }
    }
  },
});
