import { kernel } from '@kv/core';

/** The logit of a slot that a query does not see, below every other. */
export const UNSEEN = -1e30;

/** Returns the KV heads' kept columns of x `[R, n]`: which slots, and their numbers `[m, t]` of head g. */
function keptColumns(
  x: { readonly data: Float32Array; readonly shape: readonly number[] },
  stays: { readonly data: Float32Array; readonly shape: readonly number[] },
  g: number,
  length: number,
): { readonly slots: Uint32Array; readonly rows: Float32Array } {
  const [R = 0, n = 0] = x.shape,
    [G = 1] = stays.shape,
    m = R / G,
    slots = Uint32Array.from({ length }, (_, i) => i).filter((i) => stays.data[g * n + i] !== 0),
    t = slots.length,
    rows = new Float32Array(m * t);
  for (let i = 0; i < m; i++)
    for (let j = 0, from = (g * m + i) * n; j < t; j++) rows[i * t + j] = x.data[from + slots[j]];
  return { slots, rows };
}

/**
 * Logits of the reference queries q `[H, w, d]`, the oldest at position `first`, with the keys k `[G, n, d]` at positions p
 * `[G, n]`: q·k times `scale`, capped to `cap` (0: not), plus the slots' biases b `[G, n]`; `UNSEEN` for slots after a
 * query or more than `window` positions (0: any) before it. `[H w, n]`.
 */
export const referenceLogits = kernel({
  id: 'reference-logits',
  inputs: { q: 'f32', k: 'f32', p: 'u32', b: 'f32' },
  params: { scale: 'f32', cap: 'f32', window: 'f32', first: 'f32' },
  ragged: 'k',
  output: { shape: ({ q, k }) => [q[0] * q[1], k[1]] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = k_shape.y; let d = k_shape.z; let row = index / n; let slot = row / q_shape.y * k_shape.x / q_shape.x * n + index % n;
  let age = params.first + f32(row % q_shape.y) - f32(p[slot]);
  output[index] = ${UNSEEN.toExponential()};
  if (age < 0.0 || (params.window > 0.0 && age >= params.window)) { return; }
  var sum = 0.0;
  for (var c = 0u; c < d; c++) { sum += q[row * d + c] * k[slot * d + c]; }
  sum *= params.scale;
  if (params.cap > 0.0) { sum = params.cap * (1.0 - 2.0 / (exp(2.0 * sum / params.cap) + 1.0)); }
  output[index] = sum + b[slot];
}`,
  operations: ({ q, k }) => 2 * q.shape[0] * q.shape[1] * k.shape[1] * k.shape[2],
  ref({ q, k, p, b }, { scale, cap, window, first }, out, lengths, { multiply }) {
    const [H = 0, w = 0, d = 0] = q.shape,
      [G = 1, n = 0] = k.shape,
      m = (H / G) * w;
    for (let g = 0; g < G; g++) {
      const own = out.subarray(g * m * n, (g + 1) * m * n) as Float32Array;
      multiply(q.data.subarray(g * m * d, (g + 1) * m * d), k.data.subarray(g * n * d, (g + 1) * n * d), d, own);
      for (let i = 0; i < m; i++)
        for (let j = 0; j < lengths[g]; j++) {
          const age = first + (i % w) - p.data[g * n + j],
            x = own[i * n + j] * scale;
          own[i * n + j] =
            age < 0 || (window > 0 && age >= window)
              ? UNSEEN
              : (cap > 0 ? cap * Math.tanh(x / cap) : x) + b.data[g * n + j];
        }
    }
  },
});

/**
 * The normal equations of the smallest change, in their dual form, one head after the other: X Xᵀ of the kept columns of x
 * `[R, n]`, R = G m, beside what is missing r `[R, c]`: `[G, m, m + c]`.
 */
export const dualEquations = kernel({
  id: 'dual-equations',
  inputs: { x: 'f32', stays: 'f32', r: 'f32' },
  ragged: 'stays',
  output: { dense: true, shape: ({ x, stays, r }) => [stays[0], x[0] / stays[0], x[0] / stays[0] + r[1]] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let G = stays_shape.x; let n = stays_shape.y; let c = r_shape.y; let m = x_shape.x / G; let width = m + c;
  let g = index / (m * width); let i = g * m + index / width % m; let j = index % width;
  if (j >= m) { output[index] = r[i * c + j - m]; return; }
  var sum = 0.0;
  for (var s = 0u; s < stays_lengths[g]; s++) { if (stays[g * n + s] != 0.0) { sum += x[i * n + s] * x[(g * m + j) * n + s]; } }
  output[index] = sum;
}`,
  operations: ({ x, stays }) => (2 * x.shape[0] ** 2 * x.shape[1]) / stays.shape[0],
  ref({ x, stays, r }, _, out, lengths, { dots }) {
    const [R = 0] = x.shape,
      [G = 1] = stays.shape,
      [, c = 0] = r.shape,
      m = R / G,
      products = new Float32Array(m * m);
    for (let g = 0; g < G; g++) {
      const { slots, rows } = keptColumns(x, stays, g, lengths[g]);
      products.fill(0);
      if (slots.length > 0) dots(rows, rows, slots.length, products);
      for (let i = 0; i < m; i++) {
        const to = (g * m + i) * (m + c);
        out.set(products.subarray(i * m, (i + 1) * m), to);
        out.set(r.data.subarray((g * m + i) * c, (g * m + i + 1) * c), to + m);
      }
    }
  },
});

