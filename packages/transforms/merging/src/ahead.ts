import { kernel } from '@kv/core';

/**
 * 1 / m for a slot that `merges` and whose coin is below its received attention divided by the mean of the next m kept
 * slots, m at most `slots`; else 0. All `[G, n]`.
 */
export const shareAhead = kernel({
  id: 'share-ahead',
  inputs: { received: 'f32', stays: 'f32', merges: 'f32', coin: 'f32' },
  params: { slots: 'u32' },
  ragged: 'received',
  output: { shape: ({ received }) => received },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = received_shape.y; let g = index / n;
  output[index] = 0.0;
  if (index % n >= received_lengths[g] || merges[index] == 0.0) { return; }
  var sum = 0.0; var count = 0u;
  for (var i = index % n + 1u; i < received_lengths[g] && count < params.slots; i++) { if (stays[g * n + i] != 0.0) { sum += received[g * n + i]; count++; } }
  if (count > 0u && coin[index] * (sum / f32(count)) < received[index]) { output[index] = 1.0 / f32(count); }
}`,
  ref({ received, stays, merges, coin }, { slots }, out, lengths) {
    const [G = 0, n = 0] = received.shape;
    for (let g = 0; g < G; g++)
      for (let e = 0; e < lengths[g]; e++) {
        if (merges.data[g * n + e] === 0) continue;
        let sum = 0,
          count = 0;
        for (let i = e + 1; i < lengths[g] && count < slots; i++)
          if (stays.data[g * n + i] !== 0) {
            sum += received.data[g * n + i];
            count++;
          }
        if (count > 0 && coin.data[g * n + e] * (sum / count) < received.data[g * n + e]) out[g * n + e] = 1 / count;
      }
  },
});

/**
 * v_t + Σ share_e v_e over the slots e before a kept slot t with fewer than `slots` kept ones between them: values
 * `[G, n, d]` to the same shape.
 */
export const foldAhead = kernel({
  id: 'fold-ahead',
  inputs: { values: 'f32', stays: 'f32', share: 'f32' },
  params: { slots: 'u32' },
  ragged: 'values',
  output: { shape: ({ values }) => values },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = values_shape.y; let d = values_shape.z; let c = index % d; let slot = index / d; let g = slot / n;
  var sum = values[index]; var between = 0u;
  if (slot % n < values_lengths[g] && stays[slot] != 0.0) {
    for (var e = slot; e > g * n && between < params.slots; e--) {
      sum += share[e - 1u] * values[(e - 1u) * d + c];
      if (stays[e - 1u] != 0.0) { between++; }
    }
  }
  output[index] = sum;
}`,
  ref({ values: v, stays, share }, { slots }, out, lengths) {
    const [G = 0, n = 0, d = 0] = v.shape,
      sums = new Float64Array(v.data);
    for (let g = 0; g < G; g++)
      for (let e = 0; e < lengths[g]; e++) {
        const part = share.data[g * n + e];
        if (part === 0) continue;
        for (let t = e + 1, count = 0; t < lengths[g] && count < slots; t++)
          if (stays.data[g * n + t] !== 0) {
            count++;
            for (let c = 0; c < d; c++) sums[(g * n + t) * d + c] += part * v.data[(g * n + e) * d + c];
          }
      }
    out.set(sums);
  },
});
