import type { Kernel } from '@kv/core';

/** Lowest and highest number of each channel in each whole partition of `lag` slots after `sinks`: x `[G, n, d]` to `[G, P, 2 d]`, P = ⌊(n - sinks) / lag⌋ (at least 1). */
export const lagRange: Kernel = {
  id: 'lag-range', inputs: { x: 'f32' }, params: { lag: 'u32', sinks: 'u32' }, per: 'element',
  output: { dtype: 'f32', shape: ({ x }, { lag, sinks }) => [x![0]!, Math.max(1, Math.floor(Math.max(0, x![1]! - sinks!) / lag!)), 2 * x![2]!] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = x_shape.y; let d = x_shape.z;
  let parts = max(1u, (max(n, params.sinks) - params.sinks) / params.lag);
  let c = index % (2u * d); let p = index / (2u * d) % parts; let g = index / (2u * d * parts);
  let low = c < d;
  let first = params.sinks + p * params.lag;
  if (first >= n) { output[index] = 0.0; return; }
  var best = x[(g * n + first) * d + c % d];
  for (var i = first + 1u; i < min(first + params.lag, n); i++) {
    let value = x[(g * n + i) * d + c % d];
    best = select(max(best, value), min(best, value), low);
  }
  output[index] = best;
}`,
  operations: ({ x }) => 2 * x!.shape.reduce((a, b) => a * b, 1),
  ref({ x }, { lag = 1, sinks = 0 }, out) {
    const [G = 0, n = 0, d = 0] = x!.shape, parts = Math.max(1, Math.floor(Math.max(0, n - sinks) / lag));
    for (let g = 0; g < G; g++) for (let p = 0; p < parts; p++) {
      const first = sinks + p * lag, to = (g * parts + p) * 2 * d;
      if (first >= n) continue;
      for (let c = 0; c < d; c++) {
        let low = Infinity, high = -Infinity;
        for (let i = first; i < Math.min(first + lag, n); i++) { const v = x!.data[(g * n + i) * d + c]!; low = Math.min(low, v); high = Math.max(high, v); }
        out[to + c] = low;
        out[to + d + c] = high;
      }
    }
  },
};

/**
 * How unevenly a slot lies between the bounds of the next partition: the standard deviation over channels (divided by d - 1) of
 * (x - low) / (high - low); 0 where there is no whole next partition, and for a channel without extent 0 of it.
 */
export const lagSpread: Kernel = {
  id: 'lag-spread', inputs: { x: 'f32', range: 'f32' }, params: { lag: 'u32', sinks: 'u32' }, ragged: 'x', per: 'element',
  output: { dtype: 'f32', shape: ({ x }) => [x![0]!, x![1]!] },
  wgsl: /* wgsl */ `
fn share(at: u32, bounds: u32, c: u32) -> f32 {
  let low = range[bounds + c]; let extent = range[bounds + x_shape.z + c] - low;
  return select(0.0, (x[at + c] - low) / extent, extent > 0.0);
}
fn run(index: u32) {
  let n = x_shape.y; let d = x_shape.z; let g = index / n; let i = index % n;
  let p = (max(i, params.sinks) - params.sinks) / params.lag;
  output[index] = 0.0;
  if (i < params.sinks || d < 2u || params.sinks + (p + 2u) * params.lag > x_lengths[g]) { return; }
  let at = index * d; let bounds = (g * range_shape.y + p + 1u) * 2u * d;
  var sum = 0.0;
  for (var c = 0u; c < d; c++) { sum += share(at, bounds, c); }
  let mean = sum / f32(d);
  var square = 0.0;
  for (var c = 0u; c < d; c++) { let off = share(at, bounds, c) - mean; square += off * off; }
  output[index] = sqrt(square / f32(d - 1u));
}`,
  operations: ({ x }) => 9 * x!.shape.reduce((a, b) => a * b, 1),
  ref({ x, range }, { lag = 1, sinks = 0 }, out, lengths) {
    const [G = 0, n = 0, d = 0] = x!.shape, parts = range!.shape[1]!;
    if (d < 2) return;
    for (let g = 0; g < G; g++) for (let i = sinks; i < lengths[g]!; i++) {
      const p = Math.floor((i - sinks) / lag), bounds = (g * parts + p + 1) * 2 * d;
      if (sinks + (p + 2) * lag > lengths[g]!) break;
      const shares = Float64Array.from({ length: d }, (_, c) => {
        const low = range!.data[bounds + c]!, extent = range!.data[bounds + d + c]! - low;
        return extent > 0 ? (x!.data[(g * n + i) * d + c]! - low) / extent : 0;
      });
      const mean = shares.reduce((a, b) => a + b) / d;
      out[g * n + i] = Math.sqrt(shares.reduce((a, s) => a + (s - mean) ** 2, 0) / (d - 1));
    }
  },
};

/**
 * Scores with their place: 1 for sinks and for what has no whole next partition; between them the score itself (`ranked` 0), or how many
 * slots of its own partition it beats, ties to the lower slot, divided by lag (`ranked` 1). A row too short for two partitions scores by recency.
 */
export const lagRank: Kernel = {
  id: 'lag-rank', inputs: { x: 'f32' }, params: { lag: 'u32', sinks: 'u32', ranked: 'u32' }, ragged: 'x', per: 'element',
  output: { dtype: 'f32', shape: ({ x }) => x! },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = x_shape.y; let g = index / n; let i = index % n; let count = x_lengths[g];
  output[index] = 1.0;
  if (i < params.sinks) { return; }
  if (count < params.sinks + 2u * params.lag) { output[index] = f32(i - params.sinks) / f32(max(count, params.sinks + 1u) - params.sinks); return; }
  let p = (i - params.sinks) / params.lag;
  if (params.sinks + (p + 2u) * params.lag > count) { return; }
  output[index] = x[index];
  if (params.ranked == 0u) { return; }
  let first = params.sinks + p * params.lag;
  var beaten = 0u;
  for (var j = first; j < first + params.lag; j++) {
    let other = x[g * n + j];
    if (other < x[index] || (other == x[index] && j > i)) { beaten++; }
  }
  output[index] = f32(beaten) / f32(params.lag);
}`,
  operations: ({ x }, { lag = 1, ranked = 0 }) => x!.shape.reduce((a, b) => a * b, 1) * (4 + ranked * 3 * lag),
  ref({ x }, { lag = 1, sinks = 0, ranked = 0 }, out, lengths) {
    const [G = 0, n = 0] = x!.shape;
    for (let g = 0; g < G; g++) {
      const count = lengths[g]!, row = x!.data.subarray(g * n, g * n + count), to = out.subarray(g * n, g * n + count).fill(1);
      if (count < sinks + 2 * lag) { for (let i = sinks; i < count; i++) to[i] = (i - sinks) / (count - sinks); continue; }
      for (let first = sinks; first + 2 * lag <= count; first += lag) {
        const order = Array.from({ length: lag }, (_, j) => first + j).sort((a, b) => row[a]! - row[b]! || b - a);
        order.forEach((i, beaten) => { to[i] = ranked ? beaten / lag : row[i]!; });
      }
    }
  },
};
