import { kernel } from '@kv/core';
import { blendBy, blendReference } from './blend.ts';
import type { Blend } from './blend.ts';
import { kernelBytes } from './fold-bytes.ts';

/**
 * For every slot the kept slot whose unit key is nearest, ties to the lower one; 0 where no slot is kept. `[G, n, d]`
 * to u32 `[G, n]`.
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
  ref({ x, stays }, _params, out, lengths, { nearest }) {
    const [G = 0, n = 0, d = 0] = x.shape;
    for (let g = 0; g < G; g++) {
      const own = x.data.subarray(g * n * d, (g * n + lengths[g]) * d),
        kept = new Uint32Array(lengths[g]).map((_, i) => i).filter((i) => stays.data[g * n + i] !== 0),
        vectors = new Float32Array(kept.length * d),
        places = out.subarray(g * n, g * n + lengths[g]) as Uint32Array;
      if (kept.length === 0) continue;
      kept.forEach((slot, i) => vectors.set(own.subarray(slot * d, (slot + 1) * d), i * d));
      nearest(own, vectors, d, places);
      for (let i = 0; i < places.length; i++) places[i] = kept[places[i]];
    }
  },
});

/**
 * (v + Σ w_e v_e) / (1 + Σ w_e) over the slots e that go `into` a slot: values `[G, n, d]` to the same shape; w is 0
 * for slots that do not move.
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
  ref({ values: v, into, w }, _, out, lengths, _products, blend: Blend = blendReference) {
    const [G = 0, n = 0, d = 0] = v.shape;
    for (let g = 0; g < G; g++) {
      const [first, end] = [g * n, (g + 1) * n];
      blend(
        v.data.subarray(first * d, end * d),
        d,
        into.data.subarray(first, end),
        w.data.slice(first, end).fill(0, lengths[g]),
        out.subarray(first * d, end * d) as Float32Array,
      );
    }
  },
  wasm: { bytes: kernelBytes, loop: blendBy },
});
