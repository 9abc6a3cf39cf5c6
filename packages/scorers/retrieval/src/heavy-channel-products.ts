import { count, kernel, keys, queries, scorer } from '@kv/core';
import { channelSizes as plainSizes } from '@kv/core/shared';
import { loopBytes } from './heavy-channels-loop.ts';
import type { Ops, Tensor } from '@kv/core';

/** Vectors whose sizes are summed together: a device sums several such parts at the same time. */
const PART = 256;

/** Σ |x_c| of each channel over every `PART` vectors, `[r, ⌈n / PART⌉, d]`. */
export const channelSizes = kernel({
  id: 'channel-sizes',
  inputs: { x: 'f32' },
  params: { part: 'u32' },
  ragged: 'x',
  inPlace: ['x'],
  output: { dense: true, shape: ({ x: [r, n, d] }, { part }) => [r, Math.ceil(n / part), d] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = x_shape.y; let d = x_shape.z; let parts = (n + params.part - 1u) / params.part;
  let row = index / (parts * d); let first = index / d % parts * params.part;
  let end = min(first + params.part, x_lengths[row]);
  var sum = 0.0;
  for (var i = first; i < end; i++) { sum += abs(x[(row * n + i) * d + index % d]); }
  output[index] = sum;
}`,
  ref({ x }, { part }, out, lengths, products) {
    const [rows = 0, n = 0, d = 0] = x.shape,
      { data, apart = n * d } = x,
      parts = Math.ceil(n / part),
      sizes = products.sizes ?? plainSizes;
    for (let r = 0; r < rows; r++)
      for (let first = 0, to = r * parts * d; first < lengths[r]; first += part, to += d) {
        const last = Math.min(first + part, lengths[r]);
        sizes(data.subarray(r * apart + first * d, r * apart + last * d), d, out.subarray(to, to + d) as Float32Array);
      }
  },
});

/** Σ |x_c| of each channel, `[r, d]`: in proportion to the means. */
const sizesOf = (ops: Ops, x: Tensor): Tensor =>
  ops.reduce('sum', ops.kernel(channelSizes, { x }, { part: PART }), 'slots');

/**
 * Double Sparsity's label score: q·k over the few channels that carry most of it, those with the largest mean |q_c|
 * times mean |k_c| of the head.
 *
 * @remarks Yang et al. 2024, arXiv:2408.07092. Scores on query rows `[H, n]`. The authors rank channels on calibration
 * texts by the mean |q_c k_c|; here the sequence's own keys and last queries rank them. Reads `channels` of the d
 * numbers of a key. O(H n d) here, since channels are ranked again at every call.
 */
export const heavyChannelProducts = scorer(
  'heavyChannelProducts',
  {
    source: 'Yang et al. 2024, arXiv:2408.07092',
    says: 'Products of query and key over the few channels that carry most of them.',
    options: {
      channels: count(16, 'channels', 'Channels that stand for a whole key.'),
      window: count(32, 'queries', 'Last queries by which channels are ranked.'),
    },
    needs: ({ window }) => [queries(window), keys],
    loop: ({ channels, window }) => ({
      bytes: loopBytes,
      words: [channels],
      window,
      index: { slots: PART, numbers: (d) => (PART + 2) * d },
      rests: ({ headDim }) => headDim > 256, // its channels lie in a list before slots do
      reads: ({ slots, headDim }) => Math.min(channels, headDim) * slots,
    }),
  },
  ({ ops, queries: q, keys: k }, { channels }) => {
    const [H = 1, w = 1, d = 1] = q.shape;
    const sizes = ops.reshape(ops.mul(sizesOf(ops, q), sizesOf(ops, k)), [H, d]),
      heavy = ops.less(ops.rank(sizes, 'row'), channels);
    const newest = ops.reshape(ops.take(q, ops.from({ data: Uint32Array.of(w - 1), shape: [1, 1] })), [H, d]);
    return ops.div(ops.dot(ops.mul(newest, heavy), k), Math.sqrt(Math.min(channels, d)));
  },
);
