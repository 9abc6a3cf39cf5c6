import { kernel } from '@kv/core';

const inputs = { queries: 'f32', keys: 'f32', positions: 'u32' } as const,
  params = { chunk: 'u32', first: 'u32' } as const;
const RANGE = /* wgsl */ `
fn product(q: u32, k: u32) -> f32 { var s = 0.0; for (var c = 0u; c < keys_shape.z; c++) { s += queries[q * keys_shape.z + c] * keys[k * keys_shape.z + c]; } return s; }
fn from_(g: u32, want: u32) -> u32 {
  var low = 0u; var high = positions_lengths[g];
  while (low < high) { let mid = (low + high) / 2u; if (positions[g * positions_shape.y + mid] < want) { low = mid + 1u; } else { high = mid; } }
  return low;
}`;
/** First slot of a head that stands at position `want` or later. */
function from(positions: ArrayLike<number>, want: number): number {
  let low = 0,
    high = positions.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (positions[mid] < want) low = mid + 1;
    else high = mid;
  }
  return low;
}
const product = (
  a: Float32Array | Uint32Array,
  i: number,
  b: Float32Array | Uint32Array,
  j: number,
  d: number,
): number => {
  let s = 0;
  for (let c = 0; c < d; c++) s += a[i * d + c] * b[j * d + c];
  return s;
};

/**
 * For every query `[H, m, d]` (query i stands at position first + i): log Σ exp(q·k) over the cached keys of its own
 * chunk of positions, `[H, m]`; -3e38 where there is none.
 */
export const chunkLogSum = kernel({
  id: 'chunk-log-sum',
  inputs,
  params,
  ragged: 'positions',
  output: { shape: ({ queries }) => [queries[0], queries[1]] },
  wgsl: /* wgsl */ `${RANGE}
fn run(index: u32) {
  let n = positions_shape.y; let g = index / queries_shape.y / (queries_shape.x / keys_shape.x);
  let c = (params.first + index % queries_shape.y) / params.chunk;
  let low = from_(g, c * params.chunk); let high = from_(g, (c + 1u) * params.chunk);
  var top = -3.0e38;
  for (var i = low; i < high; i++) { top = max(top, product(index, g * n + i)); }
  var sum = 0.0;
  for (var i = low; i < high; i++) { sum += exp(product(index, g * n + i) - top); }
  output[index] = select(-3.0e38, top + log(sum), high > low);
}`,
  operations: ({ queries }, { chunk }) => {
    const [H = 0, m = 0, d = 0] = queries.shape;
    return H * m * chunk * (4 * d + 4);
  },
  ref({ queries: q, keys: k, positions: p }, { chunk, first }, out, lengths) {
    const [H = 0, m = 0, d = 0] = q.shape,
      [G = 0, n = 0] = k.shape;
    for (let h = 0; h < H; h++) {
      const g = Math.floor((h * G) / H),
        placed = p.data.subarray(g * n, g * n + lengths[g]);
      for (let t = 0; t < m; t++) {
        const c = Math.floor((first + t) / chunk),
          low = from(placed, c * chunk),
          high = from(placed, (c + 1) * chunk);
        const logits = Array.from({ length: high - low }, (_, i) =>
          product(q.data, h * m + t, k.data, g * n + low + i, d),
        );
        const top = logits.reduce((a, b) => Math.max(a, b), -3e38);
        out[h * m + t] =
          logits.length === 0 ? -3e38 : top + Math.log(logits.reduce((a, x) => a + Math.exp(x - top), 0));
      }
    }
  },
});

/** What every slot receives from the queries of its own chunk, before and after it: Σ exp(q·k - log-sum), `[H, n]`. */
export const chunkMass = kernel({
  id: 'chunk-mass',
  inputs: { ...inputs, sums: 'f32' },
  params,
  ragged: 'positions',
  output: { shape: ({ queries, keys }) => [queries[0], keys[1]] },
  wgsl: /* wgsl */ `${RANGE}
fn run(index: u32) {
  let n = positions_shape.y; let m = queries_shape.y; let h = index / n; let i = index % n; let g = h / (queries_shape.x / keys_shape.x);
  output[index] = 0.0;
  if (i >= positions_lengths[g]) { return; }
  let c = positions[g * n + i] / params.chunk;
  let low = max(c * params.chunk, params.first) - params.first; let high = min(max((c + 1u) * params.chunk, params.first) - params.first, m);
  var sum = 0.0;
  for (var t = low; t < high; t++) { sum += exp(product(h * m + t, g * n + i) - sums[h * m + t]); }
  output[index] = sum;
}`,
  operations: ({ queries, keys }, { chunk }) => {
    const [H = 0, , d = 0] = queries.shape;
    return H * keys.shape[1] * chunk * (2 * d + 3);
  },
  ref({ queries: q, keys: k, positions: p, sums }, { chunk, first }, out, lengths) {
    const [H = 0, m = 0, d = 0] = q.shape,
      [G = 0, n = 0] = k.shape;
    for (let h = 0; h < H; h++) {
      const g = Math.floor((h * G) / H);
      for (let i = 0; i < lengths[g]; i++) {
        const c = Math.floor(p.data[g * n + i] / chunk);
        let sum = 0;
        for (let t = Math.max(0, c * chunk - first); t < Math.min(m, (c + 1) * chunk - first); t++)
          sum += Math.exp(product(q.data, h * m + t, k.data, g * n + i, d) - sums.data[h * m + t]);
        out[h * n + i] = sum;
      }
    }
  },
});
