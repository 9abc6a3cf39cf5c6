import { count, kernel, keys, KvError, rope, scorer } from '@kv/core';
import type { Rope } from '@kv/core';
import { preRope } from './pre-rope.ts';
import type { PreRope } from './pre-rope.ts';

/** Returns the mean cos and sin over the future distances, and the factor by which the rotation scales. */
function ahead(
  { rotary, angles }: Rope,
  t: number,
  horizon: number,
): { readonly cos: Float64Array; readonly sin: Float64Array; readonly factor: number } {
  const half = rotary / 2,
    offsets: number[] = [];
  for (let delta = 1; delta <= horizon; delta *= 2) offsets.push(t + delta);
  const { cos, sin } = angles(Uint32Array.from(offsets)),
    mean = (x: Float32Array): Float64Array =>
      Float64Array.from(
        { length: half },
        (_, f) => offsets.reduce((sum, __, i) => sum + x[i * half + f], 0) / offsets.length,
      );
  return { cos: mean(cos), sin: mean(sin), factor: half === 0 ? 1 : Math.hypot(cos[0], sin[0]) };
}

/**
 * Returns a mean query turned to the positions of future queries, `[H, d]`, and the weight of every pair's length,
 * `[H, half]`.
 */
function centre(
  { mean, size, half }: PreRope,
  heads: number,
  dim: number,
  { cos, sin, factor }: ReturnType<typeof ahead>,
): { readonly query: Float32Array; readonly spread: Float32Array } {
  const query = mean.slice(),
    spread = new Float32Array(heads * half);
  for (let h = 0; h < heads; h++)
    for (let f = 0; f < half; f++) {
      const at = h * dim + f,
        [x, y] = [mean[at], mean[at + half]];
      query[at] = x * cos[f] - y * sin[f];
      query[at + half] = x * sin[f] + y * cos[f];
      spread[h * half + f] = factor * Math.max(0, size[h * half + f] - Math.hypot(x, y));
    }
  return { query, spread };
}

/**
 * TriAttention: the expected score of a key for future queries, from calibrated statistics of queries before rotation,
 * S = Σ_f |E q_f| |k_f| cos(ω_f Δ + φ_f) + Σ_f (E|q_f| - |E q_f|) |k_f|, averaged over future distances.
 *
 * @remarks Mao et al. 2026, arXiv:2604.04921. In its linear form: the mean over distances is one inner product of the
 * cached key with a turned mean query. Scores on query rows `[H, n]`, neither scaled nor softmaxed; compose with
 * `zScore()` and `reduceHeads({ kind: 'max' })`. Time t is the position of the next token. Channels that do not rotate
 * count with their mean. O(H n d), and a file next to the model.
 * @throws KvError in an event where the statistics have another shape.
 */
export const futureQueryScores = scorer(
  'futureQueryScores',
  {
    source: 'Mao et al. 2026, arXiv:2604.04921',
    says: 'How a key would fare with future queries, by calibrated statistics.',
    options: {
      horizon: count(65_536, 'tokens', 'Future distances 1, 2, 4, ... up to this many tokens are averaged.', {
        most: 2 ** 20,
      }),
    },
    needs: [preRope, rope, keys],
  },
  ({ ops, at, preRope: stats, rope: turns, keys: k }, { horizon }) => {
    const { queryHeads: H, headDim: d } = at;
    const { half } = stats;
    if (stats.queryHeads !== H || stats.headDim !== d || 2 * half !== turns.rotary)
      throw new KvError(
        'futureQueryScores',
        `expected statistics of ${H} heads with ${d} channels, ${turns.rotary} of which rotate, got ${stats.queryHeads} heads with ${stats.headDim} and ${2 * half}`,
      );
    const { query, spread } = centre(stats, H, d, ahead(turns, at.length, horizon));
    return ops.kernel(aheadProducts, {
      keys: k,
      query: ops.from({ data: query, shape: [H, d] }),
      spread: ops.from({ data: spread, shape: [H, half] }),
    });
  },
);

/**
 * query · k + Σ_f spread_f |k_f| over the pairs (f, f + half) of every key: keys `[G, n, d]`, query `[H, d]`, spread
 * `[H, half]`, to `[H, n]`.
 */
export const aheadProducts = kernel({
  id: 'ahead-products',
  inputs: { keys: 'f32', query: 'f32', spread: 'f32' },
  ragged: 'keys',
  output: { shape: ({ keys: k, query }) => [query[0], k[1]] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = keys_shape.y; let d = keys_shape.z; let half = spread_shape.y; let h = index / n;
  let at = (h / (query_shape.x / keys_shape.x) * n + index % n) * d;
  var sum = 0.0;
  for (var c = 0u; c < d; c++) { sum += query[h * d + c] * keys[at + c]; }
  for (var f = 0u; f < half; f++) { let x = keys[at + f]; let y = keys[at + half + f]; sum += spread[h * half + f] * sqrt(x * x + y * y); }
  output[index] = sum;
}`,
  operations: ({ keys: k, spread }) => {
    const [, n = 0, d = 0] = k.shape,
      [H = 0, half = 0] = spread.shape;
    return H * n * (2 * d + 6 * half);
  },
  ref({ keys: k, query, spread }, _, out, lengths, products) {
    const [G = 0, n = 0, d = 0] = k.shape,
      [H = 0, half = 0] = spread.shape,
      group = H / Math.max(1, G),
      wide = d + half, // every key followed by the lengths of its pairs
      x = new Float32Array(n * wide),
      q = new Float32Array(group * wide),
      found = new Float32Array(group * n);
    for (let g = 0; g < G; g++) {
      for (let i = 0; i < lengths[g]; i++) {
        const key = k.data.subarray((g * n + i) * d, (g * n + i + 1) * d),
          to = i * wide;
        x.set(key, to);
        for (let f = 0; f < half; f++) x[to + d + f] = Math.sqrt(key[f] * key[f] + key[half + f] * key[half + f]);
      }
      for (let r = 0, h = g * group; r < group; r++, h++) {
        q.set(query.data.subarray(h * d, (h + 1) * d), r * wide);
        q.set(spread.data.subarray(h * half, (h + 1) * half), r * wide + d);
      }
      products.dots(q, x, wide, found);
      out.set(found, g * group * n);
    }
  },
});
