import { kernel } from '@kv/core';
import type { Ops, Tensor } from '@kv/core';

/** ε of eq. 1, which keeps the signature of a zero vector finite. */
const EPSILON = 1e-8;

/** Values and positions of one layer, `[G, n, d]` and u32 `[G, n]`. */
export interface LayerValues {
  readonly ops: Ops;
  readonly values: Tensor;
  readonly positions: Tensor;
}

/** Returns the values of each slot's own KV head with unit length, `[G, n, d]`. */
export const ownSignatures = ({ ops, values }: LayerValues): Tensor =>
  ops.scale(values, ops.div(1, ops.add(ops.norm(values), EPSILON)));

/**
 * Returns signatures by position, `[1, N, d]`: the mean of the values over every head of these layers that holds the
 * token, with unit length.
 *
 * @remarks Eq. 1. Where all heads hold the token it is the paper's mean over layers and heads.
 */
export function signatureTable(layers: readonly LayerValues[], length: number): Tensor {
  const { ops, values } = layers[0],
    d = values.shape[2];
  const start = ops.from({ data: new Float32Array(length * d), shape: [1, length, d] });
  const total = layers.reduce(
    (sum, { values: v, positions: p }) =>
      ops.kernel(addByPosition, { total: sum, values: v, positions: p, held: p.lengths ?? everySlot(ops, p) }),
    start,
  );
  const holders = layers
    .map(({ positions: p }) => ops.reduce('sum', ops.groupSlots('sum', ops.fill(p, 1), p, length), 'rows'))
    .reduce((a, b) => ops.add(a, b)); // [1, N]
  const size = ops.add(ops.norm(total), ops.mul(holders, EPSILON));
  return ops.scale(total, ops.div(1, ops.max(size, 1e-30))); // positions that no head holds stay 0
}

function everySlot(ops: Ops, { shape: [rows = 0, slots = 0] }: Tensor): Tensor {
  return ops.from({ data: new Uint32Array(rows).fill(slots), shape: [rows] }, 'u32');
}

/**
 * `total` `[1, N, d]` plus, at every position, the values of the heads that hold it. `held` u32 `[G]` is the number of
 * valid slots. O(N d G log n).
 */
export const addByPosition = kernel({
  id: 'add-by-position',
  inputs: { total: 'f32', values: 'f32', positions: 'u32', held: 'u32' },
  output: { shape: ({ total }) => total },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let d = total_shape.z;
  let want = index / d;
  let slots = positions_shape.y;
  var sum = total[index];
  for (var g = 0u; g < positions_shape.x; g++) {
    var low = 0u;
    var high = held[g];
    while (low < high) { let mid = (low + high) / 2u; if (positions[g * slots + mid] < want) { low = mid + 1u; } else { high = mid; } }
    if (low < held[g] && positions[g * slots + low] == want) { sum += values[(g * slots + low) * d + index % d]; }
  }
  output[index] = sum;
}`,
  ref({ total, values, positions: p, held }, _, out) {
    const [rows = 0, slots = 0] = p.shape,
      d = total.shape[2],
      v = values.data;
    out.set(total.data);
    for (let g = 0; g < rows; g++)
      for (let i = 0; i < held.data[g]; i++)
        for (let c = 0, to = p.data[g * slots + i] * d, from = (g * slots + i) * d; c < d; c++)
          out[to + c] += v[from + c];
  },
});
