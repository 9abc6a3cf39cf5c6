import { kernel } from '@kv/core';
import { plainProducts } from '@kv/core/shared';
import type { Products } from '@kv/core';

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
/** The queries [first, end) of a head and the slots [low, high) of the same chunk of positions. */
interface Chunk {
  readonly first: number;
  readonly end: number;
  readonly low: number;
  readonly high: number;
}
/** Chunks of `chunk` positions that m queries from position `start` on are in, over these slots. */
function chunksOf(m: number, start: number, chunk: number, positions: Float32Array | Uint32Array): readonly Chunk[] {
  const out: Chunk[] = [];
  for (let c = Math.floor(start / chunk); c * chunk < start + m; c++)
    out.push({
      first: Math.max(0, c * chunk - start),
      end: Math.min(m, (c + 1) * chunk - start),
      low: from(positions, c * chunk),
      high: from(positions, (c + 1) * chunk),
    });
  return out;
}
/** Logits of a chunk, `[queries, slots]`. */
function logitsOf(
  q: Float32Array,
  k: Float32Array,
  { first, end, low, high }: Chunk,
  d: number,
  { dots }: Products,
): Float32Array {
  const out = new Float32Array((end - first) * (high - low));
  dots(q.subarray(first * d, end * d), k.subarray(low * d, high * d), d, out);
  return out;
}

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
  ref({ queries: q, keys: k, positions: p }, { chunk, first }, out, lengths, products = plainProducts) {
    const [H = 0, m = 0, d = 0] = q.shape,
      [G = 0, n = 0] = k.shape;
    out.fill(-3e38);
    for (let h = 0; h < H; h++) {
      const g = Math.floor((h * G) / H),
        own = q.data.subarray(h * m * d, (h + 1) * m * d),
        keys = k.data.subarray(g * n * d, (g + 1) * n * d);
      for (const part of chunksOf(m, first, chunk, p.data.subarray(g * n, g * n + lengths[g]))) {
        const wide = part.high - part.low,
          logits = logitsOf(own, keys, part, d, products),
          tops = new Float32Array(part.end - part.first).fill(-3e38);
        if (wide === 0) continue;
        for (let r = 0, at = 0; r < tops.length; r++)
          for (let i = 0; i < wide; i++, at++) if (logits[at] > tops[r]) tops[r] = logits[at];
        products.exps(logits, tops);
        for (let r = 0, at = 0; r < tops.length; r++) {
          let sum = 0;
          for (let i = 0; i < wide; i++, at++) sum += logits[at];
          out[h * m + part.first + r] = tops[r] + Math.log(sum);
        }
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
  ref({ queries: q, keys: k, positions: p, sums }, { chunk, first }, out, lengths, products = plainProducts) {
    const [H = 0, m = 0, d = 0] = q.shape,
      [G = 0, n = 0] = k.shape;
    for (let h = 0; h < H; h++) {
      const g = Math.floor((h * G) / H),
        own = q.data.subarray(h * m * d, (h + 1) * m * d),
        keys = k.data.subarray(g * n * d, (g + 1) * n * d),
        less = sums.data.subarray(h * m, (h + 1) * m);
      for (const part of chunksOf(m, first, chunk, p.data.subarray(g * n, g * n + lengths[g]))) {
        const { first: t, end, low, high } = part,
          logits = logitsOf(own, keys, part, d, products);
        if (low === high) continue;
        products.exps(logits, less.subarray(t, end));
        products.mix(
          new Float32Array(end - t).fill(1),
          logits,
          high - low,
          (out as Float32Array).subarray(h * n + low, h * n + high),
        );
      }
    }
  },
});
