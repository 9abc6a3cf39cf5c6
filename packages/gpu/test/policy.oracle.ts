export interface Scene {
  readonly queryHeads: number;
  readonly kvHeads: number;
  readonly slots: number;
  readonly channels: number;
  readonly window: number;
  readonly attention: Float32Array;
  readonly values: Float32Array;
}

/**
 * Scores of snapkv ∘ caote on KV rows in float64: pooled attention, h / (1 - h) |o - v|, mean over the query heads of
 * each.
 */
export function snapkvCaote(
  { queryHeads, kvHeads, slots, channels, window, attention, values }: Scene,
  kernel = 5,
): Float64Array {
  const out = new Float64Array(kvHeads * slots),
    group = queryHeads / kvHeads,
    end = Math.max(0, slots - window);
  for (let q = 0; q < queryHeads; q++) {
    const raw = attention.subarray(q * slots, (q + 1) * slots),
      kv = Math.floor(q / group),
      at = kv * slots;
    const h = Float64Array.from(raw, (a, i) => {
      if (i >= end) return a;
      let sum = 0;
      for (let j = i - (kernel - 1) / 2; j <= i + (kernel - 1) / 2; j++) if (j >= 0 && j < end) sum += raw[j];
      return sum / kernel;
    });
    const mass = h.reduce((a, b) => a + b, 0);
    for (let i = 0; i < slots; i++) h[i] = mass === 0 ? 1 / slots : h[i] / mass;
    const o = new Float64Array(channels);
    for (let i = 0; i < slots; i++) for (let c = 0; c < channels; c++) o[c] += h[i] * values[(at + i) * channels + c];
    for (let i = 0; i < slots; i++) {
      let square = 0;
      for (let c = 0; c < channels; c++) square += (o[c] - values[(at + i) * channels + c]) ** 2;
      out[at + i] += ((h[i] / Math.max(1 - h[i], 2 ** -24)) * Math.sqrt(square)) / group;
    }
  }
  return out;
}