/**
 * Solves the equations of each head, `[G, m, m + c]`, by Cholesky's decomposition of its first m columns with `ridge` times
 * their mean diagonal added to the diagonal: the solutions are the last c columns of the result.
 */
export const solved = kernel({
  id: 'ridge-solved',
  inputs: { a: 'f32' },
  params: { ridge: 'f32' },
  per: 'row',
  output: { shape: ({ a }) => a },
  wgsl: /* wgsl */ `
fn run(g: u32) {
  let m = a_shape.y; let width = a_shape.z; let at = g * m * width;
  var trace = 0.0;
  for (var i = 0u; i < m * width; i++) { output[at + i] = a[at + i]; }
  for (var i = 0u; i < m; i++) { trace += a[at + i * width + i]; }
  let add = params.ridge * trace / f32(m) + 1e-30;
  for (var i = 0u; i < m; i++) {
    let row = at + i * width;
    output[row + i] += add;
    for (var j = 0u; j <= i; j++) {
      let other = at + j * width;
      var sum = output[row + j];
      for (var k = 0u; k < j; k++) { sum -= output[row + k] * output[other + k]; }
      if (i == j) { output[row + i] = sqrt(max(sum, 1e-3 * add)); } else { output[row + j] = sum / output[other + j]; }
    }
    for (var c = m; c < width; c++) {
      var sum = output[row + c];
      for (var k = 0u; k < i; k++) { sum -= output[row + k] * output[at + k * width + c]; }
      output[row + c] = sum / output[row + i];
    }
  }
  for (var i = m; i > 0u; i--) {
    let row = at + (i - 1u) * width;
    for (var c = m; c < width; c++) {
      var sum = output[row + c];
      for (var k = i; k < m; k++) { sum -= output[at + k * width + i - 1u] * output[at + k * width + c]; }
      output[row + c] = sum / output[row + i - 1u];
    }
  }
}`,
  operations: ({ a }) => {
    const [G = 0, m = 0, width = 0] = a.shape;
    return G * (m ** 3 / 3 + 4 * m * m * (width - m));
  },
  ref({ a }, { ridge }, out) {
    const [G = 0, m = 0, width = 0] = a.shape,
      x = new Float64Array(m * width);
    for (let g = 0; g < G; g++) {
      x.set(a.data.subarray(g * m * width, (g + 1) * m * width));
      let trace = 0;
      for (let i = 0; i < m; i++) trace += x[i * width + i];
      const add = (ridge * trace) / m + 1e-30;
      for (let i = 0; i < m; i++) {
        const row = i * width;
        x[row + i] += add;
        for (let j = 0; j <= i; j++) {
          let sum = x[row + j];
          for (let k = 0, other = j * width; k < j; k++) sum -= x[row + k] * x[other + k];
          x[row + j] = i === j ? Math.sqrt(Math.max(sum, 1e-3 * add)) : sum / x[j * width + j];
        }
        for (let k = 0; k < i; k++)
          for (let c = m, by = x[row + k], other = k * width; c < width; c++) x[row + c] -= by * x[other + c];
        for (let c = m; c < width; c++) x[row + c] /= x[row + i];
      }
      for (let i = m - 1; i >= 0; i--) {
        const row = i * width;
        for (let k = i + 1; k < m; k++)
          for (let c = m, by = x[k * width + i], other = k * width; c < width; c++) x[row + c] -= by * x[other + c];
        for (let c = m; c < width; c++) x[row + c] /= x[row + i];
      }
      out.set(x, g * m * width);
    }
  },
});

/** Xᵀ α over the kept columns of x `[R, n]`, with α the last c columns of `solved`: `[G, n, c]`, 0 for other slots. */
export const spread = kernel({
  id: 'duals-spread',
  inputs: { x: 'f32', stays: 'f32', alpha: 'f32' },
  ragged: 'stays',
  output: { shape: ({ stays, alpha }) => [...stays, alpha[2] - alpha[1]] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = stays_shape.y; let m = alpha_shape.y; let width = alpha_shape.z; let c = width - m;
  let slot = index / c; let g = slot / n;
  var sum = 0.0;
  if (slot % n < stays_lengths[g] && stays[slot] != 0.0) {
    for (var i = 0u; i < m; i++) { sum += x[(g * m + i) * n + slot % n] * alpha[(g * m + i) * width + m + index % c]; }
  }
  output[index] = sum;
}`,
  operations: ({ x, alpha }) => 2 * x.shape[0] * x.shape[1] * (alpha.shape[2] - alpha.shape[1]),
  ref({ x, stays, alpha }, _, out, lengths, { mix }) {
    const [G = 1, n = 0] = stays.shape,
      [, m = 0, width = 0] = alpha.shape,
      c = width - m,
      own = new Float32Array(m * c);
    for (let g = 0; g < G; g++) {
      const { slots, rows } = keptColumns(x, stays, g, lengths[g]),
        t = slots.length,
        turned = new Float32Array(t * m),
        made = new Float32Array(t * c);
      for (let i = 0; i < m; i++) {
        own.set(alpha.data.subarray((g * m + i) * width + m, (g * m + i + 1) * width), i * c);
        for (let j = 0; j < t; j++) turned[j * m + i] = rows[i * t + j];
      }
      if (t > 0) mix(turned, own, c, made);
      slots.forEach((slot, j) => out.set(made.subarray(j * c, (j + 1) * c), (g * n + slot) * c));
    }
  },
});
