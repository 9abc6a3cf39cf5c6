import { kernel } from '@kv/core';
import { plainProducts } from '@kv/core/shared';

/**
 * For every slot the kept slot whose unit key is nearest, ties to the lower one; 0 where none is kept. `[G, n, d]` to
 * u32 `[G, n]`.
 */
export const nearestKept = kernel({
  id: 'nearest-kept',
  inputs: { x: 'f32', stays: 'f32' },
  ragged: 'x',
  output: { dtype: 'u32', shape: ({ stays }) => stays },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = x_shape.y; let d = x_shape.z; let g = index / n;
  var best = -3.0e38; var at = 0u;
  if (index % n < x_lengths[g]) {
    for (var i = 0u; i < x_lengths[g]; i++) { if (stays[g * n + i] != 0.0) {
      var s = 0.0;
      for (var c = 0u; c < d; c++) { s += x[index * d + c] * x[(g * n + i) * d + c]; }
      if (s > best) { best = s; at = i; }
    } }
  }
  output[index] = at;
}`,
  operations: ({ x }) => {
    const [G = 0, n = 0, d = 0] = x.shape;
    return G * n * n * (2 * d + 1);
  },
  ref({ x, stays }, _params, out, lengths, { multiply } = plainProducts) {
    const [G = 0, n = 0, d = 0] = x.shape,
      data = x.data;
    for (let g = 0; g < G; g++) {
      const own = data.subarray(g * n * d, (g * n + lengths[g]) * d),
        kept = new Uint32Array(lengths[g]).map((_, i) => i).filter((i) => stays.data[g * n + i] !== 0),
        vectors = new Float32Array(kept.length * d),
        cosines = new Float32Array(Math.min(BLOCK, lengths[g]) * kept.length);
      kept.forEach((slot, i) => vectors.set(own.subarray(slot * d, (slot + 1) * d), i * d));
      for (let first = 0; first < lengths[g] && kept.length > 0; first += BLOCK) {
        const count = Math.min(BLOCK, lengths[g] - first);
        multiply(own.subarray(first * d, (first + count) * d), vectors, d, cosines);
        for (let e = 0; e < count; e++) out[g * n + first + e] = kept[largest(cosines, e * kept.length, kept.length)];
      }
    }
  },
});

/** Slots that are looked at together. */
const BLOCK = 512;

/** The first place of the largest of n numbers from `at` on. */
function largest(numbers: Float32Array, at: number, n: number): number {
  let best = 0,
    top = numbers[at];
  for (let i = 1; i < n; i++) if (numbers[at + i] > top) [best, top] = [i, numbers[at + i]];
  return best;
}

/**
 * (v + Σ w_e v_e) / (1 + Σ w_e) over the slots e that go `into` a slot: values `[G, n, d]` to the same; w is 0 for what
 * does not move.
 */
export const foldInto = kernel({
  id: 'fold-into',
  inputs: { values: 'f32', into: 'u32', w: 'f32' },
  ragged: 'values',
  output: { shape: ({ values }) => values },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = values_shape.y; let d = values_shape.z; let c = index % d; let slot = index / d; let g = slot / n;
  var sum = values[index]; var mass = 1.0;
  for (var e = 0u; e < values_lengths[g]; e++) { if (w[g * n + e] != 0.0 && into[g * n + e] == slot % n) { sum += w[g * n + e] * values[(g * n + e) * d + c]; mass += w[g * n + e]; } }
  output[index] = sum / mass;
}`,
  operations: ({ values }) => {
    const [G = 0, n = 0, d = 0] = values.shape;
    return 2 * G * n * n * d;
  },
  ref({ values: v, into, w }, _, out, lengths) {
    const [G = 0, n = 0, d = 0] = v.shape,
      sums = new Float64Array(v.data),
      mass = new Float64Array(G * n).fill(1);
    for (let g = 0; g < G; g++)
      for (let e = 0; e < lengths[g]; e++) {
        const weight = w.data[g * n + e],
          to = g * n + into.data[g * n + e];
        if (weight === 0) continue;
        mass[to] += weight;
        for (let c = 0; c < d; c++) sums[to * d + c] += weight * v.data[(g * n + e) * d + c];
      }
    for (let slot = 0, i = 0; slot < G * n; slot++) for (let c = 0; c < d; c++, i++) out[i] = sums[i] / mass[slot];
  },
});
