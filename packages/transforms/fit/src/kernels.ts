import { kernel } from '@kv/core';

/** The logit of a slot that a query does not see, below every other. */
export const UNSEEN = -1e30;

/** Returns the first t numbers of the m rows of head g of data `[R, n]`: `[m, t]`. */
function rowsOf(data: Float32Array, n: number, g: number, m: number, t: number): Float32Array {
  if (t === n) return data.subarray(g * m * n, (g + 1) * m * n);
  const rows = new Float32Array(m * t);
  for (let i = 0, from = g * m * n; i < m; i++, from += n) rows.set(data.subarray(from, from + t), i * t);
  return rows;
}

/**
 * Logits of the reference queries q `[H, w, d]` at positions t `[1, w]` with the keys k `[G, n, d]` at positions p `[G, n]`: q·k times `scale`, capped to `cap` (0: not), plus the slots' biases b `[G, n]`; `UNSEEN` for slots after a
 * query or more than `window` positions (0: any) before it. `[H w, n]`.
 */
export const referenceLogits = kernel({
  id: 'reference-logits',
  inputs: { q: 'f32', t: 'u32', k: 'f32', p: 'u32', b: 'f32' },
  params: { scale: 'f32', cap: 'f32', window: 'f32' },
  ragged: 'k',
  output: { shape: ({ q, k }) => [q[0] * q[1], k[1]] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = k_shape.y; let d = k_shape.z; let row = index / n; let slot = row / q_shape.y * k_shape.x / q_shape.x * n + index % n;
  let age = f32(t[row % q_shape.y]) - f32(p[slot]);
  output[index] = ${UNSEEN.toExponential()};
  if (age < 0.0 || (params.window > 0.0 && age >= params.window)) { return; }
  var sum = 0.0;
  for (var c = 0u; c < d; c++) { sum += q[row * d + c] * k[slot * d + c]; }
  sum *= params.scale;
  if (params.cap > 0.0) { sum = params.cap * (1.0 - 2.0 / (exp(2.0 * sum / params.cap) + 1.0)); }
  output[index] = sum + b[slot];
}`,
  operations: ({ q, k }) => 2 * q.shape[0] * q.shape[1] * k.shape[1] * k.shape[2],
  ref({ q, t, k, p, b }, { scale, cap, window }, out, lengths, { multiply }) {
    const [H = 0, w = 0, d = 0] = q.shape,
      [G = 1, n = 0] = k.shape,
      m = (H / G) * w;
    for (let g = 0; g < G; g++) {
      const own = out.subarray(g * m * n, (g + 1) * m * n) as Float32Array;
      multiply(q.data.subarray(g * m * d, (g + 1) * m * d), k.data.subarray(g * n * d, (g + 1) * n * d), d, own);
      for (let i = 0; i < m; i++)
        for (let j = 0; j < lengths[g]; j++) {
          const age = t.data[i % w] - p.data[g * n + j],
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
 * The normal equations of the smallest change, in their dual form, one head after the other: X Xᵀ of x `[R, t]`, R = `heads`
 * m, before what is missing r `[R, c]`: `[heads, m, m + c]`.
 */
export const dualEquations = kernel({
  id: 'dual-equations',
  inputs: { x: 'f32', r: 'f32' },
  params: { heads: 'u32' },
  ragged: 'x',
  output: { dense: true, shape: ({ x, r }, { heads }) => [heads, x[0] / heads, x[0] / heads + r[1]] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let t = x_shape.y; let c = r_shape.y; let m = x_shape.x / params.heads; let width = m + c;
  let g = index / (m * width); let i = g * m + index / width % m; let j = index % width;
  if (j >= m) { output[index] = r[i * c + j - m]; return; }
  var sum = 0.0;
  for (var s = 0u; s < x_lengths[i]; s++) { sum += x[i * t + s] * x[(g * m + j) * t + s]; }
  output[index] = sum;
}`,
  operations: ({ x }, { heads }) => (2 * x.shape[0] ** 2 * x.shape[1]) / heads,
  ref({ x, r }, { heads }, out, lengths, { dots }) {
    const m = x.shape[0] / heads,
      [, c = 0] = r.shape,
      products = new Float32Array(m * m);
    for (let g = 0; g < heads; g++) {
      const t = lengths[g * m],
        rows = rowsOf(x.data, x.shape[1], g, m, t);
      products.fill(0);
      if (t > 0) dots(rows, rows, t, products);
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

/** Xᵀ α of x `[R, t]` and the last c columns of `solved`: `[G, t, c]`, as `like` `[G, t]` has slots. */
export const spread = kernel({
  id: 'duals-spread',
  inputs: { x: 'f32', alpha: 'f32', like: 'f32' },
  ragged: 'like',
  output: { shape: ({ like, alpha }) => [like[0], like[1], alpha[2] - alpha[1]] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let t = like_shape.y; let m = alpha_shape.y; let width = alpha_shape.z; let c = width - m;
  let slot = index / c; let g = slot / t;
  var sum = 0.0;
  if (slot % t < like_lengths[g]) {
    for (var i = 0u; i < m; i++) { sum += x[(g * m + i) * t + slot % t] * alpha[(g * m + i) * width + m + index % c]; }
  }
  output[index] = sum;
}`,
  operations: ({ x, alpha }) => 2 * x.shape[0] * x.shape[1] * (alpha.shape[2] - alpha.shape[1]),
  ref({ x, alpha }, _, out, lengths, { mix }) {
    const [G = 1, m = 0, width = 0] = alpha.shape,
      [, n = 0] = x.shape,
      c = width - m,
      own = new Float32Array(m * c);
    for (let g = 0; g < G; g++) {
      const t = lengths[g],
        turned = new Float32Array(t * m);
      for (let i = 0; i < m; i++) {
        own.set(alpha.data.subarray((g * m + i) * width + m, (g * m + i + 1) * width), i * c);
        for (let j = 0, from = (g * m + i) * n; j < t; j++) turned[j * m + i] = x.data[from + j];
      }
      if (t > 0) mix(turned, own, c, out.subarray(g * n * c, (g * n + t) * c) as Float32Array);
    }
  },
});

/** Numbers of kept slots x `[G, t]` or `[G, t, c]`, `counts` `[G, 1]` of a head, at the slots `kept` `[G, t]` (ascending) of rows as `like` `[G, n]` has them; 0 elsewhere. */
export const intoSlots = kernel({
  id: 'into-slots',
  inputs: { x: 'f32', kept: 'u32', counts: 'f32', like: 'f32' },
  ragged: 'like',
  output: { shape: ({ x, like }) => [like[0], like[1], ...x.slice(2)] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = like_shape.y; let t = kept_shape.y; let c = x_shape.z; let slot = index / c; let g = slot / n;
  var low = g * t; var high = low + u32(counts[g]); let end = high;
  while (low < high) { let middle = (low + high) / 2u; if (kept[middle] < slot % n) { low = middle + 1u; } else { high = middle; } }
  output[index] = 0.0;
  if (low < end && kept[low] == slot % n) { output[index] = x[low * c + index % c]; }
}`,
  ref({ x, kept, counts, like }, _, out) {
    const [G = 1, n = 0] = like.shape,
      [, t = 0] = kept.shape,
      [, , c = 1] = x.shape;
    for (let g = 0; g < G; g++)
      for (let i = 0; i < counts.data[g]; i++)
        out.set(x.data.subarray((g * t + i) * c, (g * t + i + 1) * c), (g * n + kept.data[g * t + i]) * c);
  },
});
