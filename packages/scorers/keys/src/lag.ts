import { kernel } from '@kv/core';
import { kernelBytes } from './lag-bytes.ts';
import { plainSpreads, spreadsBy } from './spreads.ts';
import type { Spreads } from './spreads.ts';

/** Number of partitions of `lag` slots after the sinks that have a whole next one, at least 1. */
const compared = (slots: number, lag: number, sinks: number): number =>
  Math.max(1, Math.floor(Math.max(0, slots - sinks) / lag) - 1);

/**
 * How unevenly the slots of a partition lie between the bounds of the next: the standard deviation over channels
 * (divided by d - 1) of (x - low) / (high - low), which is 0 for a channel without extent. x `[G, n, d]` to
 * `[G P, lag]`, P the number of partitions that have a whole next one; where none has, one partition of zeros. Slots
 * beyond a row's length count here, but not in `lagScores`.
 */
export const lagSpread = kernel({
  id: 'lag-spread',
  inputs: { x: 'f32' },
  params: { lag: 'u32', sinks: 'u32' },
  per: 'group',
  output: { shape: ({ x }, { lag, sinks }) => [x[0] * compared(x[1], lag, sinks), lag] },
  wgsl: /* wgsl */ `
var<workgroup> known: vec2<u32>; // slots and channels to compare
var<workgroup> lows: array<f32, THREADS>;
var<workgroup> extents: array<f32, THREADS>;
fn run(row: u32, lane: u32) {
  let n = x_shape.y; let lag = params.lag;
  let parts = max(2u, (max(n, params.sinks) - params.sinks) / lag) - 1u;
  let first = params.sinks + row % parts * lag;
  if (lane == 0u) { known = vec2<u32>(select(0u, lag, x_shape.z > 1u && first + 2u * lag <= n), x_shape.z); }
  let sizes = workgroupUniformLoad(&known); let d = sizes.y;
  for (var j = lane; j < lag; j += THREADS) { output[row * lag + j] = 0.0; }
  let own = (row / parts * n + first) * d;
  for (var start = 0u; start < sizes.x; start += THREADS) {
    let j = start + lane;
    var mean = 0.0; var square = 0.0; // of the channels so far, around their mean
    for (var tile = 0u; tile < d; tile += THREADS) {
      workgroupBarrier();
      if (tile + lane < d) {
        let next = own + lag * d + tile + lane;
        var low = x[next]; var high = low;
        for (var i = 1u; i < lag; i++) { let v = x[next + i * d]; low = min(low, v); high = max(high, v); }
        lows[lane] = low; extents[lane] = high - low;
      }
      workgroupBarrier();
      for (var c = 0u; c < select(0u, min(THREADS, d - tile), j < lag); c++) {
        let share = select(0.0, (x[own + j * d + tile + c] - lows[c]) / extents[c], extents[c] > 0.0);
        let off = share - mean;
        mean += off / f32(tile + c + 1u);
        square += off * (share - mean);
      }
    }
    if (j < lag) { output[row * lag + j] = sqrt(square / f32(d - 1u)); }
  }
}`,
  operations: ({ x }) => 11 * x.shape.reduce((a, b) => a * b, 1),
  ref({ x: { data, shape } }, { lag, sinks }, out, _, _products, spreads: Spreads = plainSpreads) {
    const [G = 0, n = 0, d = 0] = shape,
      parts = compared(n, lag, sinks);
    if (d < 2 || n < sinks + 2 * lag) return;
    for (let g = 0; g < G; g++) {
      const from = (first: number) => data.subarray((g * n + first) * d, (g * n + first + parts * lag) * d),
        own = out.subarray(g * parts * lag, (g + 1) * parts * lag) as Float32Array;
      spreads(from(sinks), from(sinks + lag), d, lag, own);
    }
  },
  wasm: { bytes: kernelBytes, loop: spreadsBy },
});

/**
 * Places scores in the shape `[G, n]` of `like`: 1 for sinks and for slots without a whole next partition, otherwise
 * the score of `parts` `[G P, lag]`, or where those are ranks (`ranked` 1) the share of its partition that a slot
 * beats. A row too short for two partitions scores by recency.
 */
export const lagScores = kernel({
  id: 'lag-scores',
  inputs: { parts: 'f32', like: 'f32' },
  params: { lag: 'u32', sinks: 'u32', ranked: 'u32' },
  ragged: 'like',
  output: { shape: ({ like }) => like },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = like_shape.y; let g = index / n; let i = index % n; let count = like_lengths[g];
  output[index] = 1.0;
  if (i < params.sinks) { return; }
  let own = i - params.sinks;
  if (count < params.sinks + 2u * params.lag) { output[index] = f32(own) / f32(max(count, params.sinks + 1u) - params.sinks); return; }
  if (params.sinks + (own / params.lag + 2u) * params.lag > count) { return; }
  let part = parts[g * (parts_shape.x / like_shape.x) * params.lag + own];
  output[index] = select(part, (f32(params.lag) - 1.0 - part) / f32(params.lag), params.ranked != 0u);
}`,
  operations: ({ like }, { ranked }) => (4 + 2 * ranked) * like.shape.reduce((a, b) => a * b, 1),
  ref({ parts, like }, { lag, sinks, ranked }, out, lengths) {
    const [G = 0, n = 0] = like.shape,
      each = (parts.shape[0] / Math.max(1, G)) * lag;
    for (let g = 0; g < G; g++) {
      const count = lengths[g],
        to = out.subarray(g * n, g * n + count).fill(1),
        whole = Math.floor((count - sinks) / lag) - 1,
        scores = parts.data.subarray(g * each, g * each + Math.max(0, whole) * lag);
      if (whole < 1) for (let i = sinks; i < count; i++) to[i] = (i - sinks) / (count - sinks);
      else if (ranked) for (let i = 0; i < scores.length; i++) to[sinks + i] = (lag - 1 - scores[i]) / lag;
      else to.set(scores, sinks);
    }
  },
});
