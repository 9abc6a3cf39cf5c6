import type { GpuKernel } from '@kv/gpu';
import { MEMORY, SOFTPLUS } from '../wgsl/memory.ts';
import { SIGMOID } from '../wgsl/sigmoid.ts';
import { TOTAL } from '../wgsl/total.ts';

/**
 * One workgroup: a value head of a gated delta rule, token after token. Each thread has columns of the head's memory S,
 * `[key_dim, value_dim]`, which a token decays, corrects and reads:
 *
 *     S *= g;  S += k (beta * (v - S^T k))^T;  o = S^T q
 *
 * where q and k are heads of `mixed [m, channels]`, `[q | k | v]`, divided by their lengths, and rows `[z | b | a]` of `x`
 * give beta, g and the gate of the normed o, which goes to `out [m, heads * value_dim]`. The memory is read from `state`
 * and written to `next`, from element `memories` on.
 */
export const gatedDelta: GpuKernel<
  'x' | 'mixed' | 'decay' | 'time_bias' | 'gain' | 'state' | 'out' | 'next',
  | 'x_at'
  | 'x_stride'
  | 'm'
  | 'channels'
  | 'heads'
  | 'key_heads'
  | 'key_dim'
  | 'value_dim'
  | 'tiled'
  | 'memories'
  | 'eps'
> = {
  id: 'model:gated-delta',
  buffers: {
    ...{ x: 'f32', mixed: 'f32', decay: 'f32', time_bias: 'f32', gain: 'f32', state: 'f32' },
    ...{ out: ['f32', 'write'], next: ['f32', 'write'] },
  },
  scalars: {
    ...{ x_at: 'u32', x_stride: 'u32', m: 'u32', channels: 'u32', heads: 'u32', key_heads: 'u32' },
    ...{ key_dim: 'u32', value_dim: 'u32', tiled: 'u32', memories: 'u32', eps: 'f32' },
  },
  threads: 64,
  per: 'group',
  operations: ({ m, heads, key_dim, value_dim }) =>
    m * heads * (7 * key_dim * value_dim + 4 * key_dim + 12 * value_dim),
  source: /* wgsl */ `
${TOTAL}
${SIGMOID}
${SOFTPLUS}
${MEMORY}
fn run(group: u32, lane: u32) {
  let keys = params.key_heads * params.key_dim;
  let values = params.heads * params.value_dim;
  let key = select(group * params.key_heads / params.heads, group % params.key_heads, params.tiled == 1u);
  let first = params.memories + group * params.key_dim * params.value_dim;
  for (var r = 0u; r < params.m; r++) {
    let q = r * params.channels + key * params.key_dim;
    let k = q + keys;
    let v = r * params.channels + 2u * keys + group * params.value_dim;
    let z = params.x_at + r * params.x_stride + group * params.value_dim;
    let b = params.x_at + r * params.x_stride + values + group;
    let to = r * values + group * params.value_dim;
    var q_squares = 0.0;
    var k_squares = 0.0;
    for (var i = lane; i < params.key_dim; i += 64u) {
      q_squares += mixed[q + i] * mixed[q + i];
      k_squares += mixed[k + i] * mixed[k + i];
    }
    let by_q = inverseSqrt(total(lane, q_squares) + 1e-6) * inverseSqrt(f32(params.key_dim));
    let by_k = inverseSqrt(total(lane, k_squares) + 1e-6);
    let beta = sigmoid_of(x[b]);
    let g = exp(decay[group] * softplus_of(x[b + params.heads] + time_bias[group]));
    var squares = 0.0;
    for (var j = lane; j < params.value_dim; j += 64u) {
      var seen = 0.0;
      for (var i = 0u; i < params.key_dim; i++) {
        seen += memory(r, first + i * params.value_dim + j) * (mixed[k + i] * by_k);
      }
      let change = beta * (mixed[v + j] - g * seen);
      let o = take_up(r, first + j, g, change, k, by_k, q, by_q);
      out[to + j] = o;
      squares += o * o;
    }
    let scale = inverseSqrt(total(lane, squares) / f32(params.value_dim) + params.eps);
    for (var j = lane; j < params.value_dim; j += 64u) {
      let gate = x[z + j];
      out[to + j] = out[to + j] * scale * gain[j] * (gate * sigmoid_of(gate));
    }
  }
}`,
};
