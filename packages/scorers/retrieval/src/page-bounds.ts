import { count, kernel, keys, queries, scorer } from '@kv/core';
import { extents as plainExtents } from '@kv/core/shared';
import { extentsBy } from './extents.ts';
import type { Extents } from './extents.ts';
import { kernelBytes } from './page-bounds-bytes.ts';
import { loopBytes } from './page-bounds-loop.ts';

/** Upper bound of q·k over a page of keys, written to every slot of the page: Σ_c max(q_c max_c, q_c min_c). */
export const pageBound = kernel({
  id: 'quest-page-bound',
  inputs: { queries: 'f32', keys: 'f32' },
  params: { page: 'u32' },
  ragged: 'keys',
  inPlace: ['keys'],
  output: { shape: ({ queries: q, keys: k }) => [q[0], k[1]] },
  wgsl: /* wgsl */ `
// the first of the outputs' threads take a page each, eight channels at a time: neighbours in memory
fn run(index: u32) {
  let n = keys_shape.y; let d = keys_shape.z; let pages = (n + params.page - 1u) / params.page;
  let h = index / pages; let first = index % pages * params.page;
  if (h >= queries_shape.x) { return; }
  let g = h / (queries_shape.x / keys_shape.x);
  let end = min(first + params.page, keys_lengths[g]);
  var bound = 0.0;
  for (var from_channel = 0u; from_channel < d; from_channel += 8u) {
    let channels = min(8u, d - from_channel);
    var best = array<f32, 8>(-3.0e38, -3.0e38, -3.0e38, -3.0e38, -3.0e38, -3.0e38, -3.0e38, -3.0e38);
    let q = (h * queries_shape.y + queries_shape.y - 1u) * d + from_channel;
    for (var i = first; i < end; i++) {
      let k = (g * n + i) * d + from_channel;
      for (var c = 0u; c < channels; c++) { best[c] = max(best[c], queries[q + c] * keys[k + c]); }
    }
    for (var c = 0u; c < channels; c++) { bound += best[c]; }
  }
  for (var i = first; i < min(first + params.page, n); i++) { output[h * n + i] = bound; }
}`,
  ref({ queries: q, keys: k }, { page }, out, lengths, products, own: Extents = plainExtents) {
    const [H = 0, w = 0, d = 0] = q.shape,
      [G = 0, n = 0] = k.shape,
      { apart = n * d } = k,
      { data: queries } = q,
      group = H / Math.max(1, G),
      lows = new Float32Array(Math.ceil(n / page) * d),
      highs = new Float32Array(lows.length);
    for (let g = 0; g < G; g++) {
      (products.extents ?? own)(k.data.subarray(g * apart, g * apart + lengths[g] * d), d, page, lows, highs);
      for (let first = 0, of = 0; first < lengths[g]; first += page, of += d) {
        const end = Math.min(first + page, lengths[g]);
        for (let h = g * group; h < (g + 1) * group; h++) {
          const query = (h * w + w - 1) * d;
          let bound = 0;
          for (let c = 0; c < d; c++) {
            const x = queries[query + c];
            bound += x * (x < 0 ? lows[of + c] : highs[of + c]);
          }
          for (let i = h * n + first; i < h * n + end; i++) out[i] = bound;
        }
      }
    }
  },
  wasm: { bytes: kernelBytes, loop: extentsBy },
});

/**
 * Quest's page bounds: for every slot, the largest q·k that a key within the channel-wise bounds of its page could
 * have, Σ_c max(q_c max_c, q_c min_c).
 *
 * @remarks Tang et al. 2024, arXiv:2406.10774. Scores on query rows `[H, n]`, equal within a page of slots; the last,
 * partial page competes like any other. Never below the true q·k of any slot of the page, and equal to it for pages of
 * one. O(H n d).
 */
export const pageBounds = scorer(
  'pageBounds',
  {
    source: 'Tang et al. 2024, arXiv:2406.10774',
    says: 'The largest product that a key within the bounds of its page could have.',
    options: { page: count(16, 'slots', 'Slots in a page.') },
    needs: [queries(1), keys],
    loop: ({ page }) => ({
      bytes: loopBytes,
      words: [page],
      index: { slots: page, numbers: (d) => 2 * d },
      reads: ({ slots, headDim }) => Math.ceil(slots / page) * 2 * headDim,
    }),
  },
  ({ ops, at, queries: q, keys: k }, { page }) =>
    ops.kernel(pageBound, { queries: q, keys: k }, { page: Math.min(page, Math.max(1, at.slots)) }),
);
