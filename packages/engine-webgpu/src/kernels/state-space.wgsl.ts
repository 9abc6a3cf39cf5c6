import type { GpuKernel } from '@kv/gpu';
import { MEMORY, SOFTPLUS } from '../wgsl/memory.ts';
import { SIGMOID } from '../wgsl/sigmoid.ts';

/**
 * One workgroup: a head of a state space, token after token. Each thread has columns of the head's memory S, `[key_dim,
 * value_dim]`, which a token decays, adds to and reads:
 *
 *     S = g S + B (dt x)^T;  y = S^T C + skip x
 *
 * where x, B and C are parts of `mixed [m, channels]`, B and C those of the head's group, and rows of `x` give dt (from column
 * `times` on) and, first, the gate z: y silu(z) goes to `out [m, heads * value_dim]`. `rule [3, heads]` has decay, time bias and
 * skip. The memory is read from `state` and written to `next`, from element `memories` on.
 */
export const stateSpace: GpuKernel<
  'x' | 'mixed' | 'rule' | 'state' | 'out' | 'next',
  | 'x_at'
  | 'x_stride'
  | 'm'
  | 'channels'
  | 'times'
  | 'heads'
  | 'groups'
  | 'key_dim'
  | 'value_dim'
  | 'memories'
  | 'least'
  | 'most'
> = {
  id: 'model:state-space',
  buffers: { x: 'f32', mixed: 'f32', rule: 'f32', state: 'f32', out: ['f32', 'write'], next: ['f32', 'write'] },
  scalars: {
    ...{ x_at: 'u32', x_stride: 'u32', m: 'u32', channels: 'u32', times: 'u32', heads: 'u32', groups: 'u32' },
    ...{ key_dim: 'u32', value_dim: 'u32', memories: 'u32', least: 'f32', most: 'f32' },
  },
  threads: 64,
  per: 'group',
  operations: ({ m, heads, key_dim, value_dim }) => m * heads * value_dim * (5 * key_dim + 9),
  source: /* wgsl */ `
${SIGMOID}
${SOFTPLUS}
${MEMORY}
fn run(group: u32, lane: u32) {
  let inner = params.heads * params.value_dim;
  let first = params.memories + group * params.key_dim * params.value_dim;
  let own = group * params.value_dim;
  for (var r = 0u; r < params.m; r++) {
    let k = r * params.channels + inner + group * params.groups / params.heads * params.key_dim;
    let q = k + params.groups * params.key_dim;
    let row = params.x_at + r * params.x_stride;
    let step = softplus_of(x[row + params.times + group] + rule[params.heads + group]);
    let dt = min(max(step, params.least), params.most);
    let g = exp(rule[group] * dt);
    for (var j = lane; j < params.value_dim; j += 64u) {
      let given = mixed[r * params.channels + own + j];
      let y = take_up(r, first + j, g, dt * given, k, 1.0, q, 1.0) + rule[2u * params.heads + group] * given;
      let gate = x[row + own + j];
      out[r * inner + own + j] = y * (gate * sigmoid_of(gate));
    }
  }
}`,
};
