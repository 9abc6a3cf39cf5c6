import type { GpuKernel } from '@kv/gpu';
import { variants } from '../variants.ts';
import { ORDERED } from '../wgsl/ordered.ts';
import { SIGMOID } from '../wgsl/sigmoid.ts';
import { TOTAL } from '../wgsl/total.ts';

/** How scores of a router become shares. */
export interface ScoreRouting {
  /** Experts of the layer. */
  readonly experts: number;
  /** `sigmoid` of each score, or exponentials, whose sum is divided by. */
  readonly sigmoid: boolean;
  /** Whether a number per expert is added to its score for choosing. */
  readonly biased: boolean;
  /** Whether a number per expert multiplies its share. */
  readonly scaled: boolean;
  /**
   * Whether shares are divided by their sum over the chosen experts, which of sigmoids begins at 1e-6, instead of, of
   * exponentials, over all.
   */
  readonly normalised: boolean;
}

/**
 * One workgroup: the `ranks` experts of a row of scores that have most, and their shares, in the order of their numbers; ties go to
 * the lower number, and NaN is below everything.
 */
export const route: (
  routing: ScoreRouting,
) => GpuKernel<'x' | 'bias' | 'factors' | 'chosen' | 'shares', 'x_at' | 'x_stride' | 'ranks' | 'scale'> = variants(
  ({ experts, sigmoid, biased, scaled, normalised }) => {
    const score = 'x[params.x_at + group * params.x_stride + e]';
    return {
      id: `model:route:${experts}:${sigmoid}:${biased}:${scaled}:${normalised}`,
      buffers: {
        ...{ x: 'f32', ...(biased && { bias: 'f32' }), ...(scaled && { factors: 'f32' }) },
        ...{ chosen: ['u32', 'write'], shares: ['f32', 'write'] },
      },
      scalars: { x_at: 'u32', x_stride: 'u32', ranks: 'u32', scale: 'f32' },
      threads: 64,
      per: 'group',
      operations: ({ count, ranks }) => count * experts * (ranks + 1),
      source: /* wgsl */ `
${ORDERED}
${SIGMOID}
${TOTAL}
var<workgroup> left: array<u32, ${experts}>;
var<workgroup> keys: array<u32, 64>;
var<workgroup> places: array<u32, 64>;
fn run(group: u32, lane: u32) {
  let to = group * params.ranks;
  for (var e = lane; e < ${experts}u; e += 64u) {
    // 0 is an expert that was chosen
    left[e] = max(1u, ordered(bitcast<u32>(${sigmoid && biased ? `sigmoid_of(${score})` : score}${biased ? ' + bias[e]' : ''})));
  }
  var best = 0.0;
  var sum = 0.0;
  for (var rank = 0u; rank < params.ranks; rank++) {
    var key = 0u;
    var place = lane; // lanes without an expert left lose
    for (var e = lane; e < ${experts}u; e += 64u) { if (left[e] > key) { key = left[e]; place = e; } }
    keys[lane] = key;
    places[lane] = place;
    for (var step = 32u; step > 0u; step /= 2u) {
      workgroupBarrier();
      if (lane < step) {
        let other = lane + step;
        if (keys[other] > keys[lane] || (keys[other] == keys[lane] && places[other] < places[lane])) {
          keys[lane] = keys[other];
          places[lane] = places[other];
        }
      }
    }
    workgroupBarrier();
    let e = places[0];
    let own = ${score};
    if (rank == 0u) { best = own; }
    let share = ${sigmoid ? 'sigmoid_of(own)' : 'exp(own - best)'};
    sum += share;
    if (lane == 0u) {
      left[e] = 0u;
      var at = to + rank;
      for (; at > to && chosen[at - 1u] > e; at--) { chosen[at] = chosen[at - 1u]; shares[at] = shares[at - 1u]; }
      chosen[at] = e;
      shares[at] = share;
    }
    workgroupBarrier();
  }
  ${
    sigmoid || normalised
      ? ''
      : /* wgsl */ `var mine = 0.0;
  for (var e = lane; e < ${experts}u; e += 64u) { mine += exp(${score} - best); }
  sum = total(lane, mine);`
  }
  if (lane != 0u) { return; }
  for (var rank = 0u; rank < params.ranks; rank++) {
    shares[to + rank] *= params.scale${scaled ? ' * factors[chosen[to + rank]]' : ''}${sigmoid && !normalised ? '' : ` / (sum${sigmoid ? ' + 1e-6' : ''})`};
  }
}`,
    };
  },
);
