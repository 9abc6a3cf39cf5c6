import { kernel } from '@kv/core';
import { countBelow } from '@kv/core/shared';

const FROM = /* wgsl */ `
fn from_(g: u32, want: u32) -> u32 {
  var low = 0u; var high = positions_lengths[g];
  while (low < high) { let mid = (low + high) / 2u; if (positions[g * positions_shape.y + mid] < want) { low = mid + 1u; } else { high = mid; } }
  return low;
}`;

/**
 * Attention that the slots of a chunk of positions receive from all queries of that chunk, before and after them:
 * Σ softmax(q·k). Queries `[H, m, d]` of positions 0 to m - 1 and keys `[G, n, d]` to `[H C, chunk]`: row h C + c for
 * chunk c of head h, its slots in order, padded with 0.
 */
export const chunkMass = kernel({
  id: 'chunk-mass',
  inputs: { queries: 'f32', keys: 'f32', positions: 'u32' },
  params: { chunk: 'u32' },
  ragged: 'positions',
  output: {
    dense: true,
    shape: ({ queries: [H, m] }, { chunk }) => [H * Math.ceil(m / chunk), chunk],
  },
  per: 'group',
  wgsl: /* wgsl */ `${FROM}
fn product(q: u32, k: u32) -> f32 { var s = 0.0; for (var c = 0u; c < keys_shape.z; c++) { s += queries[q * keys_shape.z + c] * keys[k * keys_shape.z + c]; } return s; }
var<workgroup> bounds: vec4<u32>; // queries, slots
var<workgroup> sums: array<f32, THREADS>;
fn run(row: u32, lane: u32) {
  let m = queries_shape.y; let n = positions_shape.y;
  let chunks = (m + params.chunk - 1u) / params.chunk;
  let h = row / chunks; let c = row % chunks; let g = h / (queries_shape.x / keys_shape.x);
  if (lane == 0u) { bounds = vec4<u32>(c * params.chunk, min((c + 1u) * params.chunk, m), from_(g, c * params.chunk), from_(g, (c + 1u) * params.chunk)); }
  let b = workgroupUniformLoad(&bounds);
  for (var i = lane; i < params.chunk; i += THREADS) { output[row * params.chunk + i] = 0.0; }
  // log-sum-exps of as many queries as there are threads, then what these give to every slot
  for (var t = b.x; t < b.y; t += THREADS) {
    if (t + lane < b.y) {
      var top = -3.0e38; var sum = 0.0;
      for (var i = b.z; i < b.w; i++) { let l = product(h * m + t + lane, g * n + i); let most = max(top, l); sum = sum * exp(top - most) + exp(l - most); top = most; }
      sums[lane] = top + log(sum);
    }
    workgroupBarrier();
    for (var i = b.z + lane; i < b.w; i += THREADS) {
      var mass = 0.0;
      for (var u = t; u < min(t + THREADS, b.y); u++) { mass += exp(product(h * m + u, g * n + i) - sums[u - t]); }
      output[row * params.chunk + i - b.z] += mass;
    }
    workgroupBarrier();
  }
}`,
  operations: ({ queries }, { chunk }) => {
    const [H = 0, m = 0, d = 0] = queries.shape;
    return H * m * chunk * (4 * d + 9);
  },
  ref({ queries: q, keys: k, positions: p }, { chunk }, out, lengths, products) {
    const [H = 0, m = 0, d = 0] = q.shape,
      [G = 1, n = 0] = k.shape,
      group = H / G,
      chunks = Math.ceil(m / chunk),
      most = new Float32Array(group * Math.min(chunk, m) * d);
    for (let row = 0; row < G * chunks; row++) {
      const g = Math.floor(row / chunks),
        c = row % chunks,
        first = c * chunk,
        count = Math.min(chunk, m - first),
        positions = p.data.subarray(g * n, g * n + lengths[g]),
        [low, high] = [countBelow(positions, first), countBelow(positions, first + chunk)],
        queries = most.subarray(0, group * count * d),
        mass = new Float32Array(group * (high - low));
      for (let r = 0, at = (g * group * m + first) * d; r < group; r++, at += m * d)
        queries.set(q.data.subarray(at, at + count * d), r * count * d);
      products.mass(queries, k.data.subarray((g * n + low) * d, (g * n + high) * d), d, mass);
      for (let r = 0; r < group; r++)
        out.set(mass.subarray(r * (high - low), (r + 1) * (high - low)), ((g * group + r) * chunks + c) * chunk);
    }
  },
});

/**
 * Moves every slot's number from the row of its chunk to its slot: `[H, C chunk]` to `[H, n]`, 0 beyond the last chunk.
 */
export const fromChunks = kernel({
  id: 'from-chunks',
  inputs: { rows: 'f32', positions: 'u32' },
  params: { chunk: 'u32' },
  ragged: 'positions',
  output: { shape: ({ rows, positions }) => [rows[0], positions[1]] },
  wgsl: /* wgsl */ `${FROM}
fn run(index: u32) {
  let n = positions_shape.y; let h = index / n; let i = index % n; let g = h / (rows_shape.x / positions_shape.x);
  output[index] = 0.0;
  if (i >= positions_lengths[g]) { return; }
  let first = positions[g * n + i] / params.chunk * params.chunk;
  if (first < rows_shape.y) { output[index] = rows[h * rows_shape.y + first + i - from_(g, first)]; }
}`,
  ref({ rows, positions: p }, { chunk }, out, lengths) {
    const [H = 0, wide = 0] = rows.shape,
      [G = 1, n = 0] = p.shape;
    for (let h = 0; h < H; h++) {
      const g = Math.floor((h * G) / H),
        positions = p.data.subarray(g * n, g * n + lengths[g]);
      for (let first = 0; first < wide; first += chunk) {
        const [low, high] = [countBelow(positions, first), countBelow(positions, first + chunk)];
        out.set(rows.data.subarray(h * wide + first, h * wide + first + high - low), h * n + low);
      }
    }
  },
});
